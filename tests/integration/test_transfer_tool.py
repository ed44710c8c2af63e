"""The transfer tool between real databases and files."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.facts.reference import open_references
from noetl.pipeline.model import Call, Later, Where
from noetl.results import open_results
from noetl.tools.duckdb.tool import DuckDb, DuckDbConfig
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from noetl.tools.sqlite.tool import Sqlite, SqliteConfig
from noetl.tools.transfer.config import TransferConfig
from noetl.tools.transfer.tool import Transfer

from .table_locks import held, until_waiting


@pytest.fixture
def services(tmp_path: Path, request: pytest.FixtureRequest) -> Services:
    credentials: dict[str, Any] = {}
    if request.node.get_closest_marker("postgres"):
        credentials["db"] = {"dsn": request.getfixturevalue("empty_postgres_url")}
    (tmp_path / "base").mkdir()
    return Services(
        credential=credentials.__getitem__,
        results=open_results(str(tmp_path / "results")),
        files=FilePolicy(roots=(tmp_path / "base",), directories=(tmp_path / "base",)),
        scratch=tmp_path / "scratch",
        allow_private_networks=True,
    )


@pytest.fixture
def tool(services: Services) -> Iterator[Transfer]:
    tool = Transfer(services)
    yield tool
    tool.close()


def order(key: str, **more: Any) -> Call:
    return Call("transfer", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, key, **more)


def moved(tool: Transfer, source: Any, target: Any, key: str = "k", **config: Any) -> Any:
    """The result of a transfer."""
    return transferred(tool, source, target, key, **config).result


def transferred(tool: Transfer, source: Any, target: Any, key: str = "k", **config: Any) -> Outcome:
    """The outcome, however often the tool wants to be called again."""
    given = TransferConfig.model_validate({"source": source, "target": target, **config})
    call = order(key)
    while isinstance(came := tool.run(call, given), Later):
        call = replace(call, checkpoint=json.loads(json.dumps(came.checkpoint)))
    assert isinstance(came, Outcome)
    return came


def refused(tool: Transfer, source: Any, target: Any, **config: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        moved(tool, source, target, **config)
    return caught.value


def sqlite(services: Services, command: str, **config: Any) -> Any:
    done = Sqlite(services).run(order("x"), SqliteConfig(database="x.sqlite", command=command, **config))
    return done.result["rows"]


@pytest.mark.parametrize("source", [{"kind": "result", "ref": []}, {"kind": "file", "file": "none.json"}])
@pytest.mark.parametrize(
    "database", ["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def test_rows_that_did_not_come_leave_a_table_as_it_is_or_empty_it(
    tool: Transfer, services: Services, tmp_path: Path, source: Any, database: str
) -> None:
    (tmp_path / "base" / "none.json").write_text("[]")
    place = {"auth": "db"} if database == "postgres" else {"database": f"x.{database}"}
    table = {"kind": database, **place, "table": "t"}
    moved(tool, {"kind": "result", "ref": [{"id": 1}]}, {**table, "create": True, "key": "id"}, "first")

    def left() -> Any:
        return moved(tool, table, {"kind": "result"}, f"left {len(keys)}")["rows"]

    keys = list[str]()
    for mode, rows in [("append", 1), ("upsert", 1), ("replace", 0)]:
        keys.append(mode)
        outcome = transferred(tool, source, {**table, "mode": mode, "key": "id"}, mode)
        assert (outcome.result["rows"], outcome.result["columns"], left()) == (0, [], rows)
        assert "warnings" not in outcome.meta


def test_of_rows_that_did_not_come_no_table_is_made(tool: Transfer, services: Services) -> None:
    target = {"kind": "sqlite", "database": "x.sqlite", "table": "t", "create": True}
    outcome = transferred(tool, {"kind": "result", "ref": []}, target)
    assert "the table is not made where it is missing" in "".join(outcome.meta["warnings"])
    assert sqlite(services, "select count(*) n from sqlite_schema where name = 't'") == [{"n": 0}]
    assert (
        "There is no table 't'"
        in refused(tool, {"kind": "result", "ref": []}, {**target, "create": False}).message
    )


def duckdb(services: Services, command: str) -> Any:
    done = DuckDb(services).run(order("x"), DuckDbConfig(database="x.duckdb", command=command))
    assert isinstance(done, Outcome)
    return done.result["rows"]


def postgres(services: Services, command: str) -> Any:
    tool = Postgres(services)
    try:
        return tool.run(order("x"), PostgresConfig(auth="db", command=command)).result["rows"]
    finally:
        tool.close()


PG = {"kind": "postgres", "auth": "db"}
DUCK = {"kind": "duckdb", "database": "x.duckdb"}
LITE = {"kind": "sqlite", "database": "x.sqlite"}
SUMS = (
    "select count(*) as n, sum(id) as ids, sum(amount) as amount, min(name) as low, max(name) as high from {}"
)


@pytest.mark.postgres
def test_rows_go_all_the_way_round_and_are_the_same(tool: Transfer, services: Services) -> None:
    postgres(
        services,
        "create table a as select n::bigint as id, n / 8.0::numeric(12, 3) as amount, 'n ' || n as name, "
        "n % 3 = 0 as yes, timestamptz '2026-01-01' + n * interval '1 s' as at, nullif('', '') as none, "
        "json_build_object('n', n)::jsonb as doc, array[n, null] as pair, decode(md5(n::text), 'hex') as raw "
        "from generate_series(1, 4000) as n; alter table a alter amount type numeric(12, 3);"
        "create table b (like a including all)",
    )

    results = [
        moved(tool, {**PG, "table": "a"}, {**DUCK, "table": "t", "create": True}, "1", chunk_rows=1_000),
        moved(tool, {**DUCK, "table": "t"}, {"kind": "file", "file": "x.parquet"}, "2", chunk_rows=1_000),
        moved(
            tool,
            {"kind": "file", "file": "x.parquet"},
            {**LITE, "table": "t", "create": True},
            "3",
            chunk_rows=1_000,
        ),
        moved(tool, {**LITE, "table": "t"}, {**PG, "table": "b"}, "4", chunk_rows=1_000),
    ]

    assert [result["rows"] for result in results] == [4_000] * 4
    assert [result["chunks"] for result in results] == [4, 1, 4, 4]
    assert postgres(services, "select count(*) as n from (table a except table b) as d") == [{"n": 0}]
    assert postgres(services, SUMS.format("a")) == postgres(services, SUMS.format("b"))
    assert (
        duckdb(services, SUMS.format("t"))[0]["amount"] == postgres(services, SUMS.format("a"))[0]["amount"]
    )


MADE = [{"id": n, "name": f"n {n}", "v": n / 2} for n in range(1, 26)]
TARGETS = [pytest.param(PG, marks=pytest.mark.postgres, id="postgres"), pytest.param(DUCK, id="duckdb")]
TARGETS += [pytest.param(LITE, id="sqlite")]


def rows(services: Services, target: Any, command: str) -> Any:
    run = {"postgres": postgres, "duckdb": duckdb, "sqlite": sqlite}[target["kind"]]
    return run(services, command)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_are_appended_replaced_and_changed_by_key(
    tool: Transfer, services: Services, target: Any
) -> None:
    given = {"kind": "result", "ref": MADE}
    made = {**target, "table": "t", "create": True, "key": "id"}
    moved(tool, given, made, "1", chunk_rows=10)
    changed = [{"id": 1, "name": "old"}, {"id": 1, "name": "new"}, {"id": 99, "name": "more"}]
    moved(
        tool, {"kind": "result", "ref": changed}, {**target, "table": "t", "mode": "upsert", "key": "id"}, "2"
    )
    upserted = rows(services, target, "select id, name from t where id in (1, 99) order by id")
    moved(tool, given, {**target, "table": "t", "mode": "replace"}, "3", chunk_rows=10)

    assert upserted == [{"id": 1, "name": "new"}, {"id": 99, "name": "more"}]
    assert rows(services, target, "select * from t order by id") == MADE
    assert len(rows(services, target, "select * from noetl_ledger")) == 3


@pytest.mark.parametrize("target", TARGETS)
def test_a_transfer_that_is_made_again_changes_nothing(
    tool: Transfer, services: Services, target: Any
) -> None:
    made = {**target, "table": "t", "create": True}
    first = moved(tool, {"kind": "result", "ref": MADE}, made, "1", chunk_rows=10)
    again = moved(tool, {"kind": "result", "ref": MADE[:3]}, made, "1", chunk_rows=10)

    assert (first["rows"], first["chunks"]) == (25, 3)
    assert (again["rows"], again["chunks"]) == (25, 3)
    assert rows(services, target, "select count(*) as n from t") == [{"n": 25}]


@pytest.mark.parametrize("target", TARGETS)
def test_a_transfer_of_nothing_replaces_everything(tool: Transfer, services: Services, target: Any) -> None:
    moved(tool, {"kind": "result", "ref": MADE}, {**target, "table": "t", "create": True}, "1")
    sqlite(services, "create table nil (id int, name text, v real)")

    result = moved(tool, {**LITE, "table": "nil"}, {**target, "table": "t", "mode": "replace"}, "2")

    assert result["rows"] == 0
    assert rows(services, target, "select count(*) as n from t") == [{"n": 0}]


@pytest.mark.parametrize("target", TARGETS)
def test_two_workers_with_the_same_transfer_take_turns(services: Services, target: Any) -> None:
    many = [{"id": n, "name": "x" * 10} for n in range(5_000)]
    made = {**target, "table": "t", "create": True}
    tools = [Transfer(services) for _ in range(2)]
    moved(tools[0], {"kind": "result", "ref": MADE[:1]}, made, "first", columns=["id", "name"])
    failed: list[Exception] = []

    def work(tool: Transfer) -> None:
        try:
            moved(tool, {"kind": "result", "ref": many}, made, "same", chunk_rows=500)
        except Exception as error:  # noqa: BLE001 - any of them fails the test below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(tool,)) for tool in tools]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for tool in tools:
        tool.close()

    assert failed == []
    assert rows(services, target, "select count(*) as n, count(distinct id) as ids from t") == [
        {"n": 5_001, "ids": 5_000}
    ]


def test_columns_are_chosen_and_renamed(tool: Transfer, services: Services) -> None:
    target = {**LITE, "table": "t", "create": True}
    moved(tool, {"kind": "result", "ref": MADE[:1]}, target, columns={"number": "ID", "label": "name"})

    error = refused(tool, {"kind": "result", "ref": MADE}, target, columns=["nam"])

    assert sqlite(services, "select * from t") == [{"number": 1, "label": "n 1"}]
    assert "names 'nam', which the source does not have; did you mean 'name'?" in str(error)


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.ndjson"])
def test_files_are_written_and_read_again(tool: Transfer, services: Services, name: str) -> None:
    odd = [{"id": 1, "text": 'a,"b\n'}, {"id": 2, "text": None}, {"id": 3, "text": "é"}]
    moved(tool, {"kind": "result", "ref": odd}, {"kind": "file", "file": name}, "1")
    result = moved(tool, {"kind": "file", "file": name}, {"kind": "result"}, "2")

    assert services.results is not None
    assert open_references(result["ref"], services.results.load) == odd
    assert services.files.start is not None
    assert [path.name for path in services.files.start.iterdir()] == [name]


def test_what_cannot_be_transferred_says_why(tool: Transfer, services: Services) -> None:
    target = {**LITE, "table": "t"}
    sqlite(services, "create table t (id int); create table orders (id int)")

    assert "There is no file" in str(refused(tool, {"kind": "file", "file": "no.csv"}, target))
    assert "give `format`" in str(
        refused(tool, {"kind": "result", "ref": MADE}, {"kind": "file", "file": "x"})
    )
    assert "leads out of" in str(refused(tool, {"kind": "file", "file": "../x.csv"}, target))
    assert "leads out of" in str(
        refused(tool, {"kind": "result", "ref": MADE}, {"kind": "file", "file": "../x.csv"})
    )
    assert "did you mean 'orders'?" in str(
        refused(tool, {"kind": "result", "ref": MADE}, {**LITE, "table": "order"})
    )
    assert "no column 'name'" in str(refused(tool, {"kind": "result", "ref": MADE}, target))


@pytest.mark.postgres
def test_values_keep_their_digits(tool: Transfer, services: Services) -> None:
    exact = "12345678901234567890.123456789"
    postgres(services, f"create table t as select {exact}::numeric as n, 2 ^ 62::numeric as big")
    moved(tool, {**PG, "table": "t"}, {**DUCK, "table": "t", "create": True}, "1")
    moved(tool, {**DUCK, "table": "t"}, {**PG, "table": "u", "create": True}, "2")

    assert postgres(services, "select n::text as n from u") == [{"n": exact}]


ROUNDED = [
    {"n": Decimal("0.1"), "whole": 1, "f": 0.1},
    {"n": Decimal("12345678901234567.25"), "whole": 9007199254740993, "f": 1e300},
]


def rounded(kind: str) -> list[str]:
    return [
        f"Row 1 (from 0): the column 'n' is {kind}, which holds another number than 12345678901234567.25; "
        "make it numeric or text.",
        f"Row 1 (from 0): the column 'whole' is {kind}, which holds another number than 9007199254740993; "
        "make it numeric or text.",
    ]


def test_a_float_that_is_another_number_than_the_exact_one_is_a_warning(
    tool: Transfer, services: Services
) -> None:
    duckdb(services, "create table t (n double, whole double, f double)")

    outcome = transferred(tool, {"kind": "result", "ref": ROUNDED}, {**DUCK, "table": "t"})
    given = DuckDbConfig(database="x.duckdb", table="t", rows=ROUNDED)
    written = DuckDb(services).run(order("x"), given)

    assert outcome.meta["warnings"] == rounded("DOUBLE")
    assert isinstance(written, Outcome)
    assert written.meta["warnings"] == rounded("DOUBLE")


@pytest.mark.postgres
def test_postgres_says_of_floats_that_they_are_other_numbers(tool: Transfer, services: Services) -> None:
    kind = "double precision"
    postgres(services, f"create table t (n {kind}, whole {kind}, f {kind})")

    outcome = transferred(tool, {"kind": "result", "ref": ROUNDED}, {**PG, "table": "t"})
    database = Postgres(services)
    written = database.run(order("x"), PostgresConfig(auth="db", table="t", rows=ROUNDED))
    database.close()

    assert outcome.meta["warnings"] == rounded(kind)
    assert written.meta["warnings"] == rounded(kind)


@pytest.mark.postgres
@pytest.mark.parametrize("odd", ["", "(4, 1e30::numeric, 1), (5, 0.000000000001, 1)", "(4, 'NaN', 1)"])
def test_numerics_of_any_size_come_as_they_were(tool: Transfer, services: Services, odd: str) -> None:
    plain = "(1, 12345678901234567.25, 12345678901234567890.123456789012345678), (2, 0.1, 1)"
    rows = ", ".join(filter(None, [plain, odd]))
    postgres(
        services,
        "drop table if exists digits, copied; create table digits (id int, n numeric, fixed numeric(38, 18)); "
        f"create table copied (like digits); insert into digits values {rows}",
    )

    outcome = transferred(tool, {**PG, "table": "digits"}, {**PG, "table": "copied"})

    lost = postgres(services, "select count(*) as n from (table digits except table copied) as d")
    warned = "NaN" in "".join(outcome.meta.get("warnings", ()))
    assert lost == [{"n": 1 if warned else 0}]
    assert warned == ("NaN" in odd)


@pytest.mark.postgres
def test_what_only_postgres_has_comes_as_it_was(tool: Transfer, services: Services) -> None:
    postgres(
        services,
        "drop table if exists odd, copied; create table odd (f float8, t timestamptz, d date, i interval); "
        "create table copied (like odd); insert into odd values ('NaN', 'infinity', '-infinity', '1 month 30 days'), "
        "('-Infinity', '2026-01-01 00:00+00', '0044-03-15 BC', '-90 min')",
    )

    moved(tool, {**PG, "table": "odd"}, {**PG, "table": "copied"})

    assert postgres(services, "select count(*) as n from (table odd except table copied) as d") == [{"n": 0}]


@pytest.mark.postgres
def test_a_document_that_is_null_does_not_become_null(tool: Transfer, services: Services) -> None:
    postgres(services, "create table docs (id int, plain json, doc jsonb)")
    postgres(services, "insert into docs values (1, 'null', 'null'), (2, null, null), (3, '[null]', '{}')")

    moved(tool, {**PG, "table": "docs"}, {**DUCK, "table": "docs", "create": True}, "out")
    moved(tool, {**DUCK, "table": "docs"}, {**PG, "table": "again", "create": True}, "back")

    assert postgres(services, "select id, plain::text, doc::text from again order by id") == [
        {"id": 1, "plain": "null", "doc": "null"},
        {"id": 2, "plain": None, "doc": None},
        {"id": 3, "plain": "[null]", "doc": "{}"},
    ]


@pytest.mark.postgres
@pytest.mark.parametrize(
    "values", [[[1, 2], ["x"]], [{"x": 1}, {"y": "z"}], [9007199254740993, 0.5], [[1], [{"a": None}]]]
)
def test_documents_of_different_shapes_stay_what_they_are(
    tool: Transfer, services: Services, values: list[Any]
) -> None:
    postgres(services, "drop table if exists documents")
    ref = [{"id": number, "v": value} for number, value in enumerate(values)]

    moved(tool, {"kind": "result", "ref": ref}, {**PG, "table": "documents", "create": True})

    found = [row["v"] for row in postgres(services, "select v from documents order by id")]
    assert json.dumps(found) == json.dumps(values)


@pytest.mark.postgres
def test_postgres_does_not_guess_which_part_of_a_date_is_its_month(
    tool: Transfer, services: Services
) -> None:
    postgres(services, "create table days (d date)")
    target = {**PG, "table": "days"}

    moved(tool, {"kind": "result", "ref": [{"d": "2024-01-05"}]}, target, "1")
    error = refused(tool, {"kind": "result", "ref": [{"d": "05/01/2024"}]}, target)

    assert "05/01/2024" in error.message
    assert postgres(services, "select d from days") == [{"d": "2024-01-05"}]


@pytest.mark.postgres
def test_an_error_in_the_middle_leaves_the_chunks_before_it(tool: Transfer, services: Services) -> None:
    postgres(services, "create table t (id int check (id <> 15), name text, v float)")
    target = {**PG, "table": "t"}

    error = refused(tool, {"kind": "result", "ref": MADE}, target, chunk_rows=10)
    postgres(services, "alter table t drop constraint t_id_check")
    result = moved(tool, {"kind": "result", "ref": MADE}, target, chunk_rows=10)

    assert (error.kind, error.extras["pg"]["sqlstate"]) == ("sql", "23514")
    assert (result["rows"], result["chunks"]) == (25, 3)
    assert postgres(services, "select count(*) as n, sum(id)::int as s from t") == [{"n": 25, "s": 325}]


@pytest.mark.postgres
def test_a_transfer_that_is_cancelled_ends(
    tool: Transfer, empty_postgres_url: str, services: Services
) -> None:
    postgres(services, "create table t (id int, name text, v float)")
    call = order("k")
    given = {"source": {"kind": "result", "ref": MADE}, "target": {**PG, "table": "t"}}
    with ThreadPoolExecutor(1) as pool, held(empty_postgres_url, "t"):
        running = pool.submit(tool.run, call, TransferConfig.model_validate(given))
        until_waiting(empty_postgres_url, 1)
        tool.interrupt(call)
        error = running.exception()

    assert isinstance(error, ToolError)
    assert error.kind == "cancelled"
