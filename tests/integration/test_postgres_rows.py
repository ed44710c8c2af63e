"""The postgres tool against a real server: rows in, large answers out, and calls that happen
once."""

from __future__ import annotations

import random
import resource
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from tests import zygote
from tests.memory import peak

from .table_locks import held, until_true, until_waiting

pytestmark = pytest.mark.postgres

EVIL = "'; drop table rows_test.t;--\\\t\n\r%s"


@pytest.fixture
def tool(postgres_url: str) -> Iterator[Postgres]:
    tool = Postgres(Services(credential={"db": {"dsn": postgres_url}}.__getitem__))
    run(
        tool,
        "drop schema if exists rows_test cascade; create schema rows_test; drop table if exists noetl_ledger",
    )
    yield tool
    run(tool, "drop schema if exists rows_test cascade; drop table if exists noetl_ledger")
    tool.close()


def order(key: str = "k", deadline_s: float | None = None) -> Call:
    return Call("postgres", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, key, deadline_s=deadline_s)


def run(tool: Postgres, command: str | None = None, call: Call | None = None, **config: Any) -> Outcome:
    given = {"auth": "db"} if command is None else {"auth": "db", "command": command}
    return tool.run(call or order(), PostgresConfig.model_validate({**given, **config}))


def refused(tool: Postgres, command: str | None = None, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **config)
    return caught.value


def rows(tool: Postgres, command: str) -> Any:
    return run(tool, command).result["rows"]


# --- rows in -------------------------------------------------------------------------------------

EVERY = """create table rows_test.t (id bigint, "a ""b"" c" text, doc jsonb, tags text[], grid int[], n numeric,
    ts timestamptz, yes boolean, raw bytea, u uuid, docs jsonb[], v varchar(50), f double precision, d int default 5)"""
ROW = {
    "id": 2**62,
    'a "b" c': EVIL,
    "doc": {"k": [1, None, 'q"\\'], "t": EVIL},
    "tags": ["a,b", 'q"', "\\", "", None, "NULL", "{x}", EVIL],
    "grid": [[1, 2], [3, 4]],
    "n": 1.25,
    "ts": "2026-01-02T03:04:05.500000+00:00",
    "yes": True,
    "raw": "YWIA/w==",
    "u": "00000000-0000-0000-0000-000000000001",
    "docs": [{"a": 'x"y\\'}, None],
    "v": "plain",
    "f": 0.1,
}
EMPTY: dict[str, Any] = dict.fromkeys(ROW) | {"id": 1}


@pytest.mark.parametrize("mode", ["insert", "copy", "replace"])
def test_what_is_read_can_be_written_and_read_again(tool: Postgres, mode: str) -> None:
    run(tool, EVERY)

    result = run(tool, table="rows_test.t", mode=mode, rows=[ROW, EMPTY]).result
    found = rows(tool, "set timezone = 'UTC'; select * from rows_test.t order by id desc")

    assert found == [{**ROW, "d": 5}, {**EMPTY, "d": 5}]
    assert (result["rows_written"], result["table"], result["mode"]) == (2, "rows_test.t", mode)


@pytest.mark.parametrize("mode", ["insert", "copy"])
@pytest.mark.parametrize("text", ["text", "", "\\N", "\\.", "123", '{"a": 1}'])
def test_a_text_in_a_document_column_is_a_text(tool: Postgres, mode: str, text: str) -> None:
    run(tool, "create table rows_test.t (doc jsonb, plain text)")

    run(tool, table="rows_test.t", mode=mode, rows=[{"doc": text, "plain": text}])

    assert rows(tool, "select doc, plain from rows_test.t") == [{"doc": text, "plain": text}]


def test_an_upsert_changes_what_is_there_and_the_last_of_a_key_wins(tool: Postgres) -> None:
    run(tool, "create table rows_test.t (a int, b text, n text, primary key (a, b))")
    run(tool, table="rows_test.t", rows=[{"a": 1, "b": "x", "n": "old"}, {"a": 9, "b": "x", "n": "stays"}])
    new = [{"a": 1, "b": "x", "n": n} for n in ("new", "newer")]

    outcome = run(tool, table="rows_test.t", mode="upsert", key=["a", "b"], rows=[*new, {"a": 2, "b": EVIL}])
    keys_only = run(tool, table="rows_test.t", mode="upsert", key=["a", "b"], rows=[{"a": 1, "b": "x"}])

    assert outcome.result["rows_written"] == 2
    assert outcome.meta["warnings"] == ["Rows merged with a later one that has their key: 1"]
    assert keys_only.ok
    assert rows(tool, "select * from rows_test.t order by a") == [
        {"a": 1, "b": "x", "n": "newer"},
        {"a": 2, "b": EVIL, "n": None},
        {"a": 9, "b": "x", "n": "stays"},
    ]


