"""The `token` table: who may ask for what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, select, update

from noetl.store import codec
from noetl.store.schema.access import token
from noetl.store.session import SqlTable, columns_of, upserts
from noetl.usecases.ports import TokenRow

_t = token.c
_COLUMNS: Final = columns_of(token, TokenRow)
_LISTS: Final = (_COLUMNS.index(_t.groups), _COLUMNS.index(_t.grants))
_insert: Final = upserts(token)
_one = select(*_COLUMNS).where(_t.token_id == bindparam("id"))
_all = select(*_COLUMNS).order_by(_t.created_at, _t.token_id)
_revoke = (
    update(token)
    .where(_t.token_id == bindparam("id"), _t.revoked_at.is_(None))
    .values(revoked_at=bindparam("at", type_=_t.revoked_at.type))
)
_see = (
    update(token).where(_t.token_id == bindparam("id")).values(used_at=bindparam("at", type_=_t.used_at.type))
)


class SqlTokens(SqlTable):
    """`noetl.usecases.ports.Tokens`."""

    def add(self, row: TokenRow) -> bool:
        values = {column.name: getattr(row, column.name) for column in _COLUMNS}
        values |= {name: codec.dumps(list(values[name])) for name in ("groups", "grants")}
        return self._session.write(_insert[self._session.dialect], values).rowcount > 0

    def get(self, token_id: str) -> TokenRow | None:
        found = self._session.read(_one, {"id": codec.clean(token_id)}).first()
        return None if found is None else _row(found)

    def find(self) -> list[TokenRow]:
        return [_row(columns) for columns in self._session.read(_all)]

    def revoke(self, token_id: str, at: datetime) -> bool:
        return self._session.write(_revoke, {"id": token_id, "at": at}).rowcount > 0

    def see(self, token_id: str, at: datetime) -> None:
        self._session.write(_see, {"id": token_id, "at": at})


def _row(columns: Sequence[Any]) -> TokenRow:
    values = list(columns)
    for index in _LISTS:
        values[index] = tuple(codec.loads(values[index]))
    return TokenRow(*values)
