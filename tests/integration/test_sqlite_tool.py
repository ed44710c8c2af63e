"""The sqlite tool: real files, values, rows, and what SQL may not touch."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.sqlite.tool import Sqlite, SqliteConfig
from tests.memory import peak
from tests.waiting import until

EVIL = "'; drop table t;--"


@pytest.fixture
def tool(tmp_path: Path) -> Sqlite:
    base = tmp_path / "base"
    base.mkdir()
    return Sqlite(
        Services(files=FilePolicy(roots=(base,), directories=(base,)), scratch=tmp_path / "scratch")
    )


def base(tool: Sqlite) -> Path:
    assert tool.services.files.start is not None
    return tool.services.files.start


def order(deadline_s: float | None = None) -> Call:
    return Call("sqlite", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k", deadline_s=deadline_s)


def run(tool: Sqlite, command: str | None = None, deadline_s: float | None = None, **config: Any) -> Outcome:
    given = {} if command is None else {"command": command}
    config = {"database": "x.db", **config}
    return tool.run(order(deadline_s), SqliteConfig.model_validate({**given, **config}))


def refused(tool: Sqlite, command: str | None = None, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **config)
    return caught.value


def rows(tool: Sqlite, command: str, **config: Any) -> Any:
    return run(tool, command, **config).result["rows"]


def test_every_statement_answers_and_the_last_is_on_top(tool: Sqlite) -> None:
    result = run(
        tool,
        "create table t (a int, b text); insert into t values (1, 'x;y'), (2, 'it''s'); select * from t "
        "order by a",
    ).result

    assert result["rows"] == [{"a": 1, "b": "x;y"}, {"a": 2, "b": "it's"}]
    assert (result["row_count"], result["columns"]) == (2, ["a", "b"])
    assert (result["command_1"]["row_count"], result["command_1"]["status"]) == (2, "INSERT")
    assert rows(tool, "insert into t values (3, null) returning a, a as a") == [{"a": 3, "a_2": 3}]


@pytest.mark.parametrize("name", ["command", "query", "commands", "sql", "script"])
def test_sql_goes_by_five_names(tool: Sqlite, name: str) -> None:
    assert run(tool, **{name: "select 1 as a"}).result["rows"] == [{"a": 1}]


def test_a_trigger_is_one_statement(tool: Sqlite) -> None:
    run(
        tool,
        """create table t (a int, b int); create trigger if not exists g after insert on t begin
        update t set b = case when new.a > 1 then 5 else 6 end; insert into t select 9, 9 where 0; end;
        insert into t (a) values (2);""",
    )

    assert rows(tool, "select a, b from t") == [{"a": 2, "b": 5}]


def test_values_are_bound_and_come_as_json(tool: Sqlite) -> None:
    [row] = rows(
        tool,
        "select :evil as e, :n as n, :doc as d, :yes as y, :none as z, x'6162' as b, 1e999 as i, ':n' as "
        "q, 7 % 4 as m",
        params={"evil": EVIL, "n": 2**62, "doc": {"a": [1]}, "yes": True, "none": None},
    )

    assert row == {"e": EVIL, "n": 2**62, "d": '{"a": [1]}', "y": 1, "z": None, "b": "YWI=", "i": None, "q": ":n", "m": 3}  # fmt: skip
    assert rows(tool, "select $2 as b, $1 as a", params=[1, "x"]) == [{"b": "x", "a": 1}]


def test_memory_is_empty_for_each_call(tool: Sqlite) -> None:
    run(tool, "create table t (a int)", database=":memory:")

    assert "no such table" in str(refused(tool, "select * from t", database=":memory:"))
    assert list(base(tool).iterdir()) == []


def test_a_transaction_is_all_or_nothing(tool: Sqlite) -> None:
    run(tool, "create table t (a int primary key)")
    failing = "insert into t values (:a); insert into t values (:a)"

    assert "UNIQUE constraint failed" in str(refused(tool, failing, params={"a": 1}, transaction=True))
    refused(tool, failing, params={"a": 2})
    run(tool, "insert into t values (3); insert into t values (4)", transaction=True)

    assert [row["a"] for row in rows(tool, "select a from t order by a")] == [2, 3, 4]


def test_an_error_names_its_statement_and_line(tool: Sqlite) -> None:
    error = refused(tool, "select 1;\n-- two\nselect 1\nwher missing")

    assert (error.kind, error.line, error.type) == ("sql", 4, "OperationalError")
    assert str(error).startswith('Statement 2 of 2 failed at line 4: near "missing": syntax error')
    assert error.extras["sqlite"]["code"] == "SQLITE_ERROR"


@pytest.mark.parametrize("value", [2**70, "\ud800"])
def test_what_sqlite_cannot_hold_is_an_sql_error(tool: Sqlite, value: object) -> None:
    assert refused(tool, "select :a", params={"a": value}).kind == "sql"


@pytest.mark.parametrize("database", ["../x.db", "out/x.db", "a\0b"])
def test_a_relative_database_stays_below_its_directory(tool: Sqlite, database: str) -> None:
    (base(tool) / "out").symlink_to(base(tool).parent)

    error = refused(tool, "select 1", database=database)

    assert (error.kind, error.type) == ("client_error", "BadPath")


@pytest.mark.parametrize(
    "sql",
    [
        "attach '{other}' as o",
        "attach ('{folder}' || '/other.db') as o",
        "vacuum into '{other}'",
        "select load_extension('{other}')",
        "pragma hard_heap_limit = 1",
        "pragma temp_store_directory = '/tmp'",
    ],
)
def test_sql_reaches_no_other_file_and_no_setting_of_the_process(tool: Sqlite, sql: str) -> None:
    folder = base(tool).parent

    error = refused(tool, sql.format(other=folder / "other.db", folder=folder))

    assert error.kind == "sql"
    assert not (folder / "other.db").exists()


def test_a_vacuum_runs(tool: Sqlite) -> None:
    assert run(tool, "create table t (a); vacuum; analyze").ok


def test_the_database_of_the_engine_is_refused(tmp_path: Path, sqlite_url: str) -> None:
    tool = Sqlite(Services(files=FilePolicy(as_user=True), scratch=tmp_path / "scratch"))
    path = sqlite_url.removeprefix("sqlite:///")

    error = refused(tool, "delete from event", database=path)

    assert (error.kind, error.type) == ("client_error", "EngineDatabase")
    assert refused(tool, "select 1", database=path, read_only=True).type == "EngineDatabase"


def test_anything_but_a_database_says_so(tool: Sqlite) -> None:
    (base(tool) / "x.txt").write_text("no database at all" * 100)

    assert "file is not a database" in str(refused(tool, "select 1", database="x.txt"))
    assert "does not exist" in str(refused(tool, "select 1", database="none.db", read_only=True))
    assert "unable to open" in str(refused(tool, "select 1", database="no/such/folder/x.db"))


def test_reading_only_changes_nothing(tool: Sqlite) -> None:
    run(tool, "create table t as select 1 as a")

    assert rows(tool, "select a from t", read_only=True) == [{"a": 1}]
    assert "readonly" in str(refused(tool, "insert into t values (2)", read_only=True))


def test_a_file_has_a_write_ahead_log_and_readers_do_not_wait(tool: Sqlite) -> None:
    run(tool, "create table t as select 1 as a")
    writer = sqlite3.connect(base(tool) / "x.db", isolation_level=None)
    try:
        writer.execute("begin immediate")
        writer.execute("insert into t values (2)")

        assert rows(tool, "select count(*) as n from t; pragma journal_mode") == [{"journal_mode": "wal"}]
        busy = refused(tool, "insert into t values (3)", busy_timeout=0.1)
        late = refused(tool, "insert into t values (3)", busy_timeout=3600, deadline_s=0.3)
    finally:
        writer.close()

    assert (busy.kind, busy.retryable) == ("connection", True)
    assert late.retryable
    assert rows(tool, "select count(*) as n from t") == [{"n": 1}]


ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"


def test_a_call_ends_at_its_deadline_and_leaves_nothing(tool: Sqlite) -> None:
    run(tool, "create table t (a)")
    error = refused(tool, f"insert into t values (1); {ENDLESS}", transaction=True, deadline_s=0.3)

    assert (error.kind, error.retryable) == ("timeout", True)
    assert rows(tool, "select * from t") == []


def test_a_call_that_is_cancelled_ends(tool: Sqlite) -> None:
    call = order()
    config = SqliteConfig(command=f"create table begun (a); {ENDLESS}", database="x.db")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(tool.run, call, config)
        begun = "select * from sqlite_schema where name = 'begun'"
        until(lambda: rows(tool, begun) or running.done(), "the call to be at work")
        tool.interrupt(call)
        error = running.exception()

    assert isinstance(error, ToolError)
    assert error.kind == "cancelled"


def test_too_many_rows_are_a_limit(tool: Sqlite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.sql.calls.MAX_ROWS", 1000)

    assert refused(tool, ENDLESS.replace("count(*)", "x")).type == "TooManyRows"


# --- rows ----------------------------------------------------------------------------------------


def test_rows_are_inserted_with_names_and_values_that_are_only_that(tool: Sqlite) -> None:
    run(tool, """create table "od d""; t" ("a b" int, "c;--" text, doc text, blob blob, d default 5)""")

    result = run(
        tool,
        table='"od d""; t"',
        rows=[{"a b": 1, "c;--": EVIL}, {"a b": 2, "doc": {"k": [1]}, "blob": "YWI="}],
    ).result

    assert (result["rows_written"], result["mode"]) == (2, "insert")
    assert rows(tool, """select *, hex("blob") as h from "od d""; t" """) == [
        {"a b": 1, "c;--": EVIL, "doc": None, "blob": None, "d": 5, "h": ""},
        {"a b": 2, "c;--": None, "doc": '{"k": [1]}', "blob": "YWI=", "d": 5, "h": "6162"},
    ]


def test_an_upsert_changes_what_is_there_and_the_last_of_a_key_wins(tool: Sqlite) -> None:
    run(tool, "create table t (id int primary key, n text); insert into t values (1, 'old'), (9, 'stays')")

    outcome = run(
        tool,
        table="t",
        mode="upsert",
        key="id",
        rows=[{"id": 1, "n": "a"}, {"id": 2, "n": "b"}, {"id": 1, "n": "new"}],
    )

    assert outcome.result["rows_written"] == 2
    assert outcome.meta["warnings"] == ["Rows merged with a later one that has their key: 1"]
    assert rows(tool, "select * from t order by id") == [
        {"id": 1, "n": "new"},
        {"id": 2, "n": "b"},
        {"id": 9, "n": "stays"},
    ]


def test_a_replacement_is_all_or_nothing(tool: Sqlite) -> None:
    run(tool, "create table t (id int primary key); insert into t values (1)")

    failed = refused(tool, table="t", mode="replace", rows=[{"id": 5}, {"id": 5}])
    assert rows(tool, "select id from t") == [{"id": 1}]
    run(tool, table="t", mode="replace", rows=[{"id": 6}, {"id": 7}])

    assert "UNIQUE constraint failed" in str(failed)
    assert rows(tool, "select id from t") == [{"id": 6}, {"id": 7}]


def test_unknown_names_come_with_the_nearest(tool: Sqlite) -> None:
    run(tool, "create table orders (amount int)")

    assert "did you mean 'orders'?" in str(refused(tool, table="order", rows=[{"amount": 1}]))
    assert "did you mean 'amount'?" in str(refused(tool, table="orders", rows=[{"amuont": 1}]))
    assert run(tool, table="Orders", rows=[{"AMOUNT": 1}]).result["rows_written"] == 1


def test_bytes_that_are_no_base64_name_their_row(tool: Sqlite) -> None:
    run(tool, "create table t (b blob)")

    assert "Row 1 (from 0): the column 'b'" in str(refused(tool, table="t", rows=[{"b": None}, {"b": "?"}]))
    assert rows(tool, "select * from t") == []


def test_exact_numbers_keep_their_digits_or_are_refused_with_their_row_and_column(tool: Sqlite) -> None:
    run(tool, "create table t (n numeric, s text, free)")
    long = Decimal("12345678901234567.25")

    run(tool, table="t", rows=[{"n": Decimal("1.50"), "s": long, "free": 2**70}])
    failed = refused(tool, table="t", rows=[{"n": 1}, {"n": long}])

    assert rows(tool, "select * from t") == [{"n": 1.5, "s": str(long), "free": str(2**70)}]
    assert "Row 1 (from 0): the column 'n' is NUMERIC, which cannot hold 12345678901234567.25" in str(failed)
    assert rows(tool, "select :a as a, :b as b", params={"a": Decimal("0.10"), "b": long}) == [
        {"a": 0.1, "b": str(long)}
    ]


def test_many_rows_go_in_and_out_and_take_no_more_memory_than_few(tool: Sqlite) -> None:
    run(tool, "create table t (id int primary key, name text, v real)")
    many = [{"id": n, "name": f"name {n}", "v": n / 2} for n in range(15_000)]
    some, others = many[:5_000], many[5_000:]
    few = peak(lambda: run(tool, table="t", rows=some, mode="copy"))

    assert peak(lambda: run(tool, table="t", rows=others, mode="copy")) < 1.5 * few
    assert rows(tool, "select * from t order by id") == many


def test_rows_of_a_step_before_are_written_and_read_again_by_a_playbook(result: Any, tmp_path: Path) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, code: "result = [{'id': n, 'pad': 'x' * 100} for n in range(3000)]"}
        next: make
      - step: make
        tool: {kind: sqlite, database: "{{ file }}", script: "CREATE TABLE t (id INTEGER PRIMARY KEY, pad TEXT)"}
        next: write
      - step: write
        tool: {kind: sqlite, database: "{{ file }}", table: t, mode: upsert, key: id, rows: "{{ start }}"}
        next: read
      - step: read
        tool: {kind: sqlite, database: "{{ file }}", params: {least: 2000}, query: "SELECT count(*) AS n FROM t WHERE id >= :least"}
        next: end
      - {step: end, tool: {kind: noop, input: {n: "{{ read.rows[0].n }}", written: "{{ write.rows_written }}"}}}
    """
    assert result(body, file=str(tmp_path / "p.db")) == {"n": 1000, "written": 3000}
