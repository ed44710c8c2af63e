"""What every store promises when two transactions meet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from noetl.errors import NoetlError, Unavailable, VersionConflict
from noetl.facts.events import CtxPatched, Draft
from noetl.store import open_store
from noetl.store.records import SqlNets, SqlPlaybooks
from noetl.testing import Simulation, StillLeases
from noetl.usecases import catalog
from noetl.usecases.ports import CommandRow, ExecutionRow, KeyOwner, LoopRow, Snapshot, Store, Transaction
from noetl.usecases.work.leases import HeldCommand, claim
from tests.integration.table_locks import until_waiting
from tests.waiting import GUARD_S

from .given import meet_at

T = TypeVar("T")

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=30)
ONE = "{metadata: {path: one}, workflow: [{step: start, tool: {kind: http, url: http://x}}]}"
ROW = ExecutionRow("100", "a", 1, "d", "running", 1, 0, NOW, NOW)


def create(store: Store, *ids: str, commands: int = 1) -> None:
    with store.begin() as tx:
        for execution_id in ids or ("100",):
            tx.executions.create(replace(ROW, execution_id=execution_id))
            tx.commands.add([_command(f"{execution_id}/c{n}", execution_id) for n in range(commands)])


def _command(name: str, execution_id: str) -> CommandRow:
    return CommandRow(name, execution_id, "s#1", "s", "pipeline", "-", "python", 1)


def patched(name: str, dedup_key: str | None = None) -> Draft:
    return Draft(CtxPatched({name: 1}, "task"), dedup_key=dedup_key)


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Runs `work` in that many threads at once."""
    gate = threading.Barrier(count)

    def run(number: int) -> T:
        gate.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@contextmanager
def beside(tx: Transaction, work: Callable[[], T]) -> Iterator[Future[T]]:
    """Begins `work` in a thread, and asks a hundred questions in `tx` before the body goes on: what
    does not wait for `tx` has ended by then, or most often so."""
    begun = threading.Event()

    def run() -> T:
        begun.set()
        return work()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run)
        begun.wait()
        for _ in range(100):
            tx.executions.get("100")
        yield future


def test_of_many_claims_exactly_one_wins(store: Store) -> None:
    create(store, commands=5)

    def claim(number: int) -> list[bool]:
        won = []
        for n in range(5):
            with store.begin_async_commit() as tx:
                won.append(tx.commands.claim(f"100/c{n}", f"w{number}", NOW, LATER, 3) is not None)
        return won

    won = together(4, claim)
    assert [sum(column) for column in zip(*won, strict=True)] == [1] * 5


def test_lanes_never_take_the_same_index(store: Store) -> None:
    create(store)
    with store.begin() as tx:
        tx.loops.save(LoopRow("100", "s#1", 0, 0, 50, True))

    def lane(_: int) -> list[int]:
        mine: list[int] = []
        while True:
            with store.begin() as tx:
                taken = tx.loops.take("100", "s#1", 0, 3)
            if not taken:
                return mine
            mine += taken

    taken = [index for mine in together(4, lane) for index in mine]
    assert sorted(taken) == list(range(50))


def test_appends_under_the_lock_leave_no_gap(store: Store) -> None:
    create(store)

    def report(number: int) -> None:
        for n in range(5):
            with store.begin() as tx:
                row = tx.executions.lock("100")
                assert row is not None
                tx.events.append("100", row.head_version, [patched(f"x{number}.{n}"), patched("y")], NOW)

    together(4, report)
    with store.read() as tx:
        assert [event.version for event in tx.events.read("100", after=1)] == list(range(2, 42))


def test_of_two_appends_behind_the_same_version_one_is_refused(store: Store) -> None:
    create(store)

    def report(number: int) -> str:
        try:
            with store.begin() as tx:
                tx.events.append("100", 1, [patched(f"x{number}")], NOW)
        except VersionConflict:
            return "refused"
        return "appended"

    assert sorted(together(2, report)) == ["appended", "refused"]
    with store.read() as tx:
        assert len(tx.events.read("100")) == 1


def test_one_idempotency_key_starts_one_execution(store: Store) -> None:
    def start(number: int) -> Any:
        with store.begin() as tx:
            mine = KeyOwner("sha", str(number + 1))
            owner = tx.idempotency.claim({"key": mine}, NOW)["key"]
            if owner == mine:
                tx.executions.create(ExecutionRow(str(number + 1), "a", 1, "d", "running", 0, 0, NOW, NOW))
        return owner

    owners = together(4, start)
    with store.read() as tx:
        (row,) = tx.executions.find()
    assert set(owners) == {KeyOwner("sha", row.execution_id)}


def test_a_lock_waits_and_then_sees_what_the_other_wrote(store: Store) -> None:
    create(store)
    held = store.begin()
    tx = held.__enter__()
    tx.executions.lock("100")

    def second() -> Any:
        with store.begin() as other:
            return other.executions.lock("100"), other.events.recorded("100", "k")

    with beside(tx, second) as found:
        assert not found.done()
        tx.events.append("100", 1, [patched("x", dedup_key="k")], NOW)
        held.__exit__(None, None, None)
        row, recorded = found.result()
    assert (row.head_version, recorded) == (2, True)


