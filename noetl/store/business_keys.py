"""The `business_key` table: which execution each key of a playbook means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, select, update

from noetl.store import codec
from noetl.store.schema.executions import business_key
from noetl.store.session import SqlTable, lines, upserts
from noetl.usecases.ports import NamedKey

_c = business_key.c
_claim: Final = upserts(business_key)
_one = select(_c.execution_id).where(_c.key == bindparam("key"), _c.path == bindparam("path"))
_by_keys = (
    select(_c.path, _c.key, _c.execution_id)
    .where(_c.key.in_(bindparam("keys", expanding=True)))
    .order_by(_c.path, _c.key)
)
_take_over = (
    update(business_key)
    .where(
        _c.key == bindparam("of_key"), _c.path == bindparam("of_path"), _c.execution_id == bindparam("holder")
    )
    .values(execution_id=bindparam("new"))
)


class SqlBusinessKeys(SqlTable):
    """`noetl.usecases.ports.BusinessKeys`."""

    def claim(self, claims: Mapping[NamedKey, str]) -> Mapping[NamedKey, str]:
        rows = [
            {"key": name.key, "path": name.path, "execution_id": codec.number(execution_id)}
            for name, execution_id in claims.items()
        ]
        if rows:
            self._session.later(_claim[self._session.dialect], rows)
        held = self.find([name.key for name in claims])
        return {name: held[name] for name in claims}

    def take_over(self, name: NamedKey, holder: str, execution_id: str) -> bool:
        values = {
            "of_key": name.key,
            "of_path": name.path,
            "holder": codec.number(holder),
            "new": codec.number(execution_id),
        }
        return self._session.write(_take_over, values).rowcount > 0

    def get(self, name: NamedKey) -> str | None:
        found = self._session.read(_one, {"key": name.key, "path": name.path}).scalar()
        return None if found is None else str(found)

    def find(self, keys: Sequence[str]) -> Mapping[NamedKey, str]:
        found: dict[NamedKey, str] = {}
        for some in lines(keys):
            for path, key, number in self._session.read(_by_keys, {"keys": some}):
                found[NamedKey(path, key)] = str(number)
        return found
