"""What the contract tests of the store start from."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from noetl.facts.events import (
    CtxPatched,
    Draft,
)
from noetl.store.records import SqlNets, SqlPlaybooks
from noetl.usecases.ports import (
    CommandRow,
    ExecutionRow,
    Store,
)
from tests.waiting import GUARD_S

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LATER = NOW + 30 * SECOND


def execution(execution_id: str = "100", **changes: Any) -> ExecutionRow:
    row = ExecutionRow(execution_id, "a/b", 1, "d1", "running", 0, 0, NOW, NOW)
    return replace(row, **changes)


def command(name: str = "c1", execution_id: str = "100", **changes: Any) -> CommandRow:
    row = CommandRow(name, execution_id, "s#1", "s", "pipeline", "-", "python", 1, context={"a": [1, None]})
    return replace(row, **changes)


def patched(name: str, value: Any = 1, **place: Any) -> Draft:
    return Draft(CtxPatched({name: value}, "task"), **place)


def create(store: Store, *rows: ExecutionRow) -> None:
    with store.begin() as tx:
        for row in rows or (execution(),):
            tx.executions.create(row)


def add(store: Store, *rows: CommandRow) -> None:
    with store.begin() as tx:
        tx.commands.add(rows or (command(),))


def claim(store: Store, name: str = "c1", at: datetime = NOW, limit: int = 3) -> CommandRow | None:
    with store.begin_async_commit() as tx:
        return tx.commands.claim(name, "w1", at, at + 30 * SECOND, limit)


def append(store: Store, drafts: Sequence[Draft], after: int = 0, execution_id: str = "100") -> None:
    with store.begin() as tx:
        tx.executions.lock(execution_id)
        tx.events.append(execution_id, after, drafts, NOW)


def meet_at(monkeypatch: pytest.MonkeyPatch, port: type[SqlNets | SqlPlaybooks], count: int) -> None:
    """So many threads look into that table before any of them writes what it did not find. SQLite
    lets them do so one after another only."""
    here, gate = threading.local(), threading.Barrier(count)
    get: Any = port.get

    def get_together(self: Any, *asked: Any) -> Any:
        found = get(self, *asked)
        if self._session.dialect == "postgresql" and not hasattr(here, "met"):
            here.met = True
            gate.wait(GUARD_S)
        return found

    monkeypatch.setattr(port, "get", get_together)
