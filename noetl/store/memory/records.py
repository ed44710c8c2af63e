"""Snapshots, idempotency keys, dead letters and workers in memory."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.memory.tables import MemoryTable
from noetl.store.rules import legible, letter, missing
from noetl.usecases.ports import KeyOwner, Snapshot, WorkerRow


class MemorySnapshots(MemoryTable):
    """`noetl.usecases.ports.Snapshots`."""

    __slots__ = ()

    def save(self, snapshot: Snapshot) -> None:
        """One that is older than what is kept is dropped."""
        tables, key = self._journal.locked, snapshot.execution_id
        text = codec.dumps(snapshot.state, "snapshot")
        if key not in tables.executions.rows:
            raise self._journal.fail(missing(key))
        before = tables.snapshots.rows.get(key)
        if before is None or before[0] <= snapshot.version:
            self._journal.put(tables.snapshots, key, (snapshot.version, snapshot.schema, text))

    def get(self, execution_id: str) -> Snapshot | None:
        found = self._journal.tables.snapshots.rows.get(execution_id)
        if found is None:
            return None
        version, schema, text = found
        return Snapshot(execution_id, version, schema, codec.loads(text))


class MemoryIdempotencyKeys(MemoryTable):
    """`noetl.usecases.ports.IdempotencyKeys`."""

    __slots__ = ()

    def claim(
        self,
        claims: Mapping[str, KeyOwner],
        now: datetime,  # noqa: ARG002 - kept by databases, for retention
    ) -> Mapping[str, KeyOwner]:
        table = self._journal.locked.idempotency
        for key, owner in claims.items():
            if key not in table.rows:
                self._journal.put(table, key, owner)
        return {key: table.rows[key] for key in claims}


class MemoryDeadLetters(MemoryTable):
    """`noetl.usecases.ports.DeadLetters`."""

    __slots__ = ()

    def add(self, source: str, reason: str, body: str, now: datetime) -> None:
        table = self._journal.locked.dead_letters
        number = max(table.rows, default=0) + 1
        self._journal.put(table, number, letter(number, legible(source), legible(reason), legible(body), now))

    def newest(self, limit: int = 50) -> list[JsonMap]:
        """Newest first, as `letter` shapes them."""
        rows = self._journal.tables.dead_letters.rows
        return [dict(rows[number]) for number in sorted(rows, reverse=True)[:limit]]


class MemoryWorkers(MemoryTable):
    """`noetl.usecases.ports.Workers`."""

    __slots__ = ()

    def see(self, row: WorkerRow) -> None:
        self._journal.put(self._journal.locked.workers, row.name, row)

    def alive(self, seen_after: datetime) -> list[WorkerRow]:
        """Ordered by name."""
        rows = self._journal.tables.workers.rows.values()
        return sorted((row for row in rows if row.seen_at > seen_after), key=lambda row: row.name)
