"""The tables around the log: snapshots, idempotency keys, dead letters, workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.concern import Concern
from noetl.store.rules import legible, letter
from noetl.store.schema import dead_letter, idempotency, snapshot, worker
from noetl.store.session import lines
from noetl.usecases.ports import KeyOwner, Snapshot, WorkerRow

_s, _i, _d, _w = snapshot.c, idempotency.c, dead_letter.c, worker.c

_snapshot = select(_s.version, _s.schema, _s.state).where(_s.execution_id == bindparam("id"))
_owners = select(_i.key, _i.request_sha256, _i.execution_id).where(
    _i.key.in_(bindparam("keys", expanding=True))
)
_bury = insert(dead_letter)
_letters = (
    select(_d.id, _d.source, _d.reason, _d.body, _d.recorded_at)
    .order_by(_d.id.desc())
    .limit(bindparam("limit"))
)
#: Not `now()`, which is the beginning of the transaction.
_now = select(func.clock_timestamp())
_alive = (
    select(_w.name, _w.role, _w.queues, _w.started_at, _w.seen_at, _w.skew_s)
    .where(_w.seen_at > bindparam("after"))
    .order_by(_w.name)
)


def _save_snapshot(dialect: Any) -> Any:
    insert = dialect.insert(snapshot)
    newer = {name: insert.excluded[name] for name in ("version", "schema", "state")}
    return insert.on_conflict_do_update(
        index_elements=[_s.execution_id], set_=newer, where=_s.version <= insert.excluded.version
    )


def _claim(dialect: Any) -> Any:
    return dialect.insert(idempotency).on_conflict_do_nothing(index_elements=[_i.key])


def _see(dialect: Any) -> Any:
    insert = dialect.insert(worker)
    seen = {name: insert.excluded[name] for name in ("role", "queues", "started_at", "seen_at", "skew_s")}
    return insert.on_conflict_do_update(index_elements=[_w.name], set_=seen)


_snapshots = {"postgresql": _save_snapshot(postgresql), "sqlite": _save_snapshot(sqlite)}
_claims = {"postgresql": _claim(postgresql), "sqlite": _claim(sqlite)}
_sees = {"postgresql": _see(postgresql), "sqlite": _see(sqlite)}


class Records(Concern):
    """The methods of `Transaction` on snapshots, idempotency keys, dead letters and workers."""

    __slots__ = ()

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """One that is older than what is kept is dropped."""
        values = {
            "execution_id": codec.number(snapshot.execution_id),
            "version": snapshot.version,
            "schema": snapshot.schema,
            "state": codec.dumps(snapshot.state, "snapshot"),
        }
        self._session.write(_snapshots[self._session.dialect], values)

    def snapshot(self, execution_id: str) -> Snapshot | None:
        found = self._session.read(_snapshot, {"id": codec.number(execution_id)}).first()
        if found is None:
            return None
        version, schema, state = found
        return Snapshot(execution_id, version, schema, codec.loads(state))

    def claim_keys(self, claims: Mapping[str, KeyOwner], now: datetime) -> Mapping[str, KeyOwner]:
        found: dict[str, KeyOwner] = {}
        for keys in lines(list(claims)):
            rows = [_claimed(key, claims[key], now) for key in keys]
            self._session.later(_claims[self._session.dialect], rows)
            for key, sha256, owner in self._session.read(_owners, {"keys": keys}):
                found[key] = KeyOwner(sha256, str(owner))
        return found

    def add_dead_letter(self, source: str, reason: str, body: str, now: datetime) -> None:
        values = {
            "source": legible(source),
            "reason": legible(reason),
            "body": legible(body),
            "recorded_at": now,
        }
        self._session.write(_bury, values)

    def dead_letters(self, limit: int = 50) -> list[JsonMap]:
        """Newest first, as `letter` shapes them."""
        return [letter(*found) for found in self._session.read(_letters, {"limit": limit})]

    def now(self) -> datetime | None:
        """Of SQLite None: it asks the machine that it runs on."""
        if self._session.dialect == "sqlite":
            return None
        found: datetime = self._session.read(_now).scalar()
        return found

    def see_worker(self, row: WorkerRow) -> None:
        values = {
            "name": row.name,
            "role": row.role,
            "queues": codec.dumps(row.queues),
            "started_at": row.started_at,
            "seen_at": row.seen_at,
            "skew_s": row.skew_s,
        }
        self._session.write(_sees[self._session.dialect], values)

    def workers(self, seen_after: datetime) -> list[WorkerRow]:
        """Ordered by name."""
        return [_worker(found) for found in self._session.read(_alive, {"after": seen_after})]


def _claimed(key: str, owner: KeyOwner, now: datetime) -> dict[str, Any]:
    return {
        "key": key,
        "request_sha256": owner.request_sha256,
        "execution_id": codec.number(owner.execution_id),
        "created_at": now,
    }


def _worker(columns: Sequence[Any]) -> WorkerRow:
    name, role, queues, started_at, seen_at, skew_s = columns
    return WorkerRow(name, role, tuple(codec.loads(queues)), started_at, seen_at, skew_s)
