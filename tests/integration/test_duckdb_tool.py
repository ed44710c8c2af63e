"""The duckdb tool: files, rows, values, and what SQL may not touch."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Later, Where
from noetl.tools.duckdb.tool import DuckDb, DuckDbConfig
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from tests import zygote
from tests.effort import calls
from tests.waiting import GUARD_S, until


@pytest.fixture
def tool(tmp_path: Path) -> DuckDb:
    base = tmp_path / "base"
    (base / "data").mkdir(parents=True)
    return DuckDb(
        Services(files=FilePolicy(roots=(base,), directories=(base,)), scratch=tmp_path / "scratch")
    )


def base(tool: DuckDb) -> Path:
    assert tool.services.files.start is not None
    return tool.services.files.start


def run(tool: DuckDb, command: str | list[str], deadline_s: float | None = None, **config: Any) -> Outcome:
    order = Call("duckdb", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k", deadline_s=deadline_s)
    given = DuckDbConfig.model_validate({"command": command, **config})
    while isinstance(came := tool.run(order, given), Later):
        order = replace(order, checkpoint=came.checkpoint)
    assert isinstance(came, Outcome)
    return came


def refused(tool: DuckDb, command: str, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **config)
    return caught.value


def test_every_statement_answers_and_the_last_is_on_top(tool: DuckDb) -> None:
    result = run(
        tool, "create table t as select 1 a; insert into t values (2), (3); from t order by a"
    ).result

    assert result["rows"] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert (result["row_count"], result["columns"]) == (3, ["a"])
    assert (result["command_1"]["row_count"], result["command_1"]["rows"]) == (2, [])
    assert (result["command_1"]["status"], result["command_2"]["status"]) == ("INSERT", "SELECT")


def test_an_error_of_csv_names_the_file_the_line_and_the_value(tool: DuckDb) -> None:
    (base(tool) / "data" / "x.csv").write_text("v\n" + "1\n" * 30_000 + "n/a\n")

    message = refused(tool, "select sum(v) from read_csv('data/x.csv')").message

    where = f"The file {base(tool) / 'data' / 'x.csv'} cannot be read: line 30002"
    assert f"{where} has 'n/a' in the column 'v', which is BIGINT by the lines before" in message
    assert "sample_size" not in message


@pytest.mark.parametrize("reader", ["read_csv('{}')", "'{}'", "read_csv(['{}'])"])
def test_a_name_that_exists_is_that_file_and_else_a_pattern(tool: DuckDb, reader: str) -> None:
    for name, number in {"a[1].csv": 1, "a1.csv": 2, "a2.csv": 3}.items():
        (base(tool) / "data" / name).write_text(f"n\n{number}\n")

    rows = [
        run(tool, f"select sum(n)::int as n from {reader.format(name)}").result["rows"]
        for name in ("data/a[1].csv", "data/a[12].csv", "data/a[[]1].csv")
    ]

    assert rows == [[{"n": 1}], [{"n": 5}], [{"n": 1}]]


def test_a_parameter_with_more_digits_than_a_number_has_is_refused(tool: DuckDb) -> None:
    exact, wide = (Decimal("1" * 30 + "." + "2" * scale) for scale in (8, 9))

    assert run(tool, "select $1 as n", params=[exact]).result["rows"] == [{"n": exact}]
    message = refused(tool, "select :n as n", params={"n": wide}).message

    assert "`:n` has more than 38 digits" in message


@pytest.mark.parametrize("rows", [[{"v": 1, "V": 2}], [{"v": 1}, {"V": 2}]])
def test_columns_that_differ_by_case_alone_are_refused(tool: DuckDb, rows: Any) -> None:
    message = refused(tool, "from t", tables={"t": rows}).message

    assert message.startswith("Table 't' has the columns 'v' and 'V', which are one to DuckDB")


def test_a_database_is_called_as_its_name_says(tool: DuckDb) -> None:
    run(tool, "create table t as select 1 as n", database="x[1].duckdb")

    attached = ["attach 'x[1].duckdb' as x", "from x.t"]

    assert run(tool, attached, allow_external=True).result["rows"] == [{"n": 1}]


def test_memory_is_empty_for_each_call(tool: DuckDb) -> None:
    run(tool, "create table t (a int)")

    assert refused(tool, "from t").type == "CatalogException"


def test_values_come_as_json(tool: DuckDb) -> None:
    [row] = run(
        tool,
        """select 170141183460469231731687303715884105727::hugeint h, 1.50::decimal(10,2) d, 7::decimal(10,2) i,
        [1, null] l, {'a': date '2026-01-02'} s, map {1: 'x'} m, timestamp '2026-01-02 03:04:05.5' t,
        timestamptz '2026-01-02 00:00:00+00' tz, interval 90 minutes iv, 'ab'::blob b, 'nan'::double n,
        '{"a": [1]}'::json j, uuid '00000000-0000-0000-0000-000000000001' u, 1 as h, 'x'::enum('x') e""",
    ).result["rows"]

    assert row == {
        "h": 170141183460469231731687303715884105727,
        "d": 1.5,
        "i": 7,
        "l": [1, None],
        "s": {"a": "2026-01-02"},
        "m": {"1": "x"},
        "t": "2026-01-02T03:04:05.500000",
        "tz": row["tz"],
        "iv": "PT1H30M",
        "b": "YWI=",
        "n": None,
        "j": {"a": [1]},
        "u": "00000000-0000-0000-0000-000000000001",
        "h_2": 1,
        "e": "x",
    }
    assert row["tz"].startswith("2026-01-0")


def test_a_count_column_of_a_select_is_a_row(tool: DuckDb) -> None:
    assert run(tool, 'select 5 as "Count"').result["rows"] == [{"Count": 5}]


def test_parameters_are_bound(tool: DuckDb) -> None:
    named = run(
        tool,
        "create table t as select :a::int as a; select :b as b, a, ':b' as c from t",
        params={"a": 1, "b": "'; x"},
    )
    listed = run(tool, "select $2 as b, $1 as a", params=[[1, 2], {"k": "v"}])

    assert named.result["rows"] == [{"b": "'; x", "a": 1, "c": ":b"}]
    assert listed.result["rows"] == [{"b": {"k": "v"}, "a": [1, 2]}]


def test_parquet_is_written_and_read_in_a_directory_that_is_named(tool: DuckDb) -> None:
    target = base(tool) / "data" / "t.parquet"

    run(tool, f"copy (select range a from range(10)) to '{target}' (format parquet)", files="data")
    result = run(tool, "select sum(a) as s from '~/data/*.parquet'", files=["~/data"]).result

    assert result["rows"] == [{"s": 45}]
    assert [file.name for file in target.parent.iterdir()] == ["t.parquet"]


def test_a_single_file_can_be_named(tool: DuckDb) -> None:
    (base(tool) / "in.csv").write_text("a,b\n1,x\n")
    out = base(tool) / "out.csv"

    run(tool, f"copy (from '~/in.csv') to '{out}'", files=["in.csv", "out.csv"])

    assert out.read_text() == "a,b\n1,x\n"


@pytest.mark.parametrize(
    "sql",
    [
        "from read_csv('/etc/passwd')",
        "from read_text('/etc/passwd')",
        "from glob('/etc/*')",
        "from '{data}/../../secret.csv'",
        "from '{data}/link.csv'",
        "attach '{outside}/other.db'",
        "copy (select 1) to '{outside}/evil.csv'",
        "export database '{outside}/evil'",
        "install httpfs",
        "load httpfs",
        "from 'https://127.0.0.1/x.parquet'",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "set lock_configuration = false",
        "reset enable_external_access",
        "set temp_directory = '{outside}/evil'",
        "from '~/../secret.csv'",
        "from 'data/../../secret.csv'",
    ],
)
def test_sql_reaches_nothing_that_is_not_named(tool: DuckDb, sql: str) -> None:
    data = base(tool) / "data"
    outside = base(tool).parent
    (outside / "secret.csv").write_text("a\n1\n")
    before = sorted(outside.iterdir())
    (data / "link.csv").symlink_to("/etc/passwd")

    error = refused(tool, sql.format(data=data, outside=outside), files="data")

    assert error.kind in ("sql", "client_error")
    assert [path for path in sorted(outside.iterdir()) if path.name != "scratch"] == before


def test_a_refusal_says_what_lifts_it(tool: DuckDb) -> None:
    # Before 2.0 DuckDB does not see where links lead, so that no computed name is handed to it.
    lifted = "`files` names what else SQL reaches" if duckdb.__version__ >= "2" else "write the name itself"
    assert lifted in str(refused(tool, "from read_csv('/etc/' || 'passwd')"))
    assert "put the file there, or name its folder in NOETL_FILE_ROOTS" in str(
        refused(tool, "from '/etc/x.csv'")
    )
    assert "set `allow_external: true`" in str(refused(tool, "install httpfs"))


def test_rows_become_tables_with_the_types_of_their_values(tool: DuckDb) -> None:
    rows = [
        {
            "id": 1,
            "x": 1,
            "name": "a",
            "day": "2026-01-01",
            "tags": ["p"],
            "spot": {"x": 1.5},
            "odd": 1,
            "big": 2**70,
        },
        {"id": -2, "x": 0.5, "name": None, "tags": [], "spot": None, "odd": "one", "more": True, "big": 1},
    ]
    result = run(
        tool,
        """select column_name as n, column_type as t from (describe orders);
        select id - 5 as id, x, name, tags[1] as tag, spot.x as ax, odd, more from orders order by id desc""",
        tables={"orders": rows},
    ).result

    assert {row["n"]: row["t"] for row in result["command_0"]["rows"]} == {
        "id": "BIGINT",
        "x": "DOUBLE",
        "name": "VARCHAR",
        "day": "VARCHAR",
        "tags": "VARCHAR[]",
        "spot": "STRUCT(x DOUBLE)",
        "odd": "JSON",
        "more": "BOOLEAN",
        "big": "HUGEINT",
    }
    assert result["rows"] == [
        {"id": -4, "x": 1.0, "name": "a", "tag": "p", "ax": 1.5, "odd": 1, "more": None},
        {"id": -7, "x": 0.5, "name": None, "tag": None, "ax": None, "odd": "one", "more": True},
    ]


def test_answers_of_sql_tools_and_empty_lists_are_tables_too(tool: DuckDb) -> None:
    tables = {
        "a": {"rows": [], "columns": ["x", "y"], "row_count": 0},
        "b": [],
        "c": [1, "two"],
        'd"; x': [{"k": 1}],
    }
    result = run(
        tool,
        """select x, y from a; select count(*) as n from b; select value from c; select k from "d""; x" """,
        tables=tables,
    ).result

    assert result["command_0"]["columns"] == ["x", "y"]
    assert result["command_1"]["rows"] == [{"n": 0}]
    assert result["command_2"]["rows"] == [{"value": 1}, {"value": "two"}]
    assert result["rows"] == [{"k": 1}]


def test_many_rows_are_a_table_with_work_that_grows_as_they_do(tool: DuckDb) -> None:
    rows = [{"id": n, "name": f"n{n}", "v": n / 2} for n in range(12_000)]

    def sums(of: list[Any]) -> Any:
        return run(tool, "select count(*) n, sum(v) s from t", tables={"t": of}).result["rows"]

    assert sums(rows) == [{"n": 12_000, "s": sum(row["v"] for row in rows)}]
    assert calls(lambda: sums(rows[:2_000])) < 2.2 * calls(lambda: sums(rows[:1_000]))


def test_a_table_that_is_not_one_is_refused(tool: DuckDb) -> None:
    assert "Table 't' must be a list of rows" in str(refused(tool, "from t", tables={"t": 5}))


def test_a_database_file_keeps_its_tables(tool: DuckDb) -> None:
    run(tool, "create table t as select 1 a", database="data/x.db", tables={"given": [{"a": 1}]})

    assert run(tool, "from t", database="data/x.db", read_only=True).result["rows"] == [{"a": 1}]
    assert refused(tool, "from given", database="data/x.db").type == "CatalogException"
    assert refused(tool, "insert into t values (2)", database="data/x.db", read_only=True).kind == "sql"


@pytest.mark.parametrize("database", ["../x.db", "data/../../x.db", "data/out/x.db", "a\0b"])
def test_a_relative_database_stays_below_its_directory(tool: DuckDb, database: str) -> None:
    (base(tool) / "data" / "out").symlink_to(base(tool).parent)

    error = refused(tool, "select 1", database=database)

    assert (error.kind, error.type) == ("client_error", "BadPath")


def test_calls_on_one_file_wait_for_each_other(tool: DuckDb) -> None:
    run(tool, "create table t (a int)", database="x.db")
    failed: list[Exception] = []

    def work(number: int) -> None:
        try:
            # Different settings: DuckDB refuses a second open of the file, and would share what is
            # allowed.
            run(
                tool,
                "insert into t values (:n)",
                params={"n": number},
                database="x.db",
                threads=1 + number % 3,
            )
        except Exception as error:  # noqa: BLE001 - any of them fails the test below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert run(tool, "select count(*) n from t", database="x.db").result["rows"] == [{"n": 8}]


HOLD = (
    "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); "
    "sys.stdin.read(); c.close()"
)


def test_a_file_that_another_process_holds_is_waited_for(
    tool: DuckDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.tools.duckdb.tool.PATIENCE_S", 0.2)
    path = base(tool) / "x.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()

        error = refused(tool, "select 1", database="x.db", deadline_s=0.3)
        waits = asked(tool, "select 1 as a")
        holder.stdin.close()
        holder.wait()
        later = run(tool, "select 1 as a", database="x.db")

    assert isinstance(waits, Later)
    assert (error.kind, error.retryable, error.type) == ("connection", True, "DatabaseLocked")
    assert later.result["rows"] == [{"a": 1}]


def test_a_call_ends_at_its_deadline(tool: DuckDb) -> None:
    error = refused(
        tool,
        "select count(*) from range(1000000000) a, range(1000000) b where a.range % 7 = b.range % 11",
        deadline_s=0.3,
    )

    assert (error.kind, error.retryable) == ("timeout", True)


def test_an_error_names_its_statement_and_line(tool: DuckDb) -> None:
    error = refused(tool, "select 1;\n-- two\nselect 1\nwhere missing")

    assert (error.kind, error.type, error.line) == ("sql", "BinderException", 4)
    assert str(error).startswith("Statement 2 of 2 failed at line 4: Binder Error: Referenced column")
    assert error.extras["duckdb"] == {"statement_index": 1, "statement": "-- two\nselect 1\nwhere missing"}


def test_too_little_memory_is_a_limit(tool: DuckDb) -> None:
    error = refused(tool, "select list(range) from range(100000000)", memory_limit="50MB")

    assert error.kind == "limit"


def test_too_many_rows_are_a_limit(tool: DuckDb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.sql.calls.MAX_ROWS", 1000)

    assert refused(tool, "from range(1001)").type == "TooManyRows"
    assert run(tool, "from range(1000)").result["row_count"] == 1000


def test_results_are_json(tool: DuckDb) -> None:
    outcome = run(
        tool, "select 'infinity'::double x, timestamp 'infinity' t, '1 year'::interval i, time '01:02' k"
    )

    json.dumps(outcome.result, allow_nan=False)
    assert outcome.meta["warnings"] == ["Column 'x': NaN and infinite numbers are null"]
    assert outcome.result["rows"][0]["t"] == "infinity"


# --- leases --------------------------------------------------------------------------------------

WORKER = """
import sys
from pathlib import Path
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.duckdb.tool import DuckDb, DuckDbConfig
tool = DuckDb(Services(files=FilePolicy(roots=(Path(sys.argv[1]),), directories=(Path(sys.argv[1]),)), scratch=Path(sys.argv[2])))
config = DuckDbConfig.model_validate_json(sys.argv[3])
print("begins", flush=True)
print(tool.run(Call("duckdb", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k"), config), flush=True)
"""
ENDLESS = "select count(*) from range(1000000000) a, range(1000000) b"


@contextlib.contextmanager
def worker(tool: DuckDb, **config: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that makes one call, as a worker does."""
    given = json.dumps({"database": "x.db", **config})
    folder = base(tool).parent
    (folder / "program.py").write_text(WORKER)
    words = ["program", str(base(tool)), str(tool.services.scratch), given]
    with zygote.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            yield process
        finally:
            process.kill()


def asked(tool: DuckDb, command: str, **config: Any) -> Any:
    order = Call("duckdb", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k")
    given = DuckDbConfig.model_validate({"database": "x.db", "command": command, **config})
    return tool.run(order, given)


def until_held(tool: DuckDb) -> Later:
    """What a call gets as soon as somebody else has the file."""

    def look() -> Later | None:
        came = asked(tool, "select 1")
        return came if isinstance(came, Later) else None

    found = until(look, "somebody else to have the file")
    assert found is not None
    return found


def test_who_waits_for_a_file_leaves_the_worker_and_a_killed_holder_holds_nothing(tool: DuckDb) -> None:
    run(tool, "create table t (a int)", database="x.db")

    with worker(tool, command=ENDLESS) as holder:
        waits = until_held(tool)
        holder.kill()
        holder.wait()
        came = asked(tool, "insert into t values (1)")

    assert (waits.seconds, waits.checkpoint) == (1.0, {"waited_s": 2.0})
    assert isinstance(came, Outcome)


def test_who_only_reads_shares_the_file_with_other_processes(tool: DuckDb) -> None:
    run(tool, "create table t (a int)", database="x.db")

    with worker(tool, command=ENDLESS, read_only=True):
        writes = until_held(tool)
        reads = asked(tool, "select count(*) as n from t", read_only=True)

    assert isinstance(writes, Later)
    assert isinstance(reads, Outcome)
    assert reads.result["rows"] == [{"n": 0}]


def test_workers_that_write_to_one_file_never_fail_each_other(tool: DuckDb) -> None:
    run(tool, "create table t (a int)", database="x.db")

    with contextlib.ExitStack() as stack:
        insert = "insert into t select 1 from range(10)"
        others = [stack.enter_context(worker(tool, command=insert)) for _ in range(2)]
        for _ in range(5):
            run(tool, insert, database="x.db")
        said = [other.communicate(timeout=GUARD_S)[0] for other in others]

    done = sum("status='ok'" in one for one in said)
    assert all("status='ok'" in one or one.startswith("Later(") for one in said)
    assert run(tool, "select count(*) as n from t", database="x.db").result["rows"] == [{"n": 50 + 10 * done}]
