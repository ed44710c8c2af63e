"""What every store promises of what user code printed."""

from __future__ import annotations

from dataclasses import replace

from noetl.facts.logs import LogChunk, LogFilter, LogPosition, LogRow
from noetl.usecases.ports import Store

from .given import NOW, create, execution

ALL = LogFilter()


def chunk(text: str, execution_id: str = "100", **place: int | str | None) -> LogChunk:
    where = replace(LogPosition(execution_id, "s", "s#1", None, "t", 1, 1), **place)  # type: ignore[arg-type]
    return LogChunk(where, "stdout", 7, text, NOW)


def add(store: Store, *chunks: LogChunk) -> list[int]:
    with store.begin() as tx:
        tx.executions.lock(chunks[0].place.execution_id)
        return tx.logs.add(chunks[0].place.execution_id, chunks)


def seqs(store: Store, where: LogFilter = ALL, after: int = 0, limit: int = 100) -> list[int]:
    with store.read() as tx:
        return [row.seq for row in tx.logs.read("100", where, after, limit)]


def test_chunks_are_numbered_in_their_execution_and_come_back_as_they_were(store: Store) -> None:
    create(store, execution("100"), execution("200"))
    given = chunk("a\n\u2713 %s\n", iteration=3, attempt=2, delivery=4)
    assert add(store, given, chunk("b")) == [1, 2]
    assert add(store, chunk("c", "200")) == [1]
    assert add(store, chunk("d")) == [3]
    with store.read() as tx:
        first, *_ = tx.logs.read("100", ALL, 0, 10)
        assert tx.logs.head("100") == 3
        assert tx.logs.head("300") == 0
        assert [row.chunk.text for row in tx.logs.tail("100", ALL, 2)] == ["b", "d"]
    assert first == LogRow(replace(given, seq=1), 1)


def test_pages_are_narrowed_by_step_iteration_and_attempt(store: Store) -> None:
    create(store)
    add(store, chunk("a", iteration=0), chunk("b", iteration=1), chunk("c", step="z"), chunk("d", attempt=2))
    assert seqs(store, limit=2) == [1, 2]
    assert seqs(store, after=2) == [3, 4]
    assert seqs(store, LogFilter(step="z")) == [3]
    assert seqs(store, LogFilter(iteration=1)) == [2]
    assert seqs(store, LogFilter(step="s", attempt=2), after=1) == [4]
    add(store, chunk("e", run_id="s#2"))
    assert seqs(store, LogFilter(run_id="s#2")) == [5]


def test_the_end_before_a_number_is_read(store: Store) -> None:
    create(store)
    add(store, chunk("a"), chunk("b", iteration=1), chunk("c"), chunk("d"))
    with store.read() as tx:
        assert [row.seq for row in tx.logs.tail("100", ALL, 2, 4)] == [2, 3]
        assert [row.seq for row in tx.logs.tail("100", LogFilter(iteration=1), 2, 4)] == [2]
        assert tx.logs.tail("100", ALL, 2, 1) == []


def test_a_block_stands_for_its_chunks_wherever_a_reader_is_among_them(store: Store) -> None:
    create(store)
    add(store, chunk("a"), chunk("b"), chunk("c", iteration=1), chunk("d"), chunk("e"))
    block = LogRow(replace(chunk(""), seq=2), 4, {"kind": "result_ref", "ref": "noetl://x"})
    with store.begin() as tx:
        tx.executions.lock("100")
        tx.logs.fold("100", [2, 4], block)
    assert seqs(store) == [1, 2, 3, 5]
    assert seqs(store, after=2) == [2, 3, 5]
    assert seqs(store, after=3) == [2, 5]
    assert seqs(store, after=4) == [5]
    assert seqs(store, LogFilter(iteration=1), after=2) == [3]
    with store.read() as tx:
        assert tx.logs.read("100", ALL, 0, 10)[1] == block
        assert tx.logs.head("100") == 5


def test_logs_are_found_and_removed_by_execution(store: Store) -> None:
    create(store, execution("100"), execution("200"), execution("300"))
    for owner in ("300", "100", "200"):
        add(store, chunk("a", owner), chunk("b", owner))
    with store.begin() as tx:
        assert tx.logs.execution_ids(None, 10) == ["100", "200", "300"]
        assert tx.logs.execution_ids(None, 2) == ["100", "200"]
        assert tx.logs.execution_ids("200", 10) == ["300"]
        assert tx.logs.delete("200") == 2
        assert tx.logs.execution_ids(None, 10) == ["100", "300"]
        assert tx.logs.read("200", ALL, 0, 10) == []
