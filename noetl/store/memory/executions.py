"""Executions in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import nsmallest
from itertools import islice

from noetl.errors import BadRequest, Conflict
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.memory.tables import MemoryTable
from noetl.store.rules import aware, missing
from noetl.usecases.ports import ExecutionRow, ExecutionStatus, Mark, Owing


def _as_read(row: ExecutionRow) -> ExecutionRow:
    return row if row.error is None else replace(row, error=codec.loads(codec.dumps(row.error)))


class MemoryExecutions(MemoryTable):
    """`noetl.usecases.ports.Executions`."""

    __slots__ = ()

    def create(self, row: ExecutionRow) -> None:
        if codec.number(row.execution_id) < 0:
            raise BadRequest(f"{row.execution_id!r} is no execution id: a decimal number below 2^63 is.")
        if row.execution_id in self._journal.locked.executions.rows:
            raise self._journal.fail(Conflict(f"It is already recorded: execution {row.execution_id}."))
        for instant in (row.created_at, row.updated_at):
            aware(instant)
        self._put_execution(replace(_as_read(row), shard=""))

    def _put_execution(self, row: ExecutionRow) -> None:
        self._journal.put(self._journal.tables.executions, row.execution_id, row)

    def get(self, execution_id: str) -> ExecutionRow | None:
        return self._journal.tables.executions.rows.get(execution_id)

    def find(
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
