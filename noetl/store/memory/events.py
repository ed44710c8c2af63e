"""The log in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from noetl.errors import Conflict, VersionConflict
from noetl.facts.events import SCHEMA, Draft, Event, LoopClaimed
from noetl.store import codec, envelope
from noetl.store.memory.tables import Logged, MemoryTable
from noetl.store.rules import aware, known_types, missing


class MemoryEvents(MemoryTable):
    """`noetl.usecases.ports.Events`."""

    __slots__ = ()

    def append(
        self, execution_id: str, expected_version: int, drafts: Sequence[Draft], now: datetime
    ) -> list[Event]:
        journal = self._journal
        row = journal.locked.executions.rows.get(execution_id)
        first = expected_version + 1
        logged = [_logged(first + i, draft, now) for i, draft in enumerate(drafts)]
        if row is None:
            raise journal.fail(missing(execution_id))
        if row.head_version != expected_version:
            raise journal.fail(VersionConflict(execution_id, expected_version, row.head_version))
        self._claim_keys(execution_id, drafts)
        moved = replace(row, head_version=expected_version + len(drafts), updated_at=aware(now))
        journal.put(journal.tables.executions, execution_id, moved)
        journal.extend(execution_id, logged)
        journal.changed.add(execution_id)
        return [Event(execution_id, first + i, now, draft) for i, draft in enumerate(drafts)]

    def _claim_keys(self, execution_id: str, drafts: Sequence[Draft]) -> None:
        table = self._journal.tables.dedup
        for draft in drafts:
            if draft.dedup_key is None:
                continue
            key = (execution_id, draft.dedup_key)
            if key in table.rows:
                raise self._journal.fail(
                    Conflict(f"It is already recorded: {draft.dedup_key} in execution {execution_id}.")
                )
            self._journal.put(table, key, True)

    def read(
        self, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
    ) -> list[Event]:
        """`types` may be given by the names that other generations used."""
        wanted = known_types(types)
        stream = self._journal.tables.streams.get(execution_id, [])
        start = max(after + 1 - stream[0][0], 0) if stream else 0  # the stream has no gaps
        rows = (row for row in islice(stream, start, None) if not wanted or row[2] in wanted)
        return [envelope.event(execution_id, row) for row in islice(rows, limit)]

    def tails(self, execution_ids: Sequence[str], limit: int) -> Mapping[str, list[Event]]:
        rows = self._journal.tables.executions.rows
        decided = {one: rows[one].decided_version for one in execution_ids if one in rows}
        found = {one: self.read(one, after=version, limit=limit) for one, version in decided.items()}
        return {one: events for one, events in found.items() if events}

    def of_run(self, execution_id: str, run_id: str, iteration: int | None) -> list[Event]:
        stream = self._journal.tables.streams.get(execution_id, [])
        return [
            envelope.event(execution_id, row)
            for row in stream
            if row[_RUN] == run_id and row[_ITERATION] == iteration
        ]

    def claim_of(self, execution_id: str, run_id: str, index: int) -> Event | None:
        stream = self._journal.tables.streams.get(execution_id, [])
        for row in reversed(stream):
            first = row[_ITERATION]
            if row[_RUN] == run_id and row[2] == LoopClaimed.type and first is not None and first <= index:
                return envelope.event(execution_id, row)
        return None

    def recorded(self, execution_id: str, dedup_key: str) -> bool:
        return (execution_id, dedup_key) in self._journal.tables.dedup.rows


_RUN = envelope.COLUMNS.index("step_run_id")
_ITERATION = envelope.COLUMNS.index("iteration")


def _logged(version: int, draft: Draft, now: datetime) -> Logged:
    return (
        version,
        now,
        draft.fact.type,
        SCHEMA,
        codec.payload(draft.fact),
        draft.source,
        draft.step,
        draft.run_id,
        draft.iteration,
        draft.attempt,
        draft.duration_ms,
        draft.dedup_key,
    )
