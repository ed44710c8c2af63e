"""The small tables: nets and playbooks, snapshots, idempotency keys, dead letters, workers and
credentials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Delete,
    bindparam,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.schema.access import credential
from noetl.store.schema.catalog import net, playbook
from noetl.store.schema.executions import idempotency, snapshot
from noetl.store.schema.work import dead_letter, worker
from noetl.store.session import SqlTable, columns_of, lines, upserts
from noetl.usecases.ports import (
    CredentialRow,
    CredentialScope,
    KeyOwner,
    PlaybookHead,
    PlaybookRow,
    Snapshot,
    WorkerRow,
)

_put_net = upserts(net)
_net = select(net.c.body).where(net.c.digest == bindparam("digest"))


class SqlNets(SqlTable):
    """`noetl.usecases.ports.Nets`."""

    def put(self, digest: str, body: JsonMap) -> None:
        values = {"digest": digest, "body": codec.dumps(body, "net")}
        self._session.write(_put_net[self._session.dialect], values)

    def get(self, digest: str) -> JsonMap | None:
        body = self._session.read(_net, {"digest": digest}).scalar()
        found: JsonMap | None = None if body is None else codec.loads(body)
        return found


def _is_no_older(new: Any) -> Any:
    return snapshot.c.version <= new.version


_save_snapshot = upserts(snapshot, ("version", "schema", "state"), only_if=_is_no_older)
_snapshot = select(snapshot.c.version, snapshot.c.schema, snapshot.c.state).where(
    snapshot.c.execution_id == bindparam("id")
)


class SqlSnapshots(SqlTable):
    """`noetl.usecases.ports.Snapshots`."""

    def save(self, snapshot: Snapshot) -> None:
        """One that is older than what is kept is dropped."""
        values = {
            "execution_id": codec.number(snapshot.execution_id),
            "version": snapshot.version,
            "schema": snapshot.schema,
            "state": codec.dumps(snapshot.state, "snapshot"),
        }
        self._session.write(_save_snapshot[self._session.dialect], values)

    def get(self, execution_id: str) -> Snapshot | None:
        found = self._session.read(_snapshot, {"id": codec.number(execution_id)}).first()
        if found is None:
            return None
        version, schema, state = found
        return Snapshot(execution_id, version, schema, codec.loads(state))


_claim_key = upserts(idempotency)
_owners = select(idempotency.c.key, idempotency.c.request_sha256, idempotency.c.execution_id).where(
    idempotency.c.key.in_(bindparam("keys", expanding=True))
)
_give_key = (
    update(idempotency)
    .where(idempotency.c.key == bindparam("of_key"))
    .values(execution_id=bindparam("owner"))
)
_release_key = delete(idempotency).where(idempotency.c.key == bindparam("of_key"))


class SqlIdempotencyKeys(SqlTable):
    """`noetl.usecases.ports.IdempotencyKeys`."""

    def claim(self, claims: Mapping[str, KeyOwner], now: datetime) -> Mapping[str, KeyOwner]:
        found: dict[str, KeyOwner] = {}
        for keys in lines(list(claims)):
            rows = [
                {
                    "key": key,
                    "request_sha256": claims[key].request_sha256,
                    "execution_id": codec.number(claims[key].execution_id),
                    "created_at": now,
                }
                for key in keys
            ]
            self._session.later(_claim_key[self._session.dialect], rows)
            for key, sha256, owner in self._session.read(_owners, {"keys": keys}):
                found[key] = KeyOwner(sha256, str(owner))
        return found

    def give(self, key: str, execution_id: str) -> None:
        self._session.write(_give_key, {"of_key": key, "owner": codec.number(execution_id)})

    def release(self, key: str) -> None:
        self._session.write(_release_key, {"of_key": key})


_add_letter = insert(dead_letter)
_newest_letters = select(dead_letter).order_by(dead_letter.c.id.desc()).limit(bindparam("limit"))


class SqlDeadLetters(SqlTable):
    """`noetl.usecases.ports.DeadLetters`."""

    def add(self, source: str, reason: str, body: str, now: datetime) -> None:
        """The texts are what a broker delivered: NUL, which no database holds, becomes U+FFFD."""
        given = {"source": source, "reason": reason, "body": body}
        texts = {name: codec.clean(text).replace("\0", "\ufffd") for name, text in given.items()}
        self._session.write(_add_letter, {**texts, "recorded_at": now})

    def newest(self, limit: int = 50) -> list[JsonMap]:
        """Newest first: `{id, source, reason, body, recorded_at}`, the instant in ISO 8601."""
        found = self._session.read(_newest_letters, {"limit": limit})
        names = dead_letter.c.keys()
        letters = [dict(zip(names, columns, strict=True)) for columns in found]
        return [letter | {"recorded_at": letter["recorded_at"].isoformat()} for letter in letters]


_see_worker = upserts(worker, ("role", "queues", "started_at", "seen_at", "skew_s"))
_leave_worker = delete(worker).where(worker.c.name == bindparam("name"))
_alive = (
    select(*columns_of(worker, WorkerRow))
    .where(worker.c.seen_at > bindparam("after"))
    .order_by(worker.c.name)
)


class SqlWorkers(SqlTable):
    """`noetl.usecases.ports.Workers`."""

    def see(self, row: WorkerRow) -> None:
        values = asdict(row) | {"queues": codec.dumps(row.queues)}
        self._session.write(_see_worker[self._session.dialect], values)

    def leave(self, name: str) -> None:
        self._session.write(_leave_worker, {"name": name})

    def alive(self, seen_after: datetime) -> list[WorkerRow]:
        """Ordered by name."""
        found = self._session.read(_alive, {"after": seen_after})
        return [
            WorkerRow(name, role, tuple(codec.loads(queues)), *rest) for name, role, queues, *rest in found
        ]


_p = playbook.c
PLAYBOOK: Final = columns_of(playbook, PlaybookRow)


_add_playbook = upserts(playbook)
_keep_warnings = (
    update(playbook)
    .where(_p.path == bindparam("of_path"), _p.version == bindparam("of_version"))
    .values(warnings=bindparam("warnings"))
)
_versions = select(*PLAYBOOK).where(_p.path == bindparam("path")).order_by(_p.version.desc())
_newest_of = _versions.limit(1)
_version = select(*PLAYBOOK).where(_p.path == bindparam("path"), _p.version == bindparam("version"))
_other = playbook.alias("other")
_is_newest = (
    _p.version == select(func.max(_other.c.version)).where(_other.c.path == _p.path).scalar_subquery()
)
_newest = select(*PLAYBOOK).where(_is_newest).order_by(_p.path)
_HEAD: Final = columns_of(playbook, PlaybookHead)
_heads = select(*_HEAD).where(_is_newest)
_heads_of = select(*_HEAD).where(_p.path == bindparam("path")).order_by(_p.version.desc())


def _playbook(found: Sequence[Any]) -> PlaybookRow:
    row = PlaybookRow(*found)
    return replace(row, warnings=tuple(codec.loads(found[-1])))


def _dump_warnings(warnings: Sequence[JsonMap]) -> str:
    return codec.dumps(list(warnings), "list of warnings")


class SqlPlaybooks(SqlTable):
    """`noetl.usecases.ports.Playbooks`."""

    def add(self, row: PlaybookRow) -> bool:
        values = {c.name: getattr(row, c.name) for c in PLAYBOOK} | {"warnings": _dump_warnings(row.warnings)}
        return self._session.write(_add_playbook[self._session.dialect], values).rowcount > 0

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""
        values = {"of_path": path, "of_version": version, "warnings": _dump_warnings(warnings)}
        self._session.write(_keep_warnings, values)

    def get(self, path: str, version: int | None = None) -> PlaybookRow | None:
        if version is None:
            found = self._session.read(_newest_of, {"path": path}).first()
        else:
            found = self._session.read(_version, {"path": path, "version": version}).first()
        return _playbook(found) if found else None

    def newest(self) -> list[PlaybookRow]:
        return [_playbook(found) for found in self._session.read(_newest)]

    def versions(self, path: str) -> list[PlaybookRow]:
        """Newest first."""
        return [_playbook(found) for found in self._session.read(_versions, {"path": path})]

    def heads(self) -> list[PlaybookHead]:
        # Databases order texts as their language does; who goes on behind a path compares them as
        # Python does.
        return sorted(
            (PlaybookHead(*found) for found in self._session.read(_heads)), key=lambda head: head.path
        )

    def heads_of(self, path: str) -> list[PlaybookHead]:
        return [PlaybookHead(*found) for found in self._session.read(_heads_of, {"path": path})]


_r = credential.c
#: In the order of CredentialRow's fields; where there is a `label`, that is what people call it.
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
_credentials = select(*CREDENTIAL).where(_r.scope != "lineage").order_by(_r.name)
_credentials_given = select(*CREDENTIAL).where(_r.scope == "lineage").order_by(_r.name)
_credentials_named = (
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
_credential_owners = select(_r.place).where(_of_execution).distinct()
_delete_credentials_of: Final[Mapping[CredentialScope, Delete]] = {
    "execution": delete(credential).where(_of_execution, _r.place == bindparam("owner")),
    "lineage": delete(credential).where(_r.scope == "lineage", _r.place == bindparam("owner")),
}
_credential_lineages = (
    select(_r.place)
    .where(_r.scope == "lineage", _r.place > bindparam("behind"))
    .distinct()
    .order_by(_r.place)
    .limit(bindparam("most"))
)
_delete_credential = delete(credential).where(_r.name == bindparam("key"))


_save_credential = upserts(credential, ("type", "data", "updated_at"))


class SqlCredentials(SqlTable):
    """`noetl.usecases.ports.Credentials`."""

    def save(self, row: CredentialRow) -> None:
        """Creates it, or replaces all but `created_at`."""
        label = "" if row.scope == "global" else row.name
        values = {**asdict(row), "name": row.key, "label": label}
        self._session.write(_save_credential[self._session.dialect], values)

    def get(self, key: str) -> CredentialRow | None:
        found = self._session.read(_credential, {"key": key}).first()
        return CredentialRow(*found) if found else None

    def find(self, name: str | None = None) -> list[CredentialRow]:
        """All that somebody set, or all of one name, ordered by key."""
        given = (
            self._session.read(_credentials_named, {"called": name})
            if name
            else self._session.read(_credentials)
        )
        return [CredentialRow(*found) for found in given]

    def find_of_lineages(self) -> list[CredentialRow]:
        """What was given to executions, ordered by key."""
        return [CredentialRow(*found) for found in self._session.read(_credentials_given)]

    def reencrypt(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""
        values = {"key": row.key, "before": row.data, "after": data}
        return self._session.write(_reencrypt, values).rowcount > 0

    def delete(self, key: str) -> bool:
        return self._session.write(_delete_credential, {"key": key}).rowcount > 0

    def execution_ids(self) -> list[str]:
        """The ids of those that credentials are kept for until they have ended."""
        return [place for (place,) in self._session.read(_credential_owners)]

    def lineage_ids(self, after: str | None, limit: int) -> list[str]:
        """The ids of those to which secrets were given, ascending as texts, behind `after`."""
        values = {"behind": after or "", "most": limit}
        return [place for (place,) in self._session.read(_credential_lineages, values)]

    def delete_of(self, execution_id: str, scope: CredentialScope = "execution") -> None:
        self._session.write(_delete_credentials_of[scope], {"owner": execution_id})
