"""Executions, their events and loops in memory: the twins of `executions`, `log` and `loops`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import nsmallest
from itertools import islice

from noetl.errors import BadRequest, Conflict, VersionConflict
from noetl.facts.events import SCHEMA, Draft, Event, LoopClaimed
from noetl.facts.json import JsonMap
from noetl.store import codec, envelope
from noetl.store.memory_tables import Concern, Logged
from noetl.store.rules import aware, known_types, missing, not_later, not_of_generation
from noetl.usecases.ports import ExecutionRow, ExecutionStatus, LoopRow, Mark, Owing


def _as_read(row: ExecutionRow) -> ExecutionRow:
    return row if row.error is None else replace(row, error=codec.loads(codec.dumps(row.error)))


class Executions(Concern):
    """The methods of `Transaction` on executions."""

    __slots__ = ()

    def create_execution(self, row: ExecutionRow) -> None:
        if codec.number(row.execution_id) < 0:
            raise BadRequest(f"{row.execution_id!r} is no execution id: a decimal number below 2^63 is.")
        if row.execution_id in self._journal.locked.executions.rows:
            raise self._journal.fail(Conflict(f"It is already recorded: execution {row.execution_id}."))
        for instant in (row.created_at, row.updated_at):
            aware(instant)
        self._put_execution(replace(_as_read(row), shard=""))

    def _put_execution(self, row: ExecutionRow) -> None:
        self._journal.put(self._journal.tables.executions, row.execution_id, row)

    def execution(self, execution_id: str) -> ExecutionRow | None:
        return self._journal.tables.executions.rows.get(execution_id)

    def executions(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        parent: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionRow]:
        every = self._journal.tables.executions.rows.values()
        last = None if before is None else codec.number(before)
        found = (
            row
            for row in sorted(every, key=_number, reverse=True)
            if status in (None, row.status)
            and path in (None, row.path)
            and parent in (None, row.parent_id)
            and (last is None or _number(row) < last)
        )
        return list(islice(found, limit))

    def lock(self, execution_id: str) -> ExecutionRow | None:
        return self._journal.locked.executions.rows.get(execution_id)

    def lock_owing(self, now: datetime, limit: int) -> Owing:
        self._journal.locked  # noqa: B018 - refuses readers
        return Owing(self._owing(now, limit), passed_over=[])

    def owing(self, now: datetime, limit: int) -> list[str]:
        return [row.execution_id for row in self._owing(now, limit)]

    def _owing(self, now: datetime, limit: int) -> list[ExecutionRow]:
        table = self._journal.tables.executions
        rows = {row.execution_id: row for row in table.group("owing")}
        for row in table.group("waking"):
            if row.next_wake_at is not None and row.next_wake_at <= now:
                rows[row.execution_id] = row
        return nsmallest(limit, rows.values(), key=_number)

    def save_turn(
        self,
        execution_id: str,
        *,
        decided_version: int,
        status: ExecutionStatus,
        next_wake_at: datetime | None,
        halt: str,
        now: datetime,
        ended_at: datetime | None = None,
        error: JsonMap | None = None,
        errors_passed_over: int | None = None,
        warnings_count: int | None = None,
    ) -> None:
        row = self._needed(execution_id)
        changed = replace(
            row,
            decided_version=decided_version,
            status=status,
            next_wake_at=next_wake_at,
            halt=halt,
            updated_at=now,
            ended_at=row.ended_at if ended_at is None else ended_at,
            error=row.error if error is None else error,
            errors_passed_over=row.errors_passed_over if errors_passed_over is None else errors_passed_over,
            warnings_count=row.warnings_count if warnings_count is None else warnings_count,
        )
        self._put_execution(_as_read(changed))
        self.notify(execution_id)

    def notify(self, execution_id: str) -> None:
        self._journal.locked  # noqa: B018 - refuses readers
        self._journal.changed.add(execution_id)

    def marks(self, execution_ids: Sequence[str]) -> Mapping[str, Mark]:
        rows = self._journal.tables.executions.rows
        found = (rows[one] for one in execution_ids if one in rows)
        return {
            row.execution_id: (
                row.head_version,
                row.decided_version,
                row.status,
                self._printed(row.execution_id),
            )
            for row in found
        }

    def _printed(self, execution_id: str) -> int:
        rows = self._journal.tables.logs.group("execution", execution_id)
        return max((row.seq for row in rows), default=0)

    def set_halt(self, execution_id: str, halt: str) -> None:
        self._put_execution(replace(self._needed(execution_id), halt=halt))

    def _needed(self, execution_id: str) -> ExecutionRow:
        row = self._journal.locked.executions.rows.get(execution_id)
        if row is None:
            raise self._journal.fail(missing(execution_id))
        return row


def _number(row: ExecutionRow) -> int:
    return int(row.execution_id)


class Log(Concern):
    """The methods of `Transaction` on events."""

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

    def events(
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
        found = {one: self.events(one, after=version, limit=limit) for one, version in decided.items()}
        return {one: events for one, events in found.items() if events}

    def run_events(self, execution_id: str, run_id: str, iteration: int | None) -> list[Event]:
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


class Loops(Concern):
    """The methods of `Transaction` on loops."""

    __slots__ = ()

    def save_loop(self, row: LoopRow) -> None:
        """Raises Conflict where the generation is not a later one."""
        tables, key = self._journal.locked, (row.execution_id, row.run_id)
        before = tables.loops.rows.get(key)
        if row.execution_id not in tables.executions.rows:
            raise self._journal.fail(missing(row.execution_id))
        if before is not None and before.generation >= row.generation:
            raise self._journal.fail(not_later(row))
        self._journal.put(tables.items, key, codec.dumps(row.items, "collection"))
        self._journal.put(tables.loops, key, replace(row, items=None))

    def loop(self, execution_id: str, run_id: str) -> LoopRow | None:
        tables, key = self._journal.tables, (execution_id, run_id)
        row = tables.loops.rows.get(key)
        return None if row is None else replace(row, items=codec.loads(tables.items.rows[key]))

    def take(self, execution_id: str, run_id: str, generation: int, count: int) -> tuple[int, ...]:
        row = self._journal.locked.loops.rows.get((execution_id, run_id))
        if row is None or not row.open or row.generation != generation or count < 1:
            return ()
        indices = range(row.count) if row.indices is None else row.indices
        taken = tuple(indices[row.next_index : row.next_index + count])
        if taken:
            self._put_loop(replace(row, next_index=row.next_index + len(taken)))
        return taken

    def extend_loop(self, execution_id: str, run_id: str, generation: int, more: int) -> LoopRow:
        self._journal.locked  # noqa: B018 - refuses readers
        row = self.loop(execution_id, run_id)
        if row is None or row.generation != generation:
            raise self._journal.fail(not_of_generation(execution_id, run_id, generation))
        count = row.count + more
        indices = None if row.indices is None else (*row.indices, *range(row.count, count))
        self._put_loop(replace(row, count=count, indices=indices, items=None))
        return replace(row, count=count, indices=indices)

    def close_loop(self, execution_id: str, run_id: str) -> None:
        row = self._journal.locked.loops.rows.get((execution_id, run_id))
        if row is not None:
            self._put_loop(replace(row, open=False))

    def close_loops(self, execution_id: str) -> None:
        for row in list(self._journal.locked.loops.group("execution", execution_id)):
            self._put_loop(replace(row, open=False))

    def _put_loop(self, row: LoopRow) -> None:
        self._journal.put(self._journal.tables.loops, (row.execution_id, row.run_id), row)
