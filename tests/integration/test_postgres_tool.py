"""The postgres tool against a real server: statements, values, errors, the pool."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.postgres.errors import meaning
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from noetl.tools.sql.reading import HARMLESS
from tests.waiting import until

from .table_locks import held, until_waiting

pytestmark = pytest.mark.postgres


@pytest.fixture
def tool(postgres_url: str) -> Iterator[Postgres]:
    tool = Postgres(Services(credential={"db": {"dsn": postgres_url}}.__getitem__))
    run(tool, "drop schema if exists tool_test cascade; create schema tool_test")
    yield tool
    run(tool, "drop schema if exists tool_test cascade")
    tool.close()


def run(
    tool: Postgres, command: str | list[str] | None, deadline_s: float | None = None, **config: Any
) -> Outcome:
    order = Call("postgres", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k", deadline_s=deadline_s)
    given = {} if command is None else {"command": command}
    if not {"auth", "dsn", "host"} & set(config):
        given["auth"] = "db"
    return tool.run(order, PostgresConfig.model_validate({**given, **config}))


def refused(tool: Postgres, command: str | list[str], **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **config)
    return caught.value


def test_every_statement_answers_and_the_last_is_on_top(tool: Postgres) -> None:
    result = run(
        tool,
        """create table tool_test.t (id int, name text); -- first; table
        insert into tool_test.t values (1, 'a;b'), (2, 'it''s');
        select id, name from tool_test.t order by id;""",
    ).result

    assert result["rows"] == [{"id": 1, "name": "a;b"}, {"id": 2, "name": "it's"}]
    assert (result["row_count"], result["columns"], result["types"]) == (
        2,
        ["id", "name"],
        ["BIGINT", "VARCHAR"],
    )
    assert result["command_0"] == {
        "rows": [],
        "row_count": 0,
        "columns": [],
        "types": [],
        "status": "CREATE TABLE",
    }
    assert (result["command_1"]["row_count"], result["command_1"]["status"]) == (2, "INSERT 0 2")
    assert result["command_2"]["rows"] == result["rows"]


def test_values_come_as_json(tool: Postgres) -> None:
    [row] = run(
        tool,
        """select 1.50::numeric(10,2) as n, 7::numeric as i, 'NaN'::float8 as nan, '{"a": [1, null]}'::jsonb as j,
        timestamptz '2026-01-02 03:04:05.5+00' at time zone 'UTC' as ts, date '2026-01-02' as d, time '03:04' as t,
        'infinity'::timestamptz as forever, '0044-03-15 BC'::date as ides, array[1, 2] as a,
        array[timestamp '2026-01-01 00:00:00'] as ta, interval '1 day 2 hours' as iv, 'ab'::bytea as b,
        int4range(1, 5) as r, '00000000-0000-0000-0000-000000000001'::uuid as u, null as z, true as yes""",
    ).result["rows"]

    assert row == {
        "n": 1.5,
        "i": 7,
        "nan": None,
        "j": {"a": [1, None]},
        "ts": "2026-01-02T03:04:05.500000",
        "d": "2026-01-02",
        "t": "03:04:00",
        "forever": "infinity",
        "ides": "0044-03-15 BC",
        "a": [1, 2],
        "ta": ["2026-01-01T00:00:00"],
        "iv": "P1DT2H",
        "b": "YWI=",
        "r": "[1, 5)",
        "u": "00000000-0000-0000-0000-000000000001",
        "z": None,
        "yes": True,
    }
    assert type(row["i"]) is int


def test_a_timestamp_with_zone_is_iso(tool: Postgres) -> None:
    result = run(tool, "set timezone = 'Asia/Kolkata'; select timestamptz '2026-01-02 00:00+00' as t").result

    assert result["rows"] == [{"t": "2026-01-02T05:30:00+05:30"}]


def test_a_number_that_is_not_one_is_noted(tool: Postgres) -> None:
    assert run(tool, "select 'NaN'::float8 as f").meta["warnings"] == [
        "Column 'f': NaN and infinite numbers are null"
    ]


def test_columns_of_one_name_are_kept_apart(tool: Postgres) -> None:
    assert run(tool, "select 1 as a, 2 as a").result["rows"] == [{"a": 1, "a_2": 2}]


def test_each_statement_gets_the_parameters_that_it_uses(tool: Postgres) -> None:
    evil = "'; drop table tool_test.t;--"
    result = run(
        tool,
        """create table tool_test.t (name text, doc jsonb, tags text[], list jsonb);
        insert into tool_test.t values (:name, :doc, :tags, :tags::jsonb);
        select *, name like '%drop%' as found, 7 % 4 as rest from tool_test.t where name = :name and :name::text <> ':doc'""",
        params={"name": evil, "doc": {"a": "%s %(x)s"}, "tags": ["x", "y"]},
    ).result

    assert result["rows"] == [
        {
            "name": evil,
            "doc": {"a": "%s %(x)s"},
            "tags": ["x", "y"],
            "list": ["x", "y"],
            "found": True,
            "rest": 3,
        }
    ]


def test_lists_bind_positions_and_percent_needs_no_doubling(tool: Postgres) -> None:
    assert run(tool, "select $2 as b, $1 as a, '$1' as c", params=[1, None]).result["rows"] == [
        {"b": None, "a": 1, "c": "$1"}
    ]
    assert run(tool, "select 'axb' like '%x%' as y, 'x%' as z").result["rows"] == [{"y": True, "z": "x%"}]


@pytest.mark.parametrize(
    ("value", "cast"),
    [
        (5, "jsonb"),
        (True, "jsonb"),
        ([{"a": 1}], "jsonb"),
        ([], "jsonb"),
        (None, "jsonb"),
        ([], "int[]"),
        ([1, 2], "int[]"),
    ],
)
def test_any_json_value_can_be_bound(tool: Postgres, value: object, cast: str) -> None:
    assert run(tool, f"select :v::{cast} as v", params={"v": value}).result["rows"] == [{"v": value}]


def test_statements_that_refuse_transactions_run(tool: Postgres) -> None:
    result = run(tool, "create database tool_test_db; vacuum pg_class; drop database tool_test_db").result

    assert [result[f"command_{n}"]["status"] for n in range(3)] == [
        "CREATE DATABASE",
        "VACUUM",
        "DROP DATABASE",
    ]


def test_do_blocks_and_routines_are_one_statement(tool: Postgres) -> None:
    outcome = run(
        tool,
        """do $$ begin raise notice 'hello; you'; end $$;
        create function tool_test.f(x int) returns int language sql begin atomic select x; select x + 1; end;
        select tool_test.f(1) as y""",
    )

    assert outcome.result["rows"] == [{"y": 2}]
    assert outcome.meta["notices"] == ["NOTICE:  hello; you"]


def test_a_list_of_commands_runs_in_order(tool: Postgres) -> None:
    result = run(tool, None, commands=["select 1 as a; select 2 as a", "select 3 as a"]).result

    assert [result[f"command_{n}"]["rows"][0]["a"] for n in range(3)] == [1, 2, 3]


def test_statements_before_a_failure_stay_unless_in_a_transaction(tool: Postgres) -> None:
    run(tool, "create table tool_test.t (id int primary key)")
    failing = "insert into tool_test.t values (:a); select 1/0"

    refused(tool, failing, params={"a": 1})
    refused(tool, failing, params={"a": 2}, transaction=True)
    run(tool, "insert into tool_test.t values (3); insert into tool_test.t values (4)", transaction=True)

    assert [row["id"] for row in run(tool, "select id from tool_test.t order by id").result["rows"]] == [
        1,
        3,
        4,
    ]


def test_an_error_names_its_state_statement_and_line(tool: Postgres) -> None:
    error = refused(tool, "select 1;\n\n-- note\nselect *\nfrom tool_test.missing;")

    assert (error.kind, error.retryable, error.line, error.type) == ("sql", False, 5, "UndefinedTable")
    assert str(error) == 'Statement 2 of 2 failed at line 5: relation "tool_test.missing" does not exist'
    pg = error.extras["pg"]
    assert (pg["sqlstate"], pg["severity"], pg["statement_index"]) == ("42P01", "ERROR", 1)
    assert pg["statement"].startswith("-- note\nselect *")
    assert pg["position"] == pg["statement"].index("tool_test.missing") + 1


def test_the_line_is_that_of_the_command_where_parameters_are_bound(tool: Postgres) -> None:
    error = refused(tool, "select :a,\n  :a,\n  nope", params={"a": "x\ny\nz"})

    assert error.line == 3
    assert error.extras["pg"]["position"] == len("select :a,\n  :a,\n  n")


def test_a_broken_constraint_tells_its_detail(tool: Postgres) -> None:
    run(tool, "create table tool_test.t (id int primary key); insert into tool_test.t values (1)")

    error = refused(tool, "insert into tool_test.t values (1)")

    assert "duplicate key value violates unique constraint" in str(error)
    assert error.extras["pg"]["detail"] == "Key (id)=(1) already exists."


def test_what_cannot_be_sent_is_an_sql_error(tool: Postgres) -> None:
    assert refused(tool, "select :a", params={"a": "\x00"}).kind == "sql"
    assert refused(tool, "copy pg_class from stdin").kind == "sql"
    assert "holds no statement" in str(refused(tool, "-- nothing; here"))


def test_a_missing_parameter_is_reported_before_anything_runs(tool: Postgres) -> None:
    error = refused(
        tool, "create table tool_test.t (a int);\ninsert into tool_test.t values (:idd)", params={"id": 1}
    )

    assert (error.line, "did you mean :id?" in str(error)) == (2, True)
    assert run(tool, "select to_regclass('tool_test.t') as t").result["rows"] == [{"t": None}]


@pytest.mark.parametrize("lift", ["", "set statement_timeout = 0; "])
def test_a_call_ends_at_its_deadline_whatever_it_sets(tool: Postgres, lift: str) -> None:
    error = refused(tool, lift + "select pg_sleep(600)", deadline_s=0.3)

    assert (error.kind, error.retryable) == ("timeout", True)
    assert run(tool, "select 1 as a").result["rows"] == [{"a": 1}]


def test_nothing_of_a_call_is_left_for_the_next(tool: Postgres) -> None:
    first = run(
        tool,
        "create temp table left_over (a int); set timezone = 'Asia/Tokyo'; set datestyle = 'German';"
        "select pg_advisory_lock(4711); begin; select pg_backend_pid() as pid",
    ).result["rows"][0]["pid"]
    [row] = run(
        tool,
        "select pg_backend_pid() as pid, to_regclass('left_over') as t, current_setting('timezone') as tz, "
        "date '2026-01-02' as d, (select count(*) from pg_locks where locktype = 'advisory') as locks",
    ).result["rows"]

    assert row["pid"] == first
    assert (row["t"], row["tz"] == "Asia/Tokyo", row["d"], row["locks"]) == (None, False, "2026-01-02", 0)


def test_a_connection_that_died_in_the_pool_is_replaced(tool: Postgres, postgres_url: str) -> None:
    pid = run(tool, "select pg_backend_pid() as pid").result["rows"][0]["pid"]
    other = psycopg2.connect(postgres_url)
    try:
        with other.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(%s)", (pid,))
    finally:
        other.close()

    assert run(tool, "select 1 as a").result["rows"] == [{"a": 1}]


def test_a_connection_that_dies_under_a_statement_is_worth_another_try(tool: Postgres) -> None:
    error = refused(tool, "select pg_terminate_backend(pg_backend_pid())")

    assert (error.kind, error.retryable) == ("connection", True)
    assert run(tool, "select 1 as a").result["rows"] == [{"a": 1}]


def test_a_deadlock_is_worth_another_try(tool: Postgres, postgres_url: str) -> None:
    run(
        tool,
        "create table tool_test.t (id int); insert into tool_test.t values (1), (2); create table tool_test.gate ()",
    )

    def cross(one: int, two: int) -> ToolError | None:
        update = "update tool_test.t set id = id where id = "
        passes = "lock table tool_test.gate in access share mode"
        try:
            run(
                tool,
                f"set deadlock_timeout = '50ms'; {update}{one}; {passes}; {update}{two}",
                transaction=True,
            )
        except ToolError as error:
            return error
        return None

    with ThreadPoolExecutor(2) as pool:
        with held(postgres_url, "tool_test.gate"):
            ends = [pool.submit(cross, 1, 2), pool.submit(cross, 2, 1)]
            until_waiting(postgres_url, 2)
        errors = [error for error in (end.result() for end in ends) if error]

    assert [(error.kind, error.retryable, error.extras["pg"]["sqlstate"]) for error in errors] == [
        ("sql", True, "40P01")
    ]


def test_threads_get_connections_of_their_own_and_few_stay(tool: Postgres, postgres_url: str) -> None:
    run(tool, "create table tool_test.gate ()")
    command = "lock table tool_test.gate in access share mode; select pg_backend_pid() as pid"

    def work() -> int:
        return int(run(tool, command, transaction=True).result["rows"][0]["pid"])

    with ThreadPoolExecutor(12) as pool:
        with held(postgres_url, "tool_test.gate"):
            calls = [pool.submit(work) for _ in range(12)]
            until_waiting(postgres_url, 12)
        pids = {call.result() for call in calls}

    alive = "select count(*) as n from pg_stat_activity where pid = any(:pids)"
    until(
        lambda: run(tool, alive, params={"pids": list(pids)}).result["rows"] == [{"n": 8}],
        "all but eight connections to be closed",
    )
    assert len(pids) == 12


def test_a_refused_login_is_an_auth_error_without_the_password(tool: Postgres, postgres_url: str) -> None:
    run(tool, "drop role if exists locked; create role locked login password 'right'", dsn=postgres_url)

    error = refused(tool, "select 1", dsn=postgres_url, user="locked", password="hunter22-wrong")

    assert (error.kind, error.retryable) == ("auth", False)
    assert "hunter22" not in str(error)


def test_nobody_listening_is_a_connection_error(tool: Postgres) -> None:
    error = refused(tool, "select 1", host="127.0.0.1", port=1, user="u", password="hunter22", database="d")

    assert (error.kind, error.retryable) == ("connection", True)
    assert "hunter22" not in str(error)


def test_a_database_that_is_missing_is_named(tool: Postgres, postgres_url: str) -> None:
    error = refused(tool, "select 1", dsn=postgres_url, db="nowhere")

    assert (error.kind, error.retryable) == ("sql", False)
    assert 'database "nowhere" does not exist' in str(error)


def test_a_task_that_names_no_server_says_so() -> None:
    order = Call("postgres", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k")
    with pytest.raises(ToolError, match="nowhere to connect to") as caught:
        Postgres(Services()).run(order, PostgresConfig(command="select 1"))

    assert caught.value.kind == "auth"


def test_two_names_for_the_command_are_refused() -> None:
    with pytest.raises(ValueError, match="`command` and `sql` are two names of the same thing"):
        PostgresConfig(command="select 1", sql="select 2")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("40001", ("sql", True)),
        ("55P03", ("sql", True)),
        ("57P01", ("connection", True)),
        ("08006", ("connection", True)),
        ("57014", ("timeout", True)),
        ("28P01", ("auth", False)),
        ("42601", ("sql", False)),
    ],
)
def test_a_state_has_a_meaning(state: str, expected: tuple[str, bool]) -> None:
    assert meaning(state) == expected


#: Functions that PostgreSQL calls volatile because they yield something else each time, and that
#: change nothing.
FICKLE = {"clock_timestamp", "gen_random_uuid", "random", "timeofday"}


def test_functions_that_count_as_harmless_change_nothing(tool: Postgres) -> None:
    rows = run(
        tool,
        "SELECT p.proname AS name, bool_or(p.provolatile = 'v') AS volatile FROM pg_catalog.pg_proc p "
        "JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
        "WHERE n.nspname = 'pg_catalog' AND p.proname = ANY(:names) GROUP BY 1",
        params={"names": sorted(HARMLESS)},
    ).result["rows"]
    assert {row["name"] for row in rows if row["volatile"]} <= FICKLE
    assert HARMLESS - {row["name"] for row in rows} == set()
