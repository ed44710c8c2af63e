"""What rows do not name, in each of the SQL tools: whatever the order of the rows, and however many
name what."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.tools.duckdb.open import DuckDbConfig
from noetl.tools.duckdb.tool import DuckDb
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from noetl.tools.sqlite.tool import Sqlite, SqliteConfig

Run: TypeAlias = Callable[..., Outcome]
TABLE = """drop table if exists left_out;
    create table left_out (id int primary key, name varchar(20) not null, qty int default 7, note varchar(20));
    insert into left_out values (1, 'keep', 5, 'kept'), (2, 'two', 6, 'two')"""
#: Rows that change 1 twice and 2 once, and one that is added.
CHANGES: list[dict[str, Any]] = [
    {"id": 1, "note": "first"},
    {"id": 1, "qty": 50},
    {"id": 2, "note": None},
    {"id": 3, "name": "three"},
]


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Run]:
    files = FilePolicy(roots=(tmp_path,), directories=(tmp_path,))
    match request.param:
        case "sqlite":
            tool: Any = Sqlite(Services(files=files, scratch=tmp_path / "s"))
            model: Any = SqliteConfig
            place = {"database": "x.db"}
        case "duckdb":
            tool, model = DuckDb(Services(files=files, scratch=tmp_path / "s")), DuckDbConfig
            place = {"database": "x.db"}
        case _:
            dsn = request.getfixturevalue("postgres_url")
            tool, model = Postgres(Services(credential={"db": {"dsn": dsn}}.__getitem__)), PostgresConfig
            place = {"auth": "db"}
    call = Call(request.param, {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k")

    def run(**config: Any) -> Outcome:
        found = tool.run(call, model.model_validate({**place, **config}))
        assert isinstance(found, Outcome)
        return found

    yield run
    run(command="drop table if exists left_out")
    tool.close()


def write(run: Run, rows: Any, mode: str = "upsert", **config: Any) -> Outcome:
    given = {"key": "id"} if mode == "upsert" else {}
    return run(table="left_out", rows=rows, mode=mode, **given, **config)


def table(run: Run) -> list[tuple[Any, ...]]:
    rows = run(command="select id, name, qty, note from left_out order by id, note").result["rows"]
    return [tuple(row.values()) for row in rows]


def test_an_upsert_writes_what_rows_name_in_every_order(run: Run) -> None:
    for rows in itertools.permutations(CHANGES):
        run(command=TABLE)
        outcome = write(run, list(rows))

        assert table(run) == [(1, "keep", 50, "first"), (2, "two", 6, None), (3, "three", 7, None)]
        assert outcome.result["rows_written"] == 3
        assert outcome.meta["warnings"] == ["Rows merged with a later one that has their key: 1"]


@pytest.mark.parametrize(
    ("missing", "changed"),
    [("keep", (1, "keep", 50, "kept")), ("default", (1, "new", 50, None)), ("null", (1, "new", 50, None))],
)
def test_what_an_upsert_leaves_out_is_kept_or_its_default_or_null(
    run: Run, missing: str, changed: tuple[Any, ...]
) -> None:
    run(command=TABLE)
    own = {"id": 1, "qty": 50} if missing == "keep" else {"id": 1, "qty": 50, "name": "new"}
    write(run, [own, {"id": 2, "name": "named", "note": "n"}], missing=missing)

    kept = {"keep": 6, "default": 7, "null": None}[missing]
    assert table(run) == [changed, (2, "named", kept, "n")]


@pytest.mark.parametrize("mode", ["insert", "copy", "replace"])
@pytest.mark.parametrize(("missing", "qty"), [("keep", 7), ("default", 7), ("null", None)])
def test_what_an_added_row_leaves_out_is_its_default_or_null(
    run: Run, mode: str, missing: str, qty: int | None
) -> None:
    run(command=TABLE + "; delete from left_out")
    write(run, [{"id": 1, "name": "a", "qty": 1}, {"id": 2, "name": "b", "note": "n"}], mode, missing=missing)

    assert table(run) == [(1, "a", 1, None), (2, "b", qty, "n")]


def test_with_fail_nothing_is_written_and_the_row_and_its_column_are_named(run: Run) -> None:
    run(command=TABLE)
    with pytest.raises(ToolError) as caught:
        write(run, [{"id": 1, "name": "a"}, {"id": 2}], missing="fail")

    assert str(caught.value).startswith("Row 1 (from 0) of `rows` does not name the column 'name'")
    assert table(run)[0] == (1, "keep", 5, "kept")


def test_many_rows_that_name_this_and_that_are_all_there(run: Run) -> None:
    run(command=TABLE + "; delete from left_out")
    rows = [{"id": at, "name": f"n{at}"} | ({"qty": at} if at % 2 else {"note": "x"}) for at in range(12_000)]

    assert write(run, rows).result["rows_written"] == 12_000
    found = run(command="select count(*) as n, sum(qty) as s, count(note) as c from left_out").result["rows"]
    assert found == [{"n": 12_000, "s": 36_000_000 + 6_000 * 7, "c": 6_000}]


def test_a_row_that_cannot_be_added_is_an_error_and_none_is_written(run: Run) -> None:
    run(command=TABLE)
    with pytest.raises(ToolError) as caught:
        write(run, [{"id": 1, "qty": 1}, {"id": 9, "qty": 9}])

    assert caught.value.kind == "sql"
    assert table(run)[0] == (1, "keep", 5, "kept")