@pytest.mark.parametrize("mode", ["insert", "copy", "replace"])
def test_rows_are_written_all_or_none(tool: Postgres, mode: str) -> None:
    run(tool, "create table rows_test.t (id int primary key); insert into rows_test.t values (1)")

    error = refused(tool, table="rows_test.t", mode=mode, rows=[{"id": n} for n in (*range(2, 9_000), 2)])

    assert (error.kind, error.extras["pg"]["sqlstate"]) == ("sql", "23505")
    assert rows(tool, "select id from rows_test.t") == [{"id": 1}]


def test_rows_come_as_a_list_or_as_an_answer_and_none_is_none(tool: Postgres) -> None:
    run(tool, "create table rows_test.t (id int)")
    answer = run(tool, "select 7 as id").result

    assert run(tool, table="rows_test.t", rows=answer).result["rows_written"] == 1
    assert run(tool, table="rows_test.t", rows=[]).result["rows_written"] == 0
    assert run(tool, table="rows_test.t", rows=None).result["rows_written"] == 0
    assert rows(tool, "select * from rows_test.t") == [{"id": 7}]
    assert run(tool, table="rows_test.t", rows=[], mode="replace").result["rows_written"] == 0
    assert rows(tool, "select * from rows_test.t") == []


def test_unknown_names_come_with_the_nearest(tool: Postgres) -> None:
    run(tool, "create table rows_test.orders (amount int)")

    assert "did you mean 'amount'?" in str(refused(tool, table="rows_test.orders", rows=[{"Amount": 1}]))
    assert "no table 'rows_test.order'" in str(refused(tool, table="rows_test.order", rows=[{"amount": 1}]))


@pytest.mark.parametrize("mode", ["insert", "copy"])
@pytest.mark.parametrize(
    ("rows_", "said"),
    [
        ([{"id": "x"}], "invalid input syntax"),
        ([{"t": "a\0b"}], "cannot be written"),
        ([{"t": "a\ud800b"}], "cannot be written"),
        ([{"raw": "YWI="}, {"raw": "?"}], ""),
    ],
)
def test_values_that_do_not_fit_are_an_sql_error(tool: Postgres, mode: str, rows_: Any, said: str) -> None:
    run(tool, "create table rows_test.t (id int, t text, raw bytea)")

    error = refused(tool, table="rows_test.t", mode=mode, rows=rows_)

    assert (error.kind, error.retryable) == ("sql", False)
    assert said in str(error)


def test_copied_bytes_that_are_no_base64_name_their_row(tool: Postgres) -> None:
    run(tool, "create table rows_test.t (raw bytea)")

    error = refused(tool, table="rows_test.t", mode="copy", rows=[{"raw": "YWI="}, {"raw": "?"}])

    assert "Row 1 (from 0): the column 'raw'" in str(error)


@pytest.mark.parametrize("mode", ["insert", "copy", "upsert", "replace"])
def test_names_are_only_names(tool: Postgres, mode: str) -> None:
    name = "a\"'; drop %s %(x)s (%s::json)"
    run(tool, """create table rows_test."t"";--%s" ("a""'; drop %s %(x)s (%s::json)" int primary key)""")

    key = {"key": name} if mode == "upsert" else {}
    run(tool, table='rows_test."t"";--%s"', mode=mode, rows=[{name: 1}, {name: 2}], **key)

    assert rows(tool, 'select * from rows_test."t"";--%s" order by 1') == [{name: 1}, {name: 2}]


