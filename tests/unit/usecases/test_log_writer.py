"""What user code prints reaches the store in few transactions, in order, bounded, and with the
report of its task."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from noetl.errors import Unavailable
from noetl.facts.logs import LogFilter
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.store.sql import SqlStore
from noetl.usecases import log_bounds, logs
from noetl.usecases.log_batches import LogBatch
from noetl.usecases.log_writer import GATHER_S, PAUSE_S, LogWriter
from noetl.usecases.ports import CommandRow, ExecutionRow, Results, Transaction
from noetl.usecases.runtime import Runtime
from tests.waiting import until

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Counting(SqlStore):
    """Counts transactions that write; `broken` ones are refused."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.commits = 0
        self.broken = False

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._counted()

    begin_async_commit = begin

    @contextmanager
    def _counted(self) -> Iterator[Transaction]:
        if self.broken:
            raise Unavailable("away")
        with super().begin() as tx:
            yield tx
        self.commits += 1


Made = TypeVar("Made", bound=Counting)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return open_results(f"file://{tmp_path}/results", tmp_path)


def with_execution(made: Made) -> Made:
    with made.begin() as tx:
        tx.executions.create(ExecutionRow("7", "a/b", 1, "d", "running", 0, 0, NOW, NOW))
    made.commits = 0
    return made


@pytest.fixture
def store() -> Counting:
    return with_execution(Counting())


COMMAND = CommandRow("7.s#1", "7", "s#1", "s", "pipeline", "-", "python", 1, attempt=1)
CALL = Call("python", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, "key")


class Held(LogWriter):
    """Its thread never starts: the test flushes."""

    def _awake(self) -> None: ...


def read(store: Counting, results: Results, after: int = 0, limit: int = 1000) -> logs.PrintedPage:
    rt = Runtime(store, None, results, None, {}, lambda: NOW, int, float)  # type: ignore[arg-type]
    return logs.page(rt, "7", LogFilter(), after, limit)


def text(store: Counting, results: Results) -> str:
    """All that was printed, page by page."""
    found, after = "", 0
    while True:
        page = read(store, results, after, 7)
        found += "".join(chunk.text for chunk in page.chunks)
        if page.next is None:
            return found
        after = page.next


def put(printed: LogBatch | None, tx: Transaction) -> None:
    assert printed is not None
    printed.into(tx)


def test_ten_thousand_lines_of_many_attempts_take_one_transaction(store: Counting, results: Results) -> None:
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    for number in range(10_000):
        writer.write(COMMAND, attempt, "stdout", f"{number}\n")
    assert writer.flush()
    assert store.commits == 1
    assert text(store, results) == "".join(f"{number}\n" for number in range(10_000))


def test_what_waits_goes_into_the_transaction_of_the_report_and_is_kept_when_that_fails(
    store: Counting, results: Results
) -> None:
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    writer.write(COMMAND, attempt, "stdout", "a")
    with suppress(RuntimeError), writer.for_report(COMMAND) as printed, store.begin() as tx:
        put(printed, tx)
        raise RuntimeError
    assert text(store, results) == ""
    writer.write(COMMAND, attempt, "stdout", "b")
    writer.end(COMMAND, attempt)
    before = store.commits
    with writer.for_report(COMMAND) as printed, store.begin() as tx:
        put(printed, tx)
    assert (text(store, results), store.commits) == ("ab", before + 1)
    assert writer._outputs == {}


def test_a_store_that_is_away_loses_nothing_that_there_is_room_for(store: Counting, results: Results) -> None:
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    store.broken = True
    writer.write(COMMAND, attempt, "stdout", "a")
    assert not writer.flush()
    store.broken = False
    writer.write(COMMAND, attempt, "stderr", "b")
    assert writer.flush()
    assert text(store, results) == "ab"


class Crashing(Counting):
    """Its database crashes behind each transaction: what was not waited for is gone."""

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        return self._lost()

    @contextmanager
    def _lost(self) -> Iterator[Transaction]:
        with suppress(Crash), super().begin() as tx:
            yield tx
            raise Crash


class Crash(Exception): ...


def test_a_crash_of_the_database_leaves_no_hole_in_what_was_printed(results: Results) -> None:
    store = with_execution(Crashing())
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    for said in "abc":
        writer.write(COMMAND, attempt, "stdout", said)
        assert writer.flush()
    assert text(store, results) == "abc"


class Unheard(Counting):
    """The answer to its next commit is lost, where it is `deaf`."""

    deaf = False

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._unheard()

    @contextmanager
    def _unheard(self) -> Iterator[Transaction]:
        with super().begin() as tx:
            yield tx
        if self.deaf:
            self.deaf = False
            raise Unavailable("gone")


@pytest.mark.parametrize("before", ["", "a"])
def test_what_was_committed_before_the_connection_was_lost_is_not_written_twice(
    before: str, results: Results
) -> None:
    store = with_execution(Unheard())
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    writer.write(COMMAND, attempt, "stdout", before)
    assert writer.flush()
    store.deaf = True
    writer.write(COMMAND, attempt, "stdout", "b")
    writer.write(COMMAND, attempt, "stderr", "c")
    assert not writer.flush()
    writer.write(COMMAND, attempt, "stderr", "d")
    assert writer.flush()
    writer.end(COMMAND, attempt)
    page = read(store, results)
    assert [(one.stream, one.offset, one.text) for one in page.chunks if one.text] == [
        *([("stdout", 0, before)] if before else []),
        ("stdout", len(before), "b"),
        ("stderr", 0, "c"),
        ("stderr", 1, "d"),
    ]
    assert writer._outputs == {}


