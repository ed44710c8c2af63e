"""What every store promises of counts of executions, by status and over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.facts import ids
from noetl.store import open_store
from noetl.usecases.fields import holds
from noetl.usecases.ports import ExecutionRow, Store, Tally
from noetl.usecases.where import parse_where

from .given import NOW, SECOND, create, execution

ERROR = {"kind": "sql", "message": "it timed out"}
EMPTY = Tally({}, None, None, (), is_whole=True)
STATUSES = ("completed", "failed", "running")


def at(seconds: float, number: int = 0, **changes: Any) -> ExecutionRow:
    """An execution that was asked for so many seconds after `NOW`."""
    when = NOW + timedelta(seconds=seconds)
    name = ids.execution_id(int(when.timestamp() * 1000), number)
    return execution(name, created_at=when, updated_at=when, **changes)


def tally(store: Store, where: str | None = None, **how: Any) -> Tally:
    condition = None if where is None else parse_where(where, NOW)
    with store.read() as tx:
        return tx.executions.tally(condition, **how)


def counted(rows: list[ExecutionRow]) -> dict[str, int]:
    return dict(Counter(row.status for row in rows))


# --- on all databases -----------------------------------------------------------------------------


def test_without_executions_there_is_nothing_to_count(store: Store) -> None:
    assert tally(store) == EMPTY
    create(store, at(0))
    assert tally(store, "status = 'failed'") == EMPTY
    assert tally(store, "path ~ 'x'") == EMPTY
    assert tally(store, since=NOW + SECOND) == EMPTY


def test_one_execution_is_in_one_span_of_its_millisecond(store: Store) -> None:
    create(store, at(0, number=1 << 21))
    found = tally(store, spans=4)
    assert (found.since, found.until) == (NOW, NOW + timedelta(milliseconds=1))
    assert found.spans == ({}, {}, {"running": 1}, {})


def test_the_last_id_of_a_millisecond_is_in_the_last_span(store: Store) -> None:
    create(store, at(0, number=(1 << 22) - 1))
    assert tally(store, spans=3).spans == ({}, {}, {"running": 1})


def test_executions_are_counted_in_equal_spans(store: Store) -> None:
    create(store, at(0), at(1, status="failed"), at(4), at(4, 1), at(9.999, status="completed"))
    found = tally(store, spans=5)
    assert found.counts == {"running": 3, "failed": 1, "completed": 1}
    assert (found.since, found.until) == (NOW, NOW + 10 * SECOND)
    assert found.spans == ({"running": 1, "failed": 1}, {}, {"running": 2}, {}, {"completed": 1})
    assert len(tally(store).spans) == 60


@pytest.mark.parametrize("where", ["status = 'running'", "path ~ '^a' and status = 'running'"])
def test_spans_are_bounded_as_they_were_asked_for(store: Store, where: str) -> None:
    create(store, at(-1), at(0), at(1), at(1.999), at(2))
    found = tally(store, where, spans=4, since=NOW, until=NOW + 2 * SECOND)
    assert found.counts == {"running": 3}
    assert (found.since, found.until) == (NOW, NOW + 2 * SECOND)
    assert found.spans == ({"running": 1}, {}, {"running": 1}, {"running": 1})


@pytest.mark.parametrize("where", ["status = 'running'", "path ~ '^a'"])
def test_bounds_may_lie_where_no_execution_can_be(store: Store, where: str) -> None:
    create(store, at(0))
    first, last = (datetime(year, 1, 1, tzinfo=NOW.tzinfo) for year in (1, 9999))
    found = tally(store, where, spans=1000, since=first, until=last)
    assert sum(one.get("running", 0) for one in found.spans) == 1


def test_what_the_database_can_say_is_counted_whole(store: Store) -> None:
    create(store, *(at(number, status=STATUSES[number % 3]) for number in range(30)))
    found = tally(store, "not (status = 'failed' or version > 1) and error is null", most=3)
    assert (found.counts, found.is_whole) == ({"completed": 10, "running": 10}, True)


def test_of_what_the_database_cannot_say_the_newest_are_looked_at(store: Store) -> None:
    rows = [at(number, status="failed", error=ERROR if number % 2 else {}) for number in range(700)]
    create(store, *rows)
    assert tally(store, "error ~ 'timed'").counts == {"failed": 350}
    assert tally(store, "error ~ 'timed'", most=700).is_whole
    found = tally(store, "error ~ 'timed'", most=600)
    assert (found.counts, found.is_whole) == ({"failed": 300}, False)
    assert (found.since, found.until) == (NOW + 101 * SECOND, NOW + 699 * SECOND + timedelta(milliseconds=1))
    assert not tally(store, "error ~ 'other'", most=600).is_whole


# --- against a count of all of them ---------------------------------------------------------------

ROWS = [
    at(
        (number * 7919 % 1000) / 100,
        number,
        status=STATUSES[number % 3],
        error=ERROR if number % 3 == 1 else None,
        path="b" if number % 4 else "a/b",
        key="k" if number % 5 else None,
        ended_at=NOW + number * SECOND if number % 3 else None,
    )
    for number in range(60)
]
CONDITIONS = (
    None,
    "status = 'failed'",
    "status != 'failed'",
    "path = 'b' or key is null",
    "not (path = 'b' and ended > '2026-03-01T12:00:20Z')",
    "ended <= '2026-03-01T12:00:20Z'",
    "error is null",
    "kind is not null",
    "kind != 'sql'",
    "error ~ 'timed'",
    "path !~ 'a' or kind = 'sql'",
    "fingerprint = '123456789abc'",
)


@pytest.fixture(scope="module")
def filled() -> Iterator[Store]:
    store = open_store("memory://")
    create(store, *ROWS)
    yield store
    store.close()


INSTANTS = st.none() | st.integers(-1000, 11_000).map(lambda ms: NOW + timedelta(milliseconds=ms))


@given(st.sampled_from(CONDITIONS), st.integers(1, 100), INSTANTS, INSTANTS)
def test_a_tally_is_what_a_count_of_each_row_comes_to(
    filled: Store, where: str | None, spans: int, since: datetime | None, until: datetime | None
) -> None:
    condition = None if where is None else parse_where(where, NOW)
    meant = [
        row
        for row in ROWS
        if (condition is None or holds(condition, row))
        and (since is None or row.created_at >= since)
        and (until is None or row.created_at < until)
    ]
    found = tally(filled, where, spans=spans, since=since, until=until)
    assert (found.counts, found.is_whole) == (counted(meant), True)
    if not meant:
        assert found == EMPTY
        return
    begin = since or min(row.created_at for row in meant)
    end = until or max(row.created_at for row in meant) + timedelta(milliseconds=1)
    assert (found.since, found.until) == (begin, end)
    # Instants in a span differ less than ids do: on its edge an execution may be in either.
    edges = [begin + (end - begin) * number / spans for number in range(spans + 1)]
    assert len(found.spans) == spans
    for number, span in enumerate(found.spans):
        ms = timedelta(milliseconds=1)
        first, last = edges[number], edges[number + 1]
        surely = Counter(row.status for row in meant if first + ms <= row.created_at < last - ms)
        perhaps = Counter(row.status for row in meant if first - ms < row.created_at < last + ms)
        assert surely <= Counter(span) <= perhaps
    assert sum((Counter(one) for one in found.spans), Counter()) == Counter(found.counts)