@pytest.mark.parametrize("mode", ["insert", "copy"])
def test_many_rows_go_in_and_out_and_take_no_more_memory_than_few(tool: Postgres, mode: str) -> None:
    run(tool, "create table rows_test.t (id int primary key, name text, v float8)")
    many = [{"id": n, "name": f"name {n}", "v": n / 2} for n in range(15_000)]
    some, others = many[:5_000], many[5_000:]
    few = peak(lambda: run(tool, table="rows_test.t", rows=some, mode=mode))

    assert peak(lambda: run(tool, table="rows_test.t", rows=others, mode=mode)) < 1.5 * few
    assert rows(tool, "select * from rows_test.t order by id") == many


# --- large answers -------------------------------------------------------------------------------


def test_what_is_too_much_is_not_read_to_its_end(tool: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.tools.sql.calls.MAX_ROWS", 50_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = refused(
        tool, "select n, repeat('x', 100) as pad from (select generate_series(1, 20000000) as n) as s"
    )
    wide = refused(tool, "select repeat('x', 1000000) as wide from generate_series(1, 1000)")

    assert (error.kind, error.type) == ("limit", "TooManyRows")
    assert (wide.kind, wide.type) == ("limit", "TooManyBytes")
    # 50,000 rows, the 100 MB of wide rows that come first: and not 2 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 450_000
    assert rows(tool, "select 1 as a") == [{"a": 1}]


@pytest.mark.parametrize("count", [0, 99, 100, 101, 25_000])
@pytest.mark.parametrize("transaction", [True, False])
def test_an_answer_in_pieces_is_whole(tool: Postgres, count: int, transaction: bool) -> None:
    result = run(
        tool,
        "select n, :tag::text as tag from generate_series(1, :count) as n -- all; of them",
        params={"count": count, "tag": EVIL},
        transaction=transaction,
    ).result

    assert [row["n"] for row in result["rows"]] == list(range(1, count + 1))
    assert (result["row_count"], result["columns"]) == (count, ["n", "tag"])
    assert result["command_0"]["status"] == f"SELECT {count}"


def test_reading_leaves_a_transaction_of_the_command_alone(tool: Postgres) -> None:
    result = run(
        tool,
        "begin; create table rows_test.t (a int); select 1 as a; rollback; select "
        "to_regclass('rows_test.t') as t",
    ).result

    assert result["rows"] == [{"t": None}]


def test_an_error_behind_the_first_piece_leaves_the_connection_usable(tool: Postgres) -> None:
    error = refused(tool, "select 1;\nselect 1 / (300 - n) from generate_series(1, 1000) as n")

    assert (error.line, error.extras["pg"]["sqlstate"]) == (2, "22012")
    assert rows(tool, "select 1 as a") == [{"a": 1}]


@pytest.mark.parametrize("config", [{}, {"transaction": True}])
def test_a_connection_that_is_killed_in_the_middle_is_worth_another_try(tool: Postgres, config: Any) -> None:
    kill = "case when n = 4000 then pg_terminate_backend(pg_backend_pid()) end"
    error = refused(tool, f"select n, {kill} from generate_series(1, 5000) as n", **config)

    assert (error.kind, error.retryable) == ("connection", True)
    assert rows(tool, "select 1 as a") == [{"a": 1}]


def test_a_call_that_is_cancelled_ends(tool: Postgres, postgres_url: str) -> None:
    call = order()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(refused, tool, "select pg_sleep(3600)", call=call)
        until_true(
            postgres_url,
            "select count(*) = 1 from pg_stat_activity "
            "where datname = current_database() and wait_event = 'PgSleep'",
        )
        tool.interrupt(call)

    assert running.result().kind == "cancelled"
    assert rows(tool, "select 1 as a") == [{"a": 1}]


# --- exactly once --------------------------------------------------------------------------------

COUNT = "create table rows_test.t (n serial, a text)"
ADD = "insert into rows_test.t (a) values (:a) returning n, a"


def once(tool: Postgres, key: str, command: str = ADD, **config: Any) -> Outcome:
    params = {} if "table" in config or ":a" not in command else {"params": {"a": EVIL}}
    return run(
        tool, None if "table" in config else command, order(key), exactly_once=True, **params, **config
    )


def test_a_call_that_is_made_again_returns_what_the_first_did(tool: Postgres) -> None:
    run(tool, COUNT)

    first, again, other = once(tool, "one"), once(tool, "one"), once(tool, "two")

    assert first.result["rows"] == [{"n": 1, "a": EVIL}]
    assert again.result == first.result
    assert list(again.result) == list(first.result)
    assert (first.extras["pg"]["repeated"], again.extras["pg"]["repeated"]) == (False, True)
    assert other.result["rows"][0]["n"] == 2
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 2}]


