"""Commands in memory: the twin of `commands`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import nsmallest
from typing import Any

from noetl.errors import Conflict
from noetl.store import codec
from noetl.store.memory.tables import MemoryTable, Tables
from noetl.store.rules import missing
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow


class MemoryCommands(MemoryTable):
    """`noetl.usecases.ports.Commands`. Rows are kept without their contexts."""

    __slots__ = ()

    def add(self, rows: Sequence[CommandRow]) -> None:
        for row in rows:
            self._add(row)

    def _add(self, row: CommandRow) -> None:
        tables = self._journal.locked
        context = codec.dumps(row.context, f"context of the command {row.command_id}")
        if row.execution_id not in tables.executions.rows:
            raise self._journal.fail(missing(row.execution_id))
        if row.command_id in tables.commands.rows:
            raise self._journal.fail(Conflict(f"It is already recorded: command {row.command_id}."))
        self._journal.put(tables.contexts, row.command_id, context)
        self._put_command(replace(row, context={}))

    def _put_command(self, row: CommandRow) -> None:
        self._journal.put(self._journal.tables.commands, row.command_id, row)

    def get(self, command_id: str) -> CommandRow | None:
        tables = self._journal.tables
        row = tables.commands.rows.get(command_id)
        return None if row is None else _whole(tables, row)

    def lock(self, command_id: str) -> tuple[ExecutionRow, CommandRow] | None:
        tables = self._journal.locked
        row = tables.commands.rows.get(command_id)
        return None if row is None else (tables.executions.rows[row.execution_id], _whole(tables, row))

    def claim(
        self, command_id: str, owner: str, now: datetime, lease_until: datetime, max_attempts: int
    ) -> CommandRow | None:
        tables = self._journal.locked
        row = tables.commands.rows.get(command_id)
        if row is None or not _free(row, now) or row.attempt >= max_attempts:
            return None
        execution = tables.executions.rows[row.execution_id]
        if execution.halt or execution.status in ENDED:
            return None
        claimed = replace(row, state="claimed", attempt=row.attempt + 1, owner=owner, lease_until=lease_until)
        self._put_command(claimed)
        return _whole(tables, claimed)

    def release(self, command_id: str, attempt: int, sent_at: datetime) -> None:
        row = self._held(command_id, attempt)
        if row is not None:
            left = replace(row, state="open", attempt=attempt - 1, owner=None, lease_until=None)
            self._put_command(replace(left, sent_at=sent_at))

    def reopen(self, command_id: str, attempt: int) -> None:
        row = self._held(command_id, attempt)
        if row is not None:
            self._put_command(replace(row, state="open", owner=None, lease_until=None, sent_at=None))

    def heartbeat(self, command_id: str, attempt: int, lease_until: datetime) -> str | None:
        row = self._held(command_id, attempt)
        if row is None:
            return None
        self._put_command(replace(row, lease_until=lease_until))
        return self._journal.tables.executions.rows[row.execution_id].halt

    def _held(self, command_id: str, attempt: int) -> CommandRow | None:
        row = self._journal.locked.commands.rows.get(command_id)
        return row if row is not None and row.state == "claimed" and row.attempt == attempt else None

    def close(self, command_ids: Sequence[str]) -> None:
        for row in self._named(command_ids):
            self._put_command(replace(row, state="closed", owner=None, lease_until=None))

    def mark_sent(self, command_ids: Sequence[str], now: datetime | None) -> None:
        for row in self._named(command_ids):
            self._put_command(replace(row, sent_at=now))

    def _named(self, command_ids: Sequence[str]) -> list[CommandRow]:
        rows = self._journal.locked.commands.rows
        return [rows[command_id] for command_id in command_ids if command_id in rows]

    def open_of(self, execution_id: str) -> list[CommandRow]:
        rows = self._journal.tables.commands.group("open_of", execution_id)
        return sorted(rows, key=lambda row: row.command_id)

    def unsent(self, now: datetime, limit: int) -> list[CommandRow]:
        rows = (row for row in self._in("unsent") if row.due_at is None or row.due_at <= now)
        return _first(limit, rows, lambda row: int(row.execution_id))

    def unclaimed(self, sent_before: datetime, limit: int) -> list[CommandRow]:
        rows = (row for row in self._in("sent") if row.sent_at is not None and row.sent_at < sent_before)
        return _first(limit, rows, lambda row: row.sent_at)

    def expired(self, now: datetime, limit: int) -> list[CommandRow]:
        rows = (row for row in self._in("claimed") if row.lease_until is not None and row.lease_until <= now)
        return _first(limit, rows, lambda row: row.lease_until)

    def _in(self, stage: str) -> Iterable[CommandRow]:
        return self._journal.tables.commands.group("stage", stage)


def _first(limit: int, rows: Iterable[CommandRow], order: Callable[[CommandRow], Any]) -> list[CommandRow]:
    return nsmallest(limit, rows, key=lambda row: (order(row), row.command_id))


def _whole(tables: Tables, row: CommandRow) -> CommandRow:
    return replace(row, context=codec.loads(tables.contexts.rows[row.command_id]))


def _free(row: CommandRow, now: datetime) -> bool:
    """Whether nobody holds the command and it is due."""
    if row.due_at is not None and row.due_at > now:
        return False
    match row.state:
        case "open":
            return True
        case "claimed":
            return row.lease_until is not None and row.lease_until <= now
        case "closed":
            return False
