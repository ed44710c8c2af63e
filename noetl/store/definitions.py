"""The tables of what is run: compiled nets, the catalog, credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, bindparam, case, delete, func, insert, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.concern import Concern
from noetl.store.schema import credential, net, playbook
from noetl.usecases.ports import CredentialRow, PlaybookRow

_p = playbook.c
#: In the order of PlaybookRow's fields.
PLAYBOOK: Final[Sequence[Column[Any]]] = (
    _p.path,
    _p.version,
    _p.content,
    _p.content_sha256,
    _p.digest,
    _p.created_at,
    _p.name,
    _p.description,
    _p.warnings,
)
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

_net = select(net.c.body).where(net.c.digest == bindparam("digest"))
_add_playbook = insert(playbook)
_keep_warnings = (
    update(playbook)
    .where(_p.path == bindparam("of_path"), _p.version == bindparam("of_version"))
    .values(warnings=bindparam("warnings"))
)
_versions = select(*PLAYBOOK).where(_p.path == bindparam("path")).order_by(_p.version.desc())
_newest_of = _versions.limit(1)
_version = select(*PLAYBOOK).where(_p.path == bindparam("path"), _p.version == bindparam("version"))
_other = playbook.alias("other")
_newest = (
    select(*PLAYBOOK)
    .where(_p.version == select(func.max(_other.c.version)).where(_other.c.path == _p.path).scalar_subquery())
    .order_by(_p.path)
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


def _playbook(found: Sequence[Any]) -> PlaybookRow:
    row = PlaybookRow(*found)
    return replace(row, warnings=tuple(codec.loads(found[-1])))


def _dumped(warnings: Sequence[JsonMap]) -> str:
    return codec.dumps(list(warnings), "list of warnings")


def _put_net(dialect: Any) -> Any:
    return dialect.insert(net).on_conflict_do_nothing(index_elements=[net.c.digest])


def _save_credential(dialect: Any) -> Any:
    insert = dialect.insert(credential)
    kept = {name: insert.excluded[name] for name in ("type", "data", "updated_at")}
    return insert.on_conflict_do_update(index_elements=[_r.name], set_=kept)


_nets = {"postgresql": _put_net(postgresql), "sqlite": _put_net(sqlite)}
_saves = {"postgresql": _save_credential(postgresql), "sqlite": _save_credential(sqlite)}


class Definitions(Concern):
    """The methods of `Transaction` on nets, playbooks and credentials."""

    __slots__ = ()

    def put_net(self, digest: str, body: JsonMap) -> None:
        values = {"digest": digest, "body": codec.dumps(body, "net")}
        self._session.write(_nets[self._session.dialect], values)

    def net(self, digest: str) -> JsonMap | None:
        body = self._session.read(_net, {"digest": digest}).scalar()
        found: JsonMap | None = None if body is None else codec.loads(body)
        return found

    def add_playbook(self, row: PlaybookRow) -> None:
        """Raises Conflict where that version of the path exists."""
        values = {c.name: getattr(row, c.name) for c in PLAYBOOK}
        self._session.write(_add_playbook, values | {"warnings": _dumped(row.warnings)})

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""
        values = {"of_path": path, "of_version": version, "warnings": _dumped(warnings)}
        self._session.write(_keep_warnings, values)

    def playbook(self, path: str, version: int | None = None) -> PlaybookRow | None:
        if version is None:
            found = self._session.read(_newest_of, {"path": path}).first()
        else:
            found = self._session.read(_version, {"path": path, "version": version}).first()
        return _playbook(found) if found else None

    def playbooks(self) -> list[PlaybookRow]:
        return [_playbook(found) for found in self._session.read(_newest)]

    def playbook_versions(self, path: str) -> list[PlaybookRow]:
        """Newest first."""
        return [_playbook(found) for found in self._session.read(_versions, {"path": path})]

    def save_credential(self, row: CredentialRow) -> None:
        """Creates it, or replaces all but `created_at`."""
        label = "" if row.scope == "global" else row.name
        values = {**asdict(row), "name": row.key, "label": label}
        self._session.write(_saves[self._session.dialect], values)

    def credential(self, key: str) -> CredentialRow | None:
        found = self._session.read(_credential, {"key": key}).first()
        return CredentialRow(*found) if found else None

    def credentials(self, name: str | None = None) -> list[CredentialRow]:
        """All, or those of one name, ordered by key."""
        if name is None:
            return [CredentialRow(*found) for found in self._session.read(_credentials)]
        return [CredentialRow(*found) for found in self._session.read(_called, {"called": name})]

    def reencrypt_credential(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""
        values = {"key": row.key, "before": row.data, "after": data}
        return self._session.write(_reencrypt, values).rowcount > 0

    def delete_credential(self, key: str) -> bool:
        return self._session.write(_delete, {"key": key}).rowcount > 0

    def executions_with_credentials(self) -> list[str]:
        """The ids of those that credentials are kept for."""
        return [place for (place,) in self._session.read(_owners)]

    def delete_credentials_of(self, execution_id: str) -> None:
        self._session.write(_delete_of, {"owner": execution_id})