def test_a_call_that_fails_leaves_no_entry(tool: Postgres) -> None:
    run(tool, COUNT)

    error = refused(tool, ADD + "; select 1 / 0", params={"a": "x"}, call=order("one"), exactly_once=True)
    after = once(tool, "one")

    assert error.extras["pg"]["sqlstate"] == "22012"
    assert after.extras["pg"]["repeated"] is False
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 1}]


def test_rows_are_written_once(tool: Postgres) -> None:
    run(tool, COUNT)
    results = [once(tool, "one", table="rows_test.t", rows=[{"a": "x"}]).result for _ in range(3)]

    assert results[0] == results[1] == results[2]
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 1}]


def test_of_many_calls_at_once_one_has_the_effect_also_while_the_ledger_is_made(
    tool: Postgres, postgres_url: str
) -> None:
    run(tool, COUNT)

    def call(number: int) -> tuple[int, Any, Any]:
        outcome = once(tool, f"key {number % 2}")
        return number % 2, outcome.result["rows"][0]["n"], outcome.extras["pg"]["repeated"]

    with ThreadPoolExecutor(8) as pool:
        with held(postgres_url, "rows_test.t"):
            calls = [pool.submit(call, number) for number in range(8)]
            until_waiting(postgres_url, 8)
        found = [one.result() for one in calls]

    assert len({(key, n) for key, n, _ in found}) == 2
    assert sorted(repeated for _, _, repeated in found) == [False] * 2 + [True] * 6
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 2}]


def test_each_iteration_of_a_playbook_has_an_entry_of_its_own(
    tool: Postgres, postgres_url: str, result: Any
) -> None:
    run(tool, COUNT)
    body = """
    workflow:
      - step: start
        loop: {in: [a, b, c], iterator: one, mode: parallel, spec: {max_in_flight: 3}}
        tool:
          - name: add
            kind: postgres
            dsn: "{{ dsn }}"
            exactly_once: true
            params: {a: "{{ one }}"}
            command: INSERT INTO rows_test.t (a) VALUES (:a) RETURNING a
        next: end
      - {step: end, tool: {kind: noop, input: {all: "{{ start.results }}"}}}
    """
    found = result(body, dsn=postgres_url)
    entries = rows(tool, "select step, task, count(*) as n from noetl_ledger group by step, task")

    assert [one["rows"] for one in found["all"]] == [[{"a": "a"}], [{"a": "b"}], [{"a": "c"}]]
    assert entries == [{"step": "start", "task": "add", "n": 3}]
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 3}]


WORKER = """
import sys
from noetl.pipeline.model import Call, Where
from noetl.tools.kit.base import Services
from noetl.tools.postgres.tool import Postgres, PostgresConfig
tool = Postgres(Services())
for number in range(int(sys.argv[2])):
    call = Call("postgres", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, f"loop {number}")
    command = "insert into rows_test.t (a) values (:a) returning a"
    config = PostgresConfig(dsn=sys.argv[1], command=command, params={"a": str(number)}, exactly_once=True)
    assert tool.run(call, config).result["rows"] == [{"a": str(number)}]
    print(number, flush=True)
"""


def test_a_loop_that_is_killed_again_and_again_has_each_effect_once(
    tool: Postgres, postgres_url: str, tmp_path: Path
) -> None:
    run(tool, COUNT)
    (tmp_path / "program.py").write_text(WORKER)
    count, kills = 100, 0
    for stop_at in [*random.Random(11).sample(range(count), 5), None]:
        with zygote.Popen(
            ["program", postgres_url, str(count)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None
            for line in worker.stdout:
                if stop_at is not None and int(line) >= stop_at:
                    worker.kill()
                    kills += 1
                    break
    found = rows(tool, "select count(*) as n, count(distinct a) as distinct from rows_test.t")

    assert kills == 5
    assert worker.returncode == 0
    assert found == [{"n": count, "distinct": count}]


def test_where_snapshots_are_strict_the_second_of_two_is_worth_another_try(
    tool: Postgres, postgres_url: str
) -> None:
    run(tool, COUNT)
    once(tool, "makes the ledger")
    strict = {"dsn": f"{postgres_url}?options=-c%20default_transaction_isolation%3Dserializable"}

    with ThreadPoolExecutor(2) as pool:
        with held(postgres_url, "rows_test.t"):
            calls = [pool.submit(once, tool, "one", **strict) for _ in range(2)]
            until_waiting(postgres_url, 2)
        errors = [error for error in (call.exception() for call in calls) if error]

    found = [
        (error.retryable, error.extras["pg"]["sqlstate"]) for error in errors if isinstance(error, ToolError)
    ]
    assert found == [(True, "40001")]
    assert once(tool, "one", **strict).extras["pg"]["repeated"] is True
    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 2}]


