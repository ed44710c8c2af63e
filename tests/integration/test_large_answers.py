"""Large answers of SQL tools: a table in the result store, whose rows are the same as those of a
small answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.reference import Retention, is_reference, open_references
from noetl.net.model import ResultPolicy
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.duckdb.tool import DuckDb
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.files import FilePolicy
from noetl.tools.postgres.read import CsvSink
from noetl.tools.postgres.tool import Postgres
from noetl.tools.sql.calls import ResultBounds
from noetl.tools.sqlite.tool import Sqlite
from tests.memory import peak

ALL = 1 << 30


@pytest.fixture
def services(tmp_path: Path, request: pytest.FixtureRequest) -> Services:
    credentials: dict[str, Any] = {}
    if request.node.get_closest_marker("postgres"):
        credentials["db"] = {"dsn": request.getfixturevalue("postgres_url")}
    (tmp_path / "base").mkdir()
    return Services(
        credential=credentials.__getitem__,
        results=open_results(str(tmp_path / "results")),
        files=FilePolicy(roots=(tmp_path / "base",), directories=(tmp_path / "base",)),
        scratch=tmp_path / "scratch",
    )


def order(inline_bytes: int) -> Call:
    return Call(
        "sql", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, "k", result=ResultPolicy(inline_bytes=inline_bytes)
    )


def ran(tool: Tool, inline_bytes: int, **config: Any) -> Any:
    defaults = {"auth": "db"} if isinstance(tool, Postgres) else {}
    outcome: Any = tool.run(
        order(inline_bytes), tool.declaration.config_model.model_validate({**defaults, **config})
    )
    return outcome.result


@pytest.fixture
def postgres(services: Services) -> Iterator[Postgres]:
    tool = Postgres(services)
    yield tool
    tool.close()


def both(tool: Tool, command: str, **config: Any) -> tuple[list[Any], list[Any]]:
    """The rows inline, and those that the reference loads to."""
    inline = ran(tool, ALL, command=command, **config)
    large = ran(tool, 0, command=command, **config)
    assert not is_reference(inline["rows"])
    assert is_reference(large["rows"])
    assert tool.services.results is not None
    for key in ("row_count", "columns", "types"):
        assert large[key] == inline[key] == inline["command_0"][key]
    return inline["rows"], open_references(large["rows"], tool.services.results.load)


def same(rows: tuple[list[Any], list[Any]]) -> list[Any]:
    inline, large = rows
    # As text: True is not 1 there, and 1 is not 1.0.
    assert [json.dumps(row, typed=True) for row in large] == [json.dumps(row, typed=True) for row in inline]
    return inline


TEXT = "\u00e9 \"q\", 'a'\n\\N\t;"
POSTGRES = {
    "plain": """select * from (values
        (1::int2, 2::int4, 4611686018427387904::int8, 1.5::float4, 0.1::float8, true, :text, ''::text, 'ab'::char(4),
         '2026-01-02'::date, '2026-01-02 03:04:05'::timestamp, '2026-01-02 03:04:05.5+02'::timestamptz,
         '03:04:05.25'::time, '00000000-0000-0000-0000-000000000001'::uuid, '\\x00ff61'::bytea,
         '{"a": [1, null, "x"]}'::jsonb, 'null'::json, 12.50::numeric(10, 2), '10.0.0.1'::inet),
        (null, null, null, null, 'NaN', false, 'null', 'NULL', null, null, null, null, null, null, ''::bytea, '"text"',
         '12', 3, null),
        (null, null, null, null, 'Infinity', null, null, null, null, null, null, null, null, null, null, null, null,
         null, null)) as t""",
    "numbers of any size": """select * from (values (1.10::numeric, 123456789012345678901234::numeric, 7::numeric),
        (-12345.678, 0, 7.00), (null, -1, 0.000)) as t""",
    "odd ones": """select array[1, null, 3] as ints, array['a,b', 'q"', null, ''] as texts, '{{1,2},{3,4}}'::int[] as grid,
        array['2026-01-02 03:04:05.5+00'::timestamptz] as at, array[1.00, 2.50] as numbers, '1 year 2 days 00:00:01.5'::interval as i,
        '03:04:05.5+02'::timetz as tz, array['\\x6162'::bytea] as raws, 'infinity'::timestamptz as never, 'NaN'::numeric as n,
        '-infinity'::date as d, '0044-03-15 BC'::date as ides, 12.3::money as m, null::int[] as none, 1.5::numeric as p
        from generate_series(1, 3)""",
    "endless dates": "select 'infinity'::timestamptz as never, '0044-03-15 BC'::date as ides",
    "numbers of many digits": "select repeat('9', 60)::numeric as n, 1 as one",
    "a name twice": "select 1 as a, 2 as a, 'x' as a",
    "from nothing": "select n, null as nothing from generate_series(1, 3) as n -- a comment; at its end",
}


@pytest.mark.postgres
@pytest.mark.parametrize("command", POSTGRES.values(), ids=POSTGRES)
def test_rows_of_postgres_are_the_same_inline_and_by_reference(postgres: Postgres, command: str) -> None:
    params = {"params": {"text": TEXT}} if ":text" in command else {}

    assert same(both(postgres, command, **params))


@pytest.mark.postgres
@pytest.mark.parametrize("command", POSTGRES.values(), ids=POSTGRES)
def test_a_table_made_of_rows_has_the_types_of_their_columns_however_few_they_are(
    postgres: Postgres, services: Services, command: str
) -> None:
    params = {"params": {"text": TEXT}} if ":text" in command else {}
    made = [ran(postgres, limit, command=command, **params) for limit in (ALL, 0)]

    described, rows = (
        [ran(DuckDb(services), ALL, tables={"o": one}, command=asked)["rows"] for one in made]
        for asked in ("DESCRIBE o", "FROM o")
    )

    assert described[0] == described[1]
    same((rows[0], rows[1]))


DUCKDB = {
    "plain": """select * from (values
        (1::tinyint, 2::bigint, 2::hugeint, 1.5::float, 0.1::double, true, $1, '', date '2026-01-02', time '03:04:05.25',
         timestamp '2026-01-02 03:04:05', timestamptz '2026-01-02 03:04:05.5+00', uuid '00000000-0000-0000-0000-000000000001',
         'ab'::blob, '{"a": [1, null]}'::json, 12.50::decimal(10, 2), [1, 2, null], {'x': 1, 'y': [1.5]}, map {'k': 1}),
        (null, null, sum_of, null, 'nan', false, null, 'null', null, null, null, null, null, null, 'null', 3, [], null, null))
        as t(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)""".replace(
        "sum_of", "123456789012345678901234::hugeint"
    ),
    "odd ones": """select interval '1 day 2 hours' as i, '101'::bit as b, ['{"a": 1}'::json] as js, [2::hugeint] as hs,
        null as nothing, '03:04:05+02'::timetz as tz, 12.5 as d, 7 as n, 'x'::enum('x', 'y') as e from range(3)""",
    "a name twice": "select 1 as a, 2 as a, 'x' as b",
}


@pytest.mark.parametrize("command", DUCKDB.values(), ids=DUCKDB)
def test_rows_of_duckdb_are_the_same_inline_and_by_reference(services: Services, command: str) -> None:
    params = {"params": [TEXT]} if "$1" in command else {}

    assert same(both(DuckDb(services), command, **params))


def test_rows_of_sqlite_are_the_same_inline_and_by_reference(services: Services) -> None:
    mixed = """select 1 as i, 1.5 as f, :text as t, '' as empty, null as none, x'00ff' as b, 1 as mixed, 1 as number
        union all select -9223372036854775808, 1e300, 'x', 'y', null, null, 'text', 0.5"""

    assert same(both(Sqlite(services), mixed, params={"text": TEXT}))


TOOLS: dict[str, tuple[Callable[[Services], Tool], str]] = {
    "postgres": (
        Postgres,
        "select n, 'name ' || n as name, n / 2.0 as v from generate_series(1, :count) as n",
    ),
    "duckdb": (DuckDb, "select n, 'name ' || n as name, n / 2.0 as v from range(1, 1 + :count) as t(n)"),
    "sqlite": (
        Sqlite,
        "with recursive s(n) as (values (1) union all select n + 1 from s where n < :count) "
        "select n, 'name ' || n as name, n / 2.0 as v from s",
    ),
}
EACH = [pytest.param(kind, marks=[pytest.mark.postgres] if kind == "postgres" else []) for kind in TOOLS]


@pytest.mark.parametrize("kind", EACH)
def test_a_small_answer_is_a_list_and_a_large_one_a_table(services: Services, kind: str) -> None:
    made, command = TOOLS[kind]
    tool = made(services)

    small = ran(tool, 64 * 1024, command=command, params={"count": 3})
    none = ran(tool, 0, command=command + " limit 0", params={"count": 3})
    large = ran(tool, 64 * 1024, command=command, params={"count": 20_000})

    assert [row["n"] for row in small["rows"]] == [1, 2, 3]
    assert (none["rows"], none["columns"]) == ([], ["n", "name", "v"])
    assert large["rows"]["meta"]["content_type"] == "application/vnd.apache.parquet"
    assert large["row_count"] == 20_000
    assert large["command_0"]["rows"] == large["rows"]
    tool.close()


@pytest.mark.parametrize("kind", EACH)
def test_a_large_answer_never_is_in_memory(services: Services, kind: str) -> None:
    made, command = TOOLS[kind]
    tool = made(services)
    ran(tool, 0, command=command, params={"count": 1})  # what is imported then is not the answer's
    found = []

    def ask(inline_bytes: int) -> None:
        result = ran(tool, inline_bytes, command=command, params={"count": 20_000})
        found.append((is_reference(result["rows"]), result["row_count"]))

    as_table, as_list = peak(lambda: ask(64 * 1024)), peak(lambda: ask(ALL))
    assert as_table < as_list / 2
    assert found == [(True, 20_000), (False, 20_000)]
    assert list(services.scratch.glob("*rows*")) == []
    tool.close()


@pytest.mark.postgres
def test_a_large_query_runs_once(postgres: Postgres) -> None:
    ran(
        postgres,
        0,
        command="create sequence if not exists public.calls; select setval('public.calls', 1, false)",
    )

    ran(postgres, 0, command="select nextval('public.calls') from generate_series(1, 10)")

    assert ran(postgres, ALL, command="select last_value as n from public.calls; drop sequence public.calls")[
        "command_0"
    ]["rows"] == [{"n": 10}]


def test_rows_are_counted_and_odd_dates_seen(tmp_path: Path) -> None:
    rows = [b'1,"a\n""b""\n",2026-01-01\n', b'2,"","\n"\n', b"3,x,infinity\n"]
    with (tmp_path / "rows.csv").open("wb") as file:
        sink = CsvSink(file, ResultBounds(1_000_000, set()), "The statement", lambda: None)
        for row in rows:
            sink.write(row)

    assert (sink.rows, sink.size, sink.endless) == (3, sum(map(len, rows)), True)
    assert (tmp_path / "rows.csv").read_bytes() == b"".join(rows)


@pytest.mark.postgres
def test_a_table_may_not_grow_without_end(postgres: Postgres, services: Services) -> None:
    tool = Postgres(dataclasses.replace(services, table_limit=1_000_000))

    with pytest.raises(ToolError) as caught:
        ran(
            tool,
            0,
            command="select n, repeat('x', 100) from (select generate_series(1, 100000000) as n) as s",
        )

    assert (caught.value.kind, caught.value.type) == ("limit", "TooManyBytes")
    assert ran(tool, 0, command="select 1 as a limit 0")["rows"] == []
    tool.close()


@pytest.mark.parametrize("kind", EACH)
def test_rows_behind_a_reference_are_written_in_pieces(services: Services, kind: str) -> None:
    made, command = TOOLS[kind]
    tool = made(services)
    given = ran(tool, 0, command=command, params={"count": 12_000})
    place = {} if kind == "postgres" else {"database": "x.db"}
    ran(tool, ALL, command="create table written (n int primary key, name text, v float)", **place)

    for mode, more in (("insert", {}), ("upsert", {"key": "n"}), ("replace", {}), ("copy", {})):
        if mode == "copy":
            ran(tool, ALL, command="delete from written", **place)
        result = ran(tool, ALL, table="written", mode=mode, rows=given, **more, **place)
        assert result["rows_written"] == 12_000

    [sums] = ran(tool, ALL, command="select count(*) as n, sum(n) as s, max(v) as v from written", **place)[
        "rows"
    ]
    assert sums == {"n": 12_000, "s": 12_000 * 12_001 // 2, "v": 6_000.0}
    ran(tool, ALL, command="drop table written", **place)
    tool.close()


def test_duckdb_reads_tables_of_the_store_where_they_lie(services: Services, tmp_path: Path) -> None:
    tool = DuckDb(services)
    assert services.results is not None
    large = ran(tool, 0, command="select n, n * 2 as twice from range(5) as t(n)")
    (tmp_path / "x.csv").write_text("a,b\n1,x\n")
    (tmp_path / "x.ndjson").write_text('{"a": 2}\n')
    keep = Retention("7")
    tables = {
        "rows": large["rows"],
        "answer": large,
        "csv": services.results.put_file(tmp_path / "x.csv", "text/csv", keep),
        "lines": services.results.put_file(tmp_path / "x.ndjson", "application/x-ndjson", keep),
        "json": services.results.put([{"a": 3}], keep),
        "nested": {"rows": services.results.put({"rows": [{"a": 4}]}, keep)},
    }
    command = """select (select sum(twice) from "rows") as r, (select count(*) from answer) as n, (select b from csv) as b,
        (select a from lines) as l, (select a from json) as j, (select a from nested) as m"""

    assert ran(tool, ALL, command=command, tables=tables)["rows"] == [
        {"r": 20, "n": 5, "b": "x", "l": 2, "j": 3, "m": 4}
    ]
    with pytest.raises(ToolError, match="leads out of"):
        ran(tool, ALL, command="select * from read_csv('/etc/passwd')", tables=tables)


def test_a_csv_table_of_the_store_is_read_line_by_line(services: Services, tmp_path: Path) -> None:
    tool, keep = DuckDb(services), Retention("7")
    assert services.results is not None
    texts = {"good": "id,name\n1,a\n#2,b\n", "bad": "id,name\n1,a\n2,Lee, Ann\n", "empty": ""}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    tables = {name: services.results.put_file(tmp_path / name, "text/csv", keep) for name in texts}

    read = ran(tool, ALL, command="select count(*) as n from t", tables={"t": tables["good"]})

    assert read["rows"] == [{"n": 2}]
    with pytest.raises(ToolError, match="cannot be read: line 3 has 3 fields in the place of 2"):
        ran(tool, ALL, command="from t", tables={"t": tables["bad"]})
    with pytest.raises(ToolError, match="Table 't' cannot be read: it is empty"):
        ran(tool, ALL, command="from t", tables={"t": tables["empty"]})
    tool.close()


def test_a_reference_that_is_gone_is_reported(services: Services) -> None:
    gone = {
        "kind": "result_ref",
        "ref": "noetl://results/executions/7/" + "0" * 64 + ".json",
        "store": "results",
    }

    with pytest.raises(ToolError, match="`rows` cannot be read: The result 0000"):
        ran(Sqlite(services), ALL, table="t", rows=gone)
    with pytest.raises(ToolError, match="Table 't' cannot be read: The result 0000"):
        ran(DuckDb(services), ALL, command="from t", tables={"t": gone})
