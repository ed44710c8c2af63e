"""What the dispatcher of `noetl run` promises where its database does not take what it writes: all
goes on once it does, and until then it is known why not."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import make_url

from noetl.dispatch import backoff, local
from noetl.dispatch.local import LocalDispatcher
from noetl.errors import Unavailable
from noetl.store import connections, engine
from noetl.store.sql import SqlStore
from noetl.testing import Simulation
from noetl.usecases import sweep, waiting
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from tests.waiting import GUARD_S, until

PLAYBOOK = """
metadata: {path: one}
workflow:
  - {step: start, tool: {kind: noop}}
"""

LOOP = """
metadata: {path: one}
workflow:
  - step: start
    loop: {in: "{{ range(9) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 3}}
    tool: {kind: noop}
"""


class HoldingDispatcher(LocalDispatcher):
    """Another process holds the file of the database from the moment at which commands are sent."""

    def __init__(self, url: str) -> None:
        super().__init__(4)
        self._file = str(make_url(url).database)
        self.other: sqlite3.Connection | None = None

    def send(self, commands: Sequence[CommandRow]) -> None:
        if self.other is None:
            self.other = sqlite3.connect(self._file, isolation_level=None, check_same_thread=False)
            self.other.execute("BEGIN IMMEDIATE")
        super().send(commands)

    def let_go(self) -> None:
        assert self.other is not None
        self.other.execute("ROLLBACK")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for a database that another process holds."""
    monkeypatch.setattr(connections, "PATIENCE", 0.05)
    monkeypatch.setitem(engine.SQLITE_ARGS, "timeout", 0.05)


@contextmanager
def at_work(sim: Simulation, dispatcher: LocalDispatcher) -> Iterator[Runtime]:
    rt = replace(sim.rt, dispatcher=dispatcher)
    dispatcher.start(rt)
    try:
        yield rt
    finally:
        dispatcher.stop()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("playbook", "commands"), [(PLAYBOOK, 1), (LOOP, 3)], ids=["step", "lanes"])
def test_commands_that_could_not_be_claimed_are_claimed_later(
    sqlite_url: str, caplog: pytest.LogCaptureFixture, playbook: str, commands: int
) -> None:
    with closing(SqlStore(sqlite_url)) as store, caplog.at_level(logging.WARNING):
        sim = Simulation(playbook, store=store)
        execution_id = sim.start()
        dispatcher = HoldingDispatcher(sqlite_url)
        with at_work(sim, dispatcher) as rt:
            dispatcher.wake()
            until(lambda: caplog.text.count("What is due waits: ") >= commands, "claims that fail")
            dispatcher.let_go()
            found = waiting.wait_for_result(rt, execution_id, GUARD_S)
    assert found.row.status == "completed"
    assert "was held by another process" in caplog.text


class Interrupted(SqlStore):
    """A store whose answers may get lost, or which refuses what is written."""

    #: Asked of the name of each way into a transaction that writes; may raise.
    before: Callable[[str], None] = staticmethod(lambda _name: None)
    #: Whether the answer to the next durable commit gets lost.
    loses: bool = False

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        self.before("begin")
        with super().begin() as tx:
            yield tx
        if self.loses:
            self.loses = False
            raise Unavailable("The connection was lost.")

    @contextmanager
    def begin_async_commit(self) -> Iterator[Transaction]:
        self.before("begin_async_commit")
        with super().begin_async_commit() as tx:
            yield tx


def test_commands_of_a_turn_whose_commit_was_not_heard_of_are_carried_out() -> None:
    store = Interrupted("memory://")
    sim = Simulation(LOOP, store=store)
    execution_id = sim.start()
    store.loses = True
    with at_work(sim, LocalDispatcher(2)) as rt:
        found = waiting.wait_for_result(rt, execution_id, GUARD_S)
    assert not store.loses
    assert found.row.status == "completed"


@pytest.mark.parametrize("way", ["begin", "begin_async_commit"], ids=["turn", "claim"])
def test_what_fails_for_long_is_told_until_it_goes_well(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(local, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(backoff, "FIRST_S", 0.01)
    store = Interrupted("memory://")
    sim = Simulation(PLAYBOOK, store=store)
    execution_id = sim.start()

    def refuse(name: str) -> None:
        if name == way:
            raise Unavailable("There is no room left.")

    monkeypatch.setattr(store, "before", refuse)
    dispatcher = LocalDispatcher(1)
    with at_work(sim, dispatcher) as rt:
        stall = until(dispatcher.find_stall, "the reason")
        assert stall == "What is due has failed for 0 s: There is no room left."
        monkeypatch.undo()
        found = waiting.wait_for_result(rt, execution_id, GUARD_S)
        until(lambda: dispatcher.find_stall() is None, "the end of the failures")
    assert found.row.status == "completed"


def test_a_defect_in_a_sweep_or_a_command_ends_no_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Interrupted("memory://")
    sim = Simulation(PLAYBOOK, store=store)
    execution_id = sim.start()
    swept: list[None] = []
    real = sweep.sweep

    def stumble_once(rt: Runtime) -> object:
        swept.append(None)
        if len(swept) == 1:
            raise ZeroDivisionError
        return real(rt)

    failures = iter([ZeroDivisionError, None])

    def stumble(name: str) -> None:
        if name == "begin_async_commit" and (failure := next(failures, None)):
            raise failure

    monkeypatch.setattr(local, "sweep", stumble_once)
    monkeypatch.setattr(store, "before", stumble)
    with caplog.at_level(logging.WARNING), at_work(sim, LocalDispatcher(1)) as rt:
        found = waiting.wait_for_result(rt, execution_id, GUARD_S)
    assert found.row.status == "completed"
    said = [record.message for record in caplog.records]
    assert said[0] == "A sweep failed; the next one goes on"
    assert said[1].endswith("failed, and is tried again")