def test_a_connection_that_is_lost_while_rows_are_written_leaves_none(tool: Postgres) -> None:
    run(
        tool,
        """create table rows_test.t (id int);
        create function rows_test.die() returns trigger language plpgsql as $$
        begin if new.id = 7000 then perform pg_terminate_backend(pg_backend_pid()); end if; return new; end $$;
        create trigger die before insert on rows_test.t for each row execute function rows_test.die()""",
    )
    for mode in ("insert", "copy"):
        error = refused(tool, table="rows_test.t", mode=mode, rows=[{"id": n} for n in range(10_000)])
        assert (error.kind, error.retryable) == ("connection", True)

    assert rows(tool, "select count(*) as n from rows_test.t") == [{"n": 0}]


def test_a_call_waits_for_one_that_dies_and_takes_its_place(tool: Postgres, postgres_url: str) -> None:
    run(tool, COUNT)
    once(tool, "makes the ledger")
    dying = psycopg2.connect(postgres_url)
    cursor = dying.cursor()
    cursor.execute(
        "insert into noetl_ledger (idempotency_key, execution_id, step, task) values ('one', '1', 's', 't')"
    )
    cursor.execute("insert into rows_test.t (a) values ('lost')")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(once, tool, "one")
        until_waiting(postgres_url, 1)
        dying.close()

    assert call.result().extras["pg"]["repeated"] is False
    assert rows(tool, "select count(*) as n from rows_test.t where a = 'lost'") == [{"n": 0}]


@pytest.mark.parametrize("setting", ["rows_test", "nowhere"])
def test_the_ledger_is_found_again_whatever_a_statement_sets(tool: Postgres, setting: str) -> None:
    run(tool, COUNT)
    command = f"{ADD}; set search_path = {setting}; select 1 as done"

    assert once(tool, "one", command).result["rows"] == [{"done": 1}]
    assert once(tool, "one", command).extras["pg"]["repeated"] is True


@pytest.mark.parametrize("word", ["commit", "BEGIN", "rollback", "end", "start transaction", "abort", "prepare transaction 'x'"])  # fmt: skip
def test_statements_that_end_the_transaction_are_refused(tool: Postgres, word: str) -> None:
    error = refused(tool, f"select 1; {word}", exactly_once=True)

    assert (error.kind, error.type) == ("sql", "TransactionRefused")


def test_a_block_that_commits_by_itself_fails_and_leaves_nothing(tool: Postgres) -> None:
    run(tool, COUNT)

    error = refused(
        tool, "do $$ begin insert into rows_test.t (a) values ('x'); commit; end $$", exactly_once=True
    )

    assert error.extras["pg"]["sqlstate"] == "2D000"
    assert rows(tool, "select * from rows_test.t") == []


def test_savepoints_and_prepared_statements_stay_possible(tool: Postgres) -> None:
    run(tool, COUNT)

    command = (
        "savepoint s; insert into rows_test.t (a) values ('x'); rollback to savepoint s; prepare p "
        "as select 1; execute p"
    )
    assert once(tool, "one", command).ok
    assert rows(tool, "select * from rows_test.t") == []


def test_a_role_that_may_not_make_the_ledger_is_reported(tool: Postgres, postgres_url: str) -> None:
    run(tool, "drop role if exists poor; create role poor login; revoke create on schema public from public")
    error = refused(tool, "select 1", dsn=postgres_url, user="poor", exactly_once=True)

    assert error.kind == "sql"
    assert "noetl_ledger" in str(error)
    assert error.extras["pg"]["sqlstate"] == "42501"