def test_a_second_report_of_a_command_sees_that_it_is_closed(store: Store) -> None:
    create(store)
    held = store.begin()
    tx = held.__enter__()
    tx.commands.lock("100/c0")

    def second() -> Any:
        with store.begin() as other:
            return other.commands.lock("100/c0")

    with beside(tx, second) as found:
        assert not found.done()
        tx.events.append("100", 1, [patched("x")], NOW)
        tx.commands.close(["100/c0"])
        held.__exit__(None, None, None)
        row, command = found.result()
    assert (row.head_version, command.state) == (2, "closed")


def test_turns_and_reports_do_not_deadlock(store: Store) -> None:
    create(store, commands=3)

    def turn_or_report(number: int) -> None:
        for n in range(10):
            with store.begin() as tx:
                if number % 2:
                    rows = tx.executions.lock_owing(NOW, 64).rows
                    if rows:
                        tx.events.append("100", rows[0].head_version, [patched("t")], NOW)
                        tx.commands.mark_sent(["100/c0", "100/c1", "100/c2"], NOW)
                else:
                    found = tx.commands.lock(f"100/c{n % 3}")
                    assert found is not None
                    tx.events.append("100", found[0].head_version, [patched("r")], NOW)
                    tx.commands.mark_sent([found[1].command_id], NOW)

    together(4, turn_or_report)


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store whose readers and writers do not wait for each other, as they do in memory."""
    opened = open_store(request.getfixturevalue(request.param))
    yield opened
    opened.close()


def test_a_reader_sees_one_moment(database: Store) -> None:
    """Of everything that is known of an execution, however much others commit between two
    questions."""
    store = database
    create(store)

    def told(tx: Transaction) -> list[object]:
        rows = tx.executions.find(parent=None, limit=9)
        return [
            tx.executions.get("100"),
            tx.events.read("100"),
            rows,
            tx.snapshots.get("100"),
            tx.commands.open_of("100"),
            tx.loops.get("100", "s#1"),
            tx.events.tails(["100"], 9),
        ]

    def write() -> None:
        with store.begin() as other:
            (event,) = other.events.append("100", 1, [patched("x")], NOW)
            other.executions.create(replace(ROW, execution_id="101", parent_id="100"))
            other.snapshots.save(Snapshot("100", event.version, 1, {}))
            other.commands.close(["100/c0"])
            other.loops.save(LoopRow("100", "s#1", 0, 0, 50, True))
            values = {"status": "completed", "next_wake_at": None, "halt": "", "now": NOW}
            other.executions.save_turn("100", decided_version=1, **values)

    with store.read() as tx:
        first = tx.executions.get("100")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(write).result()
        seen = told(tx)
        assert (seen[0], seen) == (first, told(tx))
        assert seen[1:4] == [[], [first], None]
    with store.read() as tx:
        assert all(now != then for now, then in zip(told(tx), seen, strict=True))


def test_what_is_not_committed_is_seen_by_nobody(database: Store) -> None:
    store = database
    create(store)
    with store.begin() as tx, ThreadPoolExecutor(1) as pool:
        tx.events.append("100", 1, [patched("x")], NOW)
        assert pool.submit(_head, store).result() == 1
    assert _head(store) == 2


def _head(store: Store) -> int:
    with store.read() as tx:
        row = tx.executions.get("100")
    assert row is not None
    return row.head_version


@pytest.mark.postgres
def test_two_schedulers_lock_disjoint_executions(postgres_url: str) -> None:
    store = open_store(postgres_url)
    create(store, *(str(number) for number in range(1, 9)))
    with store.begin() as first:
        mine = [row.execution_id for row in first.executions.lock_owing(NOW, 5).rows]
        with store.begin() as second:
            theirs = [row.execution_id for row in second.executions.lock_owing(NOW, 5).rows]
    store.close()
    assert (mine, theirs) == (["1", "2", "3", "4", "5"], ["6", "7", "8"])


@pytest.mark.postgres
def test_a_scheduler_learns_of_executions_that_somebody_holds(postgres_url: str) -> None:
    store = open_store(postgres_url)
    create(store, "1", "2", "3")
    with store.begin() as worker:
        worker.executions.lock("2")
        with store.begin() as scheduler:
            owing = scheduler.executions.lock_owing(NOW, 5)
    store.close()
    assert [row.execution_id for row in owing.rows] == ["1", "3"]
    assert owing.passed_over == ["2"]


@pytest.mark.postgres
def test_who_marks_commands_as_sent_waits_for_no_turn_that_closes_one(postgres_url: str) -> None:
    """It has no locks of their executions: the turn may want what it has marked before."""
    store = open_store(postgres_url)
    create(store, commands=2)

    def mark() -> None:
        with store.begin() as sweeper:
            sweeper.commands.mark_sent(["100/c0", "100/c1"], NOW)
            sweeper.commands.unsend("other")

    with ThreadPoolExecutor(1) as pool, store.begin() as turn:
        turn.executions.lock("100")
        turn.commands.close(["100/c0"])
        assert turn.commands.get("100/c0") is not None, "by now the row is locked"
        pool.submit(mark).result(GUARD_S)
    with store.read() as tx:
        rows = [tx.commands.get(f"100/c{number}") for number in range(2)]
    store.close()
    assert [(row.state, row.sent_at) for row in rows if row] == [("closed", None), ("open", NOW)]


@pytest.mark.postgres
def test_a_heartbeat_that_waits_for_a_turn_holds_nothing_that_it_wants(postgres_url: str) -> None:
    sim = Simulation(ONE, store=open_store(postgres_url))
    started = [sim.start() for _ in range(2)]
    sim.deliver()
    leases = StillLeases(sim.rt)
    with ExitStack() as held, ThreadPoolExecutor(1) as pool:
        for execution_id in started:
            with sim.rt.store.begin_async_commit() as tx:
                command = claim(sim.rt, tx, "w", f"{execution_id}/start#1/-/1")
            assert command is not None
            held.enter_context(leases.hold(HeldCommand(command, lambda _: None, lambda: None)))
        with sim.rt.store.begin() as turn:
            first, second = (row for one in started for row in turn.commands.open_of(one))
            turn.commands.close([second.command_id])
            assert turn.commands.get(second.command_id) is not None, "by now the row is locked"
            beat = pool.submit(leases.beat)
            until_waiting(postgres_url, 1)
            turn.commands.close([first.command_id])
        beat.result(GUARD_S)
    sim.rt.store.close()


@pytest.mark.postgres
def test_a_turn_that_another_scheduler_just_took_is_not_owed_any_more(postgres_url: str) -> None:
    store = open_store(postgres_url)
    create(store, "1")

    def turn(_: int) -> int:
        taken = 0
        for _ in range(20):
            with store.begin() as tx:
                for row in tx.executions.lock_owing(NOW, 5).rows:
                    assert row.head_version > row.decided_version
                    tx.executions.save_turn(
                        "1",
                        decided_version=row.head_version,
                        status="running",
                        next_wake_at=None,
                        halt="",
                        now=NOW,
                    )
                    taken += 1
        return taken

    assert sum(together(4, turn)) == 1
    store.close()


def test_a_transaction_within_a_transaction_of_the_same_thread_is_refused_not_hung(sqlite_url: str) -> None:
    for url in ("memory://", sqlite_url):
        store = open_store(url)
        said = "inside another one of the same thread"
        with store.begin(), pytest.raises(NoetlError, match=said), store.begin():
            pass
        store.close()


@pytest.mark.postgres
def test_connections_that_broke_while_nobody_used_them_are_replaced(
    postgres_url: str, postgres_server: Any
) -> None:
    store = open_store(postgres_url)
    create(store)
    with store.read() as tx, store.read():
        tx.executions.get("100")
    _end_all(postgres_server, postgres_url)
    with store.read() as tx, store.read() as other:
        assert tx.executions.get("100") == other.executions.get("100") is not None
    _end_all(postgres_server, postgres_url)
    with store.begin() as tx:
        assert tx.executions.get("100") is not None
    store.close()


@pytest.mark.postgres
def test_a_connection_that_breaks_in_a_transaction_is_unavailable_and_then_replaced(
    postgres_url: str, postgres_server: Any
) -> None:
    store = open_store(postgres_url)
    create(store)
    with (
        pytest.raises(Unavailable, match="does not answer"),
        ended_within(store, postgres_server, postgres_url) as tx,
    ):
        tx.executions.get("100")
    with store.read() as tx:
        assert tx.executions.get("100") is not None
    store.close()


@contextmanager
def ended_within(store: Store, server: Any, url: str) -> Iterator[Transaction]:
    """A transaction whose connection has been ended since it began."""
    with store.read() as tx:
        tx.executions.get("100")
        _end_all(server, url)
        yield tx


def _end_all(server: Any, url: str) -> None:
    """Ends all connections to the database, and returns when they have gone."""
    here = f"FROM pg_stat_activity WHERE datname = '{url.rsplit('/', 1)[1]}'"
    server.run(f"SELECT pg_terminate_backend(pid, 5000) {here}")


def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = open_store("postgresql://u:secret@127.0.0.1:1/x")
    with pytest.raises(Unavailable) as caught, store.begin():
        pass
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("texts", "port"), [("xxxx", SqlNets), ("wxyz", SqlPlaybooks)], ids=["one text", "several"]
)
def test_what_many_register_at_once_under_a_new_path_is_taken_of_all_of_them(
    store: Store, monkeypatch: pytest.MonkeyPatch, texts: str, port: type[SqlNets | SqlPlaybooks]
) -> None:
    sim = Simulation(ONE, store=store)
    contents = [ONE.replace("one", "new").replace("//x", f"//{text}") for text in texts]
    with monkeypatch.context() as meeting:
        meet_at(meeting, port, len(contents))
        rows = together(len(contents), lambda number: catalog.register(sim.rt, contents[number]))
    versions = {row.content: row.version for row in rows}
    assert sorted(versions.values()) == list(range(1, len(set(texts)) + 1))
    assert {row.content: row.version for row in catalog.versions(sim.rt, "new")} == versions
