"""Numbers that a column cannot hold as they are: rows and transfers name them and write nothing,
and take all others."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.results import open_results
from noetl.tools.duckdb.tool import DuckDb, DuckDbConfig
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from noetl.tools.sqlite.tool import Sqlite, SqliteConfig
from noetl.tools.transfer.config import TransferConfig
from noetl.tools.transfer.tool import Transfer

#: Runs a task of a kind, and yields its result, with its `warnings`.
Run = Callable[..., Any]

POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    (tmp_path / "base").mkdir()
    is_served = request.node.get_closest_marker("postgres") is not None
    dsn = request.getfixturevalue("empty_postgres_url") if is_served else ""
    services = Services(
        credential={"db": {"dsn": dsn}}.__getitem__,
        results=open_results(str(tmp_path / "results")),
        files=FilePolicy(roots=(tmp_path / "base",), directories=(tmp_path / "base",)),
        scratch=tmp_path / "scratch",
        allow_private_networks=True,
    )
    tools: dict[str, Any] = {
        "postgres": (Postgres, PostgresConfig),
        "duckdb": (DuckDb, DuckDbConfig),
        "sqlite": (Sqlite, SqliteConfig),
        "transfer": (Transfer, TransferConfig),
    }

    def do(kind: str, **config: Any) -> Any:
        make, model = tools[kind]
        tool = make(services)
        try:
            call = Call(kind, {}, {}, {}, Where("1", "s#1", "s"), "t", 1, repr(config))
            done = tool.run(call, model.model_validate({**PLACE.get(kind, {}), **config}))
        finally:
            tool.close()
        assert isinstance(done, Outcome)
        return {**done.result, "warnings": done.meta.get("warnings", [])}

    return do


PLACE = {"postgres": {"auth": "db"}, "duckdb": {"database": "x.db"}, "sqlite": {"database": "x.sqlite"}}


def by_rows(run: Run, kind: str, rows: list[dict[str, Any]]) -> Any:
    return run(kind, table="t", rows=rows)


def by_copy(run: Run, kind: str, rows: list[dict[str, Any]]) -> Any:
    return run(kind, table="t", rows=rows, mode="copy" if kind == "postgres" else "replace")


def by_transfer(run: Run, kind: str, rows: list[dict[str, Any]]) -> Any:
    source, target = {"kind": "result", "ref": rows}, {"kind": kind, **PLACE[kind], "table": "t"}
    return run("transfer", source=source, target=target)


WAYS = [by_rows, by_copy, by_transfer]


#: Type of a column → what it has too few digits for.
CUT = [
    ("integer", 1.5),
    ("bigint", "1.5"),
    ("numeric(10,2)", Decimal("1.234")),
    ("numeric(10,2)", "1234e-3"),
    ("numeric(38,0)", Decimal("0.5")),
]
#: Type of a column → what arrives in it, and as what.
KEPT = [
    ("integer", 2.0, 2),
    ("bigint", Decimal("9007199254740993.00"), 9007199254740993),
    ("numeric(10,2)", Decimal("1.5000"), Decimal("1.50")),
    ("numeric(10,2)", 19.99 * 3, Decimal("59.97")),
    ("varchar", "1.234", "1.234"),
]


def make(run: Run, kind: str, type: str) -> None:
    run(kind, commands=["drop table if exists t", f"create table t (id integer, n {type})"])


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("kind", [POSTGRES, "duckdb"])
def test_a_number_with_more_digits_than_its_column_is_refused(run: Run, kind: str, write: Any) -> None:
    for type, number in CUT:
        make(run, kind, type)

        with pytest.raises(ToolError) as refused:
            write(run, kind, [{"id": 1, "n": None}, {"id": 2, "n": number}])

        assert "Row 1 (from 0): the column 'n' is" in refused.value.message
        assert f"which cannot hold {number} as it is; round the number" in refused.value.message
        assert run(kind, command="select * from t")["rows"] == []


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("kind", [POSTGRES, "duckdb"])
def test_a_number_that_its_column_holds_arrives(run: Run, kind: str, write: Any) -> None:
    for type, number, kept in KEPT:
        make(run, kind, type)

        write(run, kind, [{"id": 1, "n": number}, {"id": 2, "n": None}])

        assert run(kind, command="select n from t order by id")["rows"] == [{"n": kept}, {"n": None}]


#: Type of a column with numbers inside → what it has too few digits for.
CUT_INSIDE = [
    ("map(varchar, integer)", {"a": 1, "b": 1.5}),
    ("map(decimal(4,1), varchar)", {"1.25": "a"}),
    ('struct("a, b" integer, c varchar)', {"a, b": Decimal("1.5"), "c": "x"}),
    ("struct(a struct(b decimal(10,2)[])[])", {"a": [{"b": [1, Decimal("1.234")]}]}),
    ("map(varchar, struct(e enum('x, (', 'y'), n bigint))[]", [{"k": {"e": "y", "n": "0.5"}}]),
]
LARGE = Decimal(2**53 + 1)
PRECISE = Decimal("1234567890123456789.0123456789")
KEPT_INSIDE = [
    ("map(varchar, integer)", {"a": 2.0, "b": None}, {"a": 2, "b": None}),
    ("bigint[][]", [[LARGE], None], [[int(LARGE)], None]),
    ("struct(a bigint, b varchar)", {"a": LARGE, "b": PRECISE}, {"a": int(LARGE), "b": str(PRECISE)}),
    ("varchar[]", [PRECISE], [str(PRECISE)]),
    ("map(integer, decimal(38,10))", {"7": PRECISE}, {"7": PRECISE}),
]


def test_numbers_in_structures_and_maps_are_those_of_their_types(run: Run) -> None:
    for type, value in CUT_INSIDE:
        make(run, "duckdb", type)

        with pytest.raises(
            ToolError, match=r"Row 1 \(from 0\): the column 'n' is .* as it is; round the number"
        ):
            run("duckdb", table="t", rows=[{"id": 1, "n": None}, {"id": 2, "n": value}])

        assert run("duckdb", command="select * from t")["rows"] == []

    for type, value, kept in KEPT_INSIDE:
        make(run, "duckdb", type)

        run("duckdb", table="t", rows=[{"id": 1, "n": value}, {"id": 2, "n": None}])

        assert run("duckdb", command="select n from t order by id")["rows"] == [{"n": kept}, {"n": None}]


@pytest.mark.postgres
@pytest.mark.parametrize("write", WAYS)
def test_a_domain_holds_the_numbers_of_its_type(run: Run, write: Any) -> None:
    run(
        "postgres",
        commands=[
            "create domain amount as numeric(10,2)",
            "create domain price as amount check (value > 0)",
            "create table t (id integer, n price)",
        ],
    )

    with pytest.raises(ToolError, match=r"Row 0 .* cannot hold 1\.234 as it is"):
        write(run, "postgres", [{"id": 1, "n": Decimal("1.234")}])
    with pytest.raises(ToolError, match="price_check"):
        write(run, "postgres", [{"id": 1, "n": -1}])
    write(run, "postgres", [{"id": 1, "n": Decimal("1.20")}])

    assert run("postgres", command="select n from t")["rows"] == [{"n": Decimal("1.20")}]


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("kind", [POSTGRES, "duckdb"])
def test_a_column_of_single_floats_says_which_number_it_makes_another(
    run: Run, kind: str, write: Any
) -> None:
    make(run, kind, "real")

    held = [2**24, Decimal("0.1"), 10**11, Decimal("-1234.5"), 0.1, None]
    assert write(run, kind, [{"id": 1, "n": number} for number in held])["warnings"] == []
    (said,) = write(run, kind, [{"id": 1, "n": 1}, {"id": 2, "n": 2**24 + 1}])["warnings"]

    assert "Row 1 (from 0): the column 'n' is" in said
    assert said.endswith("which holds another number than 16777217; make it numeric or text.")


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("kind", [POSTGRES, "duckdb"])
def test_a_float_with_more_digits_than_its_column_is_rounded_with_a_warning(
    run: Run, kind: str, write: Any
) -> None:
    make(run, kind, "numeric(10,2)")

    (said,) = write(run, kind, [{"id": 1, "n": 19.99}, {"id": 2, "n": 14.5666}])["warnings"]

    assert "Row 1 (from 0): the column 'n' is" in said
    assert said.endswith("which holds another number than 14.5666; round the number before.")
    assert run(kind, command="select n from t order by id")["rows"] == [
        {"n": Decimal("19.99")},
        {"n": Decimal("14.57")},
    ]


@pytest.mark.parametrize("write", [by_rows, by_transfer])
def test_sqlite_refuses_numbers_of_which_it_makes_others(run: Run, write: Any) -> None:
    for type, number in (("real", 2**53 + 1), ("numeric", "12345678901234567.25"), ("int", Decimal(2**70))):
        make(run, "sqlite", type)

        with pytest.raises(ToolError, match=r"Row 1 \(from 0\): the column 'n' .* make it a column of TEXT"):
            write(run, "sqlite", [{"id": 1, "n": None}, {"id": 2, "n": number}])

        assert run("sqlite", command="select * from t")["rows"] == []


@pytest.mark.parametrize("kind", [POSTGRES, "duckdb"])
def test_numbers_in_lists_are_those_of_their_column(run: Run, kind: str) -> None:
    make(run, kind, "integer[]")

    run(kind, table="t", rows=[{"id": 1, "n": [1, 2.0]}])
    with pytest.raises(ToolError, match=r"Row 0 .* cannot hold \[1\.5\]"):
        run(kind, table="t", rows=[{"id": 2, "n": [1.5]}])

    assert run(kind, command="select n from t")["rows"] == [{"n": [1, 2]}]
