"""The table of credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, case, delete, or_, select, text, update

from noetl.store.schema import credential
from noetl.store.session import SqlTable, upserts
from noetl.usecases.ports import CredentialRow

_r = credential.c
#: In the order of CredentialRow's fields; of a scope of its own, `label` is what people call it.
CREDENTIAL: Final[Sequence[ColumnElement[Any]]] = (
    case((_r.label == "", _r.name), else_=_r.label).label("name"),
    _r.type,
    _r.data,
    _r.created_at,
    _r.updated_at,
    _r.scope,
    _r.place,
)


_credential = select(*CREDENTIAL).where(_r.name == bindparam("key"))
_credentials = select(*CREDENTIAL).order_by(_r.name)
_called = (
    select(*CREDENTIAL)
    .where(or_(_r.name == bindparam("called"), _r.label == bindparam("called")))
    .order_by(_r.name)
)
_reencrypt = (
    update(credential)
    .where(_r.name == bindparam("key"), _r.data == bindparam("before"))
    .values(data=bindparam("after"))
)
#: Written out, so that the partial index serves them.
_of_execution = text("scope = 'execution'")
_owners = select(_r.place).where(_of_execution).distinct()
_delete_of = delete(credential).where(_of_execution, _r.place == bindparam("owner"))
_delete = delete(credential).where(_r.name == bindparam("key"))


_save = upserts(credential, ("type", "data", "updated_at"))


class SqlCredentials(SqlTable):
    """`noetl.usecases.ports.Credentials`."""

    __slots__ = ()

    def save(self, row: CredentialRow) -> None:
        """Creates it, or replaces all but `created_at`."""
        label = "" if row.scope == "global" else row.name
        values = {**asdict(row), "name": row.key, "label": label}
        self._session.write(_save[self._session.dialect], values)

    def get(self, key: str) -> CredentialRow | None:
        found = self._session.read(_credential, {"key": key}).first()
        return CredentialRow(*found) if found else None

    def find(self, name: str | None = None) -> list[CredentialRow]:
        """All, or those of one name, ordered by key."""
        given = self._session.read(_called, {"called": name}) if name else self._session.read(_credentials)
        return [CredentialRow(*found) for found in given]

    def reencrypt(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""
        values = {"key": row.key, "before": row.data, "after": data}
        return self._session.write(_reencrypt, values).rowcount > 0

    def delete(self, key: str) -> bool:
        return self._session.write(_delete, {"key": key}).rowcount > 0

    def execution_ids(self) -> list[str]:
        """The ids of those that credentials are kept for."""
        return [place for (place,) in self._session.read(_owners)]

    def delete_of(self, execution_id: str) -> None:
        self._session.write(_delete_of, {"owner": execution_id})
