"""Rows are checked before anything is sent, and cut into pieces that fit into memory."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from noetl.errors import ToolError
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.calls import RunningCalls
from noetl.tools.sql.batches import batches
from noetl.tools.sql.calls import ResultBounds, RowCollector
from noetl.tools.sql.config import SqlConfig
from noetl.tools.sql.plan import TableColumn, plan
from noetl.tools.sql.rows import TableWrite, quote, write_of
from noetl.tools.sql.text import split
from tests.waiting import GUARD_S


def write(**config: Any) -> TableWrite:
    found = write_of(SqlConfig.model_validate({"table": "t", "rows": [{"a": 1}], **config}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"command": "select 1", "table": "t", "rows": []}, "`table` writes rows and `command` runs SQL"),
        ({"command": "select 1", "script": "select 1"}, "two names of the same thing"),
        ({"params": {}, "table": "t", "rows": []}, "`table` writes rows and `params` runs SQL"),
        ({"table": "t"}, "`table` needs `rows`"),
        ({"command": "select 1", "rows": []}, "name the `table` that they go to"),
        ({"command": "select 1", "missing": "keep"}, "name the `table` that they go to"),
        ({"table": "t", "rows": [], "mode": "upsert"}, "`mode: upsert` and `key`"),
        ({"table": "t", "rows": [], "key": "id"}, "`mode: upsert` and `key`"),
        ({"table": "t", "rows": [], "mode": "merge"}, "'insert', 'upsert', 'copy' or 'replace'"),
    ],
)
def test_what_does_not_go_together_is_reported(config: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        SqlConfig.model_validate(config)

    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"rows": "text"}, "it is of type str"),
        ({"rows": None}, None),
        ({"rows": {"rows": 5}}, "it is of type dict"),
        ({"rows": {}}, "every row is an empty mapping"),
        ({"rows": [{"a": 1}, [1]]}, "Row 1 (from 0) of `rows` is of type list"),
        ({"rows": [{}]}, "every row is an empty mapping"),
        ({"rows": [{"": 1}]}, "cannot be the name of a column"),
        ({"rows": [{"a\0b": 1}]}, "cannot be the name of a column"),
        ({"rows": [{"a" * 129: 1}]}, "cannot be the name of a column"),
        ({"table": "a.b.c.d"}, "is no name of a table"),
        ({"table": 'a"b'}, "is no name of a table"),
        ({"table": ".t"}, "is no name of a table"),
        ({"table": " "}, "cannot be the name of a table"),
        ({"table": ""}, "is no name of a table"),
        ({"mode": "upsert", "key": ["b"]}, "`key` names the column 'b', which no row has"),
    ],
)
def test_rows_and_names_that_cannot_be_used_are_reported(config: Any, said: str | None) -> None:
    if said is None:
        assert write(**config).rows == []
        return
    with pytest.raises(ToolError) as caught:
        write(**config)

    assert caught.value.kind == "client_error"
    assert said in str(caught.value)


@pytest.mark.parametrize("rows", [{"a": 1}, [{"a": 1}], {"rows": [{"a": 1}], "row_count": 1}])
def test_a_mapping_is_a_row_unless_it_has_rows(rows: Any) -> None:
    assert write(rows=rows).rows == [{"a": 1}]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("t",)),
        ("s.t", ("s", "t")),
        ('s."a.b"', ("s", "a.b")),
        ('"a ""b"" ; drop"', ('a "b" ; drop',)),
        ("t; drop table x", ("t; drop table x",)),
    ],
)
def test_a_table_is_named_in_parts(text: str, parts: tuple[str, ...]) -> None:
    assert write(table=text).table == parts


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1))
def test_a_quoted_name_is_one_token_whatever_it_holds(name: str) -> None:
    [statement] = split(f"select {quote(name)}")

    assert statement.text == f"select {quote(name)}"
    assert quote(name)[1:-1].replace('""', '"') == name


def test_the_last_row_of_a_key_stays_and_null_is_no_key() -> None:
    rows = [{"a": 1, "n": 1}, {"a": None, "n": 2}, {"a": "1", "n": 3}, {"a": None, "n": 4}, {"a": 1, "n": 5}]

    found = write(rows=rows, mode="upsert", key="a")

    assert [row["n"] for row in found.rows] == [2, 3, 4, 5]
    assert found.repeated == 1


def test_names_that_differ_by_case_are_one_column_where_the_database_says_so() -> None:
    two = write(rows=[{"a": 1}, {"A": 2}])

    column = TableColumn("int")

    assert plan(two, {"a": column, "A": column}, fold=False).names == ("a", "A")
    with pytest.raises(ToolError, match="name the column 'a' twice"):
        plan(two, {"a": column}, fold=True)


@given(st.lists(st.integers(0, 3_000_000), max_size=12))
def test_batches_hold_every_row_once_in_order_and_little_text(sizes: list[int]) -> None:
    rows = [{"n": n, "pad": "x" * size} for n, size in enumerate(sizes)]

    found = list(batches(rows, ("n", "pad")))

    assert [row["c0"] for batch in found for row in json.loads(batch)] == list(range(len(sizes)))
    assert all(len(batch) < 4_200_000 for batch in found)


def test_batches_of_small_rows_are_bounded_too() -> None:
    rows = [{"n": n} for n in range(12_000)]

    assert [len(json.loads(one)) for one in batches(rows, ("n",))] == [5000, 5000, 2000]


def test_a_key_that_a_row_lacks_is_null() -> None:
    [batch] = batches([{"a": 1}, {"b": 2}], ("a", "b"))

    assert json.loads(batch) == [{"c0": 1, "c1": None}, {"c0": None, "c1": 2}]


def test_an_answer_is_refused_when_it_becomes_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.sql.calls.MAX_ROWS", 3)
    rows = RowCollector("The statement", ["a"], ResultBounds(20, set()))
    rows.add([[1], [["12345", {"k": "67890"}]]])
    wide = RowCollector("The statement", ["a"], ResultBounds(20, set()))

    with pytest.raises(ToolError, match="more than 3 rows") as many:
        rows.add([[1], [2]])
    with pytest.raises(ToolError, match="more than the 20 bytes") as large:
        wide.add([["x" * 21]])

    assert (many.value.kind, large.value.kind) == ("limit", "limit")


def order() -> Call:
    return Call("sqlite", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k")


def test_only_the_very_call_is_cancelled_also_before_anything_runs() -> None:
    running, mine, other, barked = RunningCalls(), order(), order(), threading.Event()

    with running.enter(mine) as stop, stop.watch(60, barked.set):
        running.interrupt(other)
        assert not stop.pulled
        running.interrupt(mine)
    with running.enter(mine) as early:
        running.interrupt(mine)
        with pytest.raises(ToolError) as caught, early.watch(60, barked.clear):
            pytest.fail("it ran")
    running.interrupt(mine)

    assert (stop.cancelled, stop.late, barked.is_set()) == (True, False, True)
    assert caught.value.kind == "cancelled"


def test_a_deadline_barks_once_and_is_distinguished_from_a_cancellation() -> None:
    barked = threading.Event()

    with RunningCalls().enter(order()) as stop, stop.watch(0.01, barked.set):
        assert barked.wait(GUARD_S)

    assert (stop.cancelled, stop.late) == (False, True)
