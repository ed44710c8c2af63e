"""Filters: whatever is written is read or answered, and the database finds those of which it is
true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import BadRequest
from noetl.store import open_store
from noetl.usecases.facets import write_facets
from noetl.usecases.fields import FIELDS, find_field, holds
from noetl.usecases.ports import ExecutionRow, Store
from noetl.usecases.where import parse_where
from tests.budget import examples

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ERRORS = (
    None,
    {"kind": "sql", "message": "it timed out", "step": "load"},
    {"kind": "http", "message": "503"},
)
ENDS = (None, NOW - timedelta(hours=1), NOW)
SOURCES = (None, "7")

WORDS = st.sampled_from(
    [
        *FIELDS,
        *("label.team", "input.N", 'label."a/b"', "label", "input.*"),
        *("=", "!=", "<", ">=", "~", "!~", "in", "not in", "is null", "is not null", "like", "between"),
        *("and", "or", "not", "(", ")", ",", ";", "--", "select", "null", "true", "$1", "::text", "*", "'"),
        *(
            "1",
            "7",
            "-1",
            "1.5",
            "'7'",
            "'failed'",
            "'retry'",
            "'timed'",
            "'('",
            "'-1h'",
            "'2026-03-01'",
            "'é'",
        ),
    ]
)

VALUES = {
    "number": ("1", "2"),
    "id": ("7", "'8'"),
    "instant": ("'-1h'", "'2026-02-28'"),
    "text": ("'sql'", "'b'"),
    "part": ("'b'", "2", "true", '\'"b":"b"\''),
}
PARTS = ({}, {"team": "b"}, {"b": "2", "team": '"b":"b"'}, {"n": "true", "N": "b"}, {"N": "2", "b": "b"})
KNOWN = {"status": ("'failed'", "'completed'"), "descent": ("'retry'", "'fork'")}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*sorted(FIELDS), "label.team", "label.b", "input.n", "input.N"]))
    field = find_field(name)
    assert field is not None
    kind = field.kind if field.part is None else "part"
    values = st.sampled_from(KNOWN.get(name, VALUES[kind]))
    one, other = draw(values), draw(values)
    patterns = ("{} ~ 'e'", "{} !~ '^s'") if kind in ("text", "part") else ("{} < {}", "{} >= {}")
    form = draw(
        st.sampled_from(
            (
                "{} = {}",
                "{} != {}",
                "{} in ({}, {})",
                "{} not in ({}, {})",
                "{} is null",
                "{} is not null",
                *patterns,
            )
        )
    )
    return form.format(name, one, other)


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.tuples(inner, inner).map(lambda both: "({}) and ({})".format(*both)),
        st.tuples(inner, inner).map(lambda both: "({}) or ({})".format(*both)),
    ),
    max_leaves=6,
)


def _rows() -> Iterator[ExecutionRow]:
    bare = ExecutionRow("1", "b", 1, "d", "failed", 1, 1, NOW - timedelta(days=2), NOW)
    for number, (error, end, source) in enumerate(product(ERRORS, ENDS, SOURCES), 1):
        status = "failed" if number % 2 else "completed"
        descent = None if source is None else "retry" if number % 3 else "fork"
        yield replace(
            bare,
            execution_id=str(number),
            status=status,
            error=error,
            ended_at=end,
            source_id=source,
            descent=descent,
            parent_id=str(number % 9) if number % 5 else None,
            playbook_version=1 + number % 2,
            path="b" if number % 4 else "a/b",
            labels=write_facets(PARTS[number % 5]),
            inputs=write_facets(PARTS[number % 3 + 2]),
        )


ROWS = tuple(_rows())


@pytest.fixture(scope="module")
def filled() -> Iterator[Store]:
    store = open_store("memory://")
    with store.begin() as tx:
        for row in ROWS:
            tx.executions.create(row)
    yield store
    store.close()


@settings(max_examples=examples(60))
@given(CONDITIONS)
def test_those_are_found_of_which_a_condition_is_true(filled: Store, text: str) -> None:
    condition = parse_where(text, NOW)
    with filled.read() as tx:
        found = {row.execution_id for row in tx.executions.find(where=condition, limit=1000)}
    assert found == {row.execution_id for row in ROWS if holds(condition, row)}


@settings(max_examples=examples(60))
@given(CONDITIONS)
def test_those_are_counted_of_which_a_condition_is_true(filled: Store, text: str) -> None:
    condition = parse_where(text, NOW)
    with filled.read() as tx:
        found = tx.executions.tally(condition)
    assert found.is_whole
    assert found.counts == Counter(row.status for row in ROWS if holds(condition, row))


@settings(max_examples=examples(60))
@given(st.one_of(st.lists(WORDS, max_size=12).map(" ".join), st.text(max_size=60)))
def test_whatever_is_written_is_read_or_answered(filled: Store, text: str) -> None:
    with suppress(BadRequest):
        condition = parse_where(text, NOW)
        with filled.read() as tx:
            tx.executions.find(where=condition)
