"""The duckdb tool: rows into tables, transactions, other databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.duckdb.outward import describe
from noetl.tools.duckdb.tool import DuckDb, DuckDbConfig
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from tests.memory import peak
from tests.waiting import until

EVIL = "'; drop table t;--"


@pytest.fixture
def tool(tmp_path: Path) -> DuckDb:
    (tmp_path / "base").mkdir()
    credentials = {
        "pg": {"host": "h", "user": "u'", "password": "s3cret pass'", "database": "d"},
        "lite": {"database": "x.sqlite"},
    }
    return DuckDb(
        Services(
            files=FilePolicy(roots=(tmp_path / "base",), directories=(tmp_path / "base",)),
            scratch=tmp_path / "s",
            credential=credentials.__getitem__,
        )
    )


def order(deadline_s: float | None = None) -> Call:
    return Call("duckdb", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k", deadline_s=deadline_s)


def run(tool: DuckDb, command: str | None = None, **config: Any) -> Outcome:
    given = {} if command is None else {"command": command}
    return tool.run(order(), DuckDbConfig.model_validate({"database": "x.db", **given, **config}))


def refused(tool: DuckDb, command: str | None = None, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **config)
    return caught.value


def rows(tool: DuckDb, command: str) -> Any:
    return run(tool, command).result["rows"]


EVERY = """create table t (id bigint, "a ""b"" c" varchar, doc json, tags varchar[], n decimal(20, 4), h hugeint,
    ts timestamp, day date, yes boolean, raw blob, u uuid, s struct(x double, y varchar), e enum('a', 'b'),
    m map(varchar, integer), f double, d integer default 5)"""
ROW = {
    "id": 2**62,
    'a "b" c': EVIL,
    "doc": {"k": [1, None, EVIL]},
    "tags": ["a,b", 'q"', None],
    "n": 1.25,
    "h": 2**100,
    "ts": "2026-01-02T03:04:05.500000",
    "day": "2026-01-02",
    "yes": True,
    "raw": "YWIA/w==",
    "u": "00000000-0000-0000-0000-000000000001",
    "s": {"x": 1.5, "y": EVIL},
    "e": "b",
    "m": {"k": 1},
    "f": 0.1,
}
EMPTY: dict[str, Any] = dict.fromkeys(ROW) | {"id": 1}


@pytest.mark.parametrize("mode", ["insert", "copy", "replace"])
def test_what_is_read_can_be_written_and_read_again(tool: DuckDb, mode: str) -> None:
    run(tool, EVERY)

    result = run(tool, table="t", mode=mode, rows=[ROW, EMPTY]).result

    assert rows(tool, "from t order by id desc") == [{**ROW, "d": 5}, {**EMPTY, "d": 5}]
    assert (result["rows_written"], result["mode"]) == (2, mode)


def test_an_upsert_changes_what_is_there_and_the_last_of_a_key_wins(tool: DuckDb) -> None:
    run(tool, "create table t (id int primary key, n text); insert into t values (1, 'old'), (9, 'stays')")

    given = [{"id": 1, "n": "a"}, {"id": 2, "n": EVIL}, {"id": 1, "n": "new"}]
    result = run(tool, table="main.t", mode="upsert", key="id", rows=given).result

    assert result["rows_written"] == 2
    assert [row["n"] for row in rows(tool, "from t order by id")] == ["new", EVIL, "stays"]


def test_null_does_not_empty_a_table(tool: DuckDb) -> None:
    run(tool, "create table t (id int); insert into t values (1)")
    assert "`rows` is null, and `mode: replace` would empty" in str(
        refused(tool, table="t", rows=None, mode="replace")
    )
    assert rows(tool, "select count(*) n from t") == [{"n": 1}]
    run(tool, table="t", rows=[], mode="replace")
    assert rows(tool, "select count(*) n from t") == [{"n": 0}]


@pytest.mark.parametrize("mode", ["insert", "replace"])
def test_rows_are_written_all_or_none(tool: DuckDb, mode: str) -> None:
    run(tool, "create table t (id int); insert into t values (1)")

    error = refused(tool, table="t", mode=mode, rows=[{"id": n} for n in (*range(9_000), "no number")])

    assert error.kind == "sql"
    assert "no number" in str(error)
    assert rows(tool, "from t") == [{"id": 1}]


def test_a_transaction_is_all_or_nothing(tool: DuckDb) -> None:
    run(tool, "create table t (id int)")

    error = refused(tool, "insert into t values (1);\nselect error('no')", transaction=True)
    run(tool, "insert into t values (2); insert into t values (3)", transaction=True)

    assert error.line == 2
    assert rows(tool, "from t") == [{"id": 2}, {"id": 3}]


def test_unknown_names_come_with_the_nearest(tool: DuckDb) -> None:
    run(tool, "create table orders (amount int)")

    assert "did you mean 'orders'?" in str(refused(tool, table="order", rows=[{"amount": 1}]))
    assert "did you mean 'amount'?" in str(refused(tool, table="orders", rows=[{"amuont": 1}]))
    assert run(tool, table="Orders", rows=[{"AMOUNT": 1}]).result["rows_written"] == 1


def test_bytes_that_are_no_base64_name_their_row(tool: DuckDb) -> None:
    run(tool, "create table t (b blob)")

    assert "Row 1 (from 0): the column 'b'" in str(refused(tool, table="t", rows=[{"b": None}, {"b": "?"}]))


def test_many_rows_go_in_and_out_and_take_no_more_memory_than_few(tool: DuckDb) -> None:
    run(tool, "create table t (id int, name text, v double)")
    many = [{"id": n, "name": f"name {n}", "v": n / 2} for n in range(15_000)]
    some, others = many[:5_000], many[5_000:]
    few = peak(lambda: run(tool, table="t", rows=some))

    assert peak(lambda: run(tool, table="t", rows=others)) < 1.5 * few
    assert rows(tool, "from t order by id") == many


#: Says that it has begun by a file, and does not end.
ENDLESS = "copy (select 1) to 'begun.csv'; select count(*) from range(1000000000) a, range(1000000) b"


def has_begun(tool: DuckDb) -> bool:
    return (tool.services.files.start or Path()).joinpath("begun.csv").exists()


def test_a_call_that_is_cancelled_ends(tool: DuckDb) -> None:
    call = order()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tool.run, call, DuckDbConfig(command=ENDLESS))
        until(lambda: has_begun(tool) or running.done(), "the call to be at work")
        tool.interrupt(call)
        error = running.exception()

    assert isinstance(error, ToolError)
    assert error.kind == "cancelled"


def test_a_call_that_waits_for_a_file_is_cancelled_too(tool: DuckDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.duckdb.tool.PATIENCE_S", 3600.0)
    waits, holds = order(), order()
    config = DuckDbConfig(command=ENDLESS, database="x.db")
    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(tool.run, holds, config)
        until(lambda: has_begun(tool) or holding.done(), "the file to be held")
        waiting = pool.submit(tool.run, waits, config)
        until(lambda: tool.interrupt(waits) or waiting.done(), "the call that waits to end")
        assert not holding.done()
        tool.interrupt(holds)
        errors = [waiting.exception(), holding.exception()]

    assert [error.kind for error in errors if isinstance(error, ToolError)] == ["cancelled"] * 2


# --- other databases -----------------------------------------------------------------------------


def test_an_extension_that_is_missing_is_reported(tool: DuckDb) -> None:
    (tool.services.files.start or Path()).joinpath("x.sqlite").touch()

    error = refused(tool, "select 1", attach={"lite": {"database": "x.sqlite"}})

    assert (error.kind, error.type) == ("client_error", "ExtensionMissing")
    assert "which is not installed on this worker: install it there (pip install duckdb-ext" in str(error)
    assert "s3cret" not in str(refused(tool, "select 1", attach={"pg": "pg"}))


def test_a_database_is_attached_for_reading_and_quoted(tool: DuckDb) -> None:
    postgres = describe('p"g', "pg", tool.services, tool.services.files)

    assert postgres.type == "postgres"
    assert postgres.statement.startswith("ATTACH '")
    assert postgres.statement.endswith(""" AS "p""g" (TYPE postgres, READ_ONLY)""")
    assert "user='u\\\\'''" in postgres.statement or "u\\''" in postgres.statement


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("lite", "there is no file"),
        ({"database": "../x"}, "leads out of"),
        ({"type": "mysql"}, "`type` is postgres or sqlite"),
        ({"path": "x"}, "'path' means nothing"),
        ({"auth": "pg", "read_only": "no"}, "`read_only` is true or false"),
    ],
)
def test_what_cannot_be_attached_says_why(tool: DuckDb, given: Any, said: str) -> None:
    assert said in str(refused(tool, "select 1", attach={"other": given}))


def test_the_database_of_the_engine_is_not_attached(tmp_path: Path, sqlite_url: str) -> None:
    tool = DuckDb(Services(files=FilePolicy(as_user=True, directories=(tmp_path,)), scratch=tmp_path / "s"))
    error = refused(tool, "select 1", attach={"log": {"database": sqlite_url.removeprefix("sqlite:///")}})

    assert error.type == "EngineDatabase"