def test_of_a_claim_that_a_crash_has_taken_nothing_is_kept_beside_the_next_one(
    store: Counting, results: Results
) -> None:
    with store.begin() as tx:
        tx.commands.add([replace(COMMAND, attempt=0)])
    lost, mine = (LeasedCommand(store, results, owner) for owner in ("lost", "mine"))
    lost.say("a")
    lost.say("b")
    with store.begin() as tx:
        tx.commands.claim(COMMAND.command_id, "mine", NOW, NOW + timedelta(seconds=30), 3)
    lost.say("c")
    mine.say("a")
    mine.say("b")
    with store.begin() as tx:
        tx.commands.close([COMMAND.command_id])
    mine.say("c")
    assert text(store, results) == "abc"


class LeasedCommand:
    """What the worker `owner` prints of its delivery."""

    def __init__(self, store: Counting, results: Results, owner: str) -> None:
        self._writer = Held(store, results, lambda: NOW)
        self._command = replace(COMMAND, state="claimed", owner=owner)
        self._attempt = self._writer.begin(self._command, CALL)

    def say(self, text: str) -> None:
        self._writer.write(self._command, self._attempt, "stdout", text)
        assert self._writer.flush()


def test_first_and_last_256_kib_stay_in_the_store_and_the_rest_is_kept_by_reference(
    store: Counting, results: Results
) -> None:
    writer = Held(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    line = "x" * 99 + "\n"
    for _ in range(40):
        for _ in range(1000):
            writer.write(COMMAND, attempt, "stdout", line)
        writer.flush()
    writer.end(COMMAND, attempt)
    writer.flush()
    with store.read() as tx:
        rows = tx.logs.read("7", LogFilter(), 0, 10_000)
    inline = sum(len(row.chunk.text) for row in rows)
    assert 2 * log_bounds.INLINE <= inline <= 2 * (log_bounds.INLINE + log_bounds.CHUNK)
    assert rows[0].ref is None
    assert rows[-1].ref is None
    assert any(row.ref for row in rows)
    assert text(store, results) == 40_000 * line
    assert writer._outputs == {}


def test_beyond_the_most_that_is_kept_the_middle_is_dropped_with_a_note_and_the_end_is_there(
    store: Counting, results: Results
) -> None:
    writer = Held(store, results, lambda: NOW, most=2 * 1024 * 1024)
    attempt = writer.begin(COMMAND, CALL)
    for number in range(100):
        writer.write(COMMAND, attempt, "stdout", f"{number:>99}\n" * 1000)
        writer.flush()
    writer.end(COMMAND, attempt)
    writer.flush()
    said = text(store, results)
    notes = [line for line in said.splitlines() if line.startswith("[")]
    assert len(notes) == 1
    assert "bytes are missing here" in notes[0]
    missing = int(notes[0][1:].split()[0].replace(",", ""))
    assert missing + len(said) - len(notes[0]) - 1 == 100 * 1000 * 100
    assert said.splitlines()[0].strip() == "0"
    assert said.splitlines()[-1].strip() == "99"
    with store.read() as tx:
        assert len(tx.logs.read("7", LogFilter(), 0, 10_000)) < 40


def test_who_prints_faster_than_the_store_takes_waits_and_memory_stays_flat(
    store: Counting, results: Results
) -> None:
    writer = LogWriter(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    most = 0
    for _ in range(200):
        writer.write(COMMAND, attempt, "stdout", "y" * 99_999 + "\n")
        most = max(most, sum(output.pending for output in writer._outputs.values()))
    writer.end(COMMAND, attempt)
    writer.close()
    assert most < 5 * 1024 * 1024
    assert len(text(store, results)) == 200 * 100_000


def test_what_was_printed_is_in_the_store_within_a_second_while_the_call_runs(
    store: Counting, results: Results
) -> None:
    writer = LogWriter(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    for number in range(3):
        writer.write(COMMAND, attempt, "stdout", f"{number}\n")
        until(lambda line=f"{number}\n": line in text(store, results), "what was printed")  # type: ignore[misc]
    assert store.commits == 3
    assert GATHER_S + PAUSE_S < 1
    writer.close()


def test_a_reader_that_goes_on_while_blocks_are_made_sees_every_text_once(
    store: Counting, results: Results
) -> None:
    writer = LogWriter(store, results, lambda: NOW)
    attempt = writer.begin(COMMAND, CALL)
    wanted = [f"{number:>999}\n" for number in range(6_000)]

    def printing() -> None:
        for line in wanted:
            writer.write(COMMAND, attempt, "stdout", line)
        writer.end(COMMAND, attempt)
        writer.close()

    thread = threading.Thread(target=printing)
    thread.start()
    found, after = "", 0
    while True:
        alive = thread.is_alive()
        page = read(store, results, after, 5)
        found += "".join(chunk.text for chunk in page.chunks)
        after = page.chunks[-1].seq if page.chunks else after
        if not page.chunks and not alive:
            break
    assert found == "".join(wanted)
