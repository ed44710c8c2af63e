"""Tables in a result store: from text to Parquet, exactly."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.reference import Column, Retention
from noetl.results import FileResults

KEEP = Retention("7")
CSV = "text/csv"
NDJSON = "application/x-ndjson"

COLUMNS = [
    Column("id", "BIGINT"),
    Column("name", "VARCHAR"),
    Column("amount", "DECIMAL(12,2)"),
    Column("at", "TIMESTAMPTZ"),
    Column("day", "DATE"),
    Column("ok", "boolean"),
    Column("more", "JSON"),
    Column("raw", "BLOB"),
    Column("uid", "UUID"),
]
UID = "8a0b1c2d-0000-4000-8000-000000000001"


@pytest.fixture
def results(tmp_path: Path) -> FileResults:
    return FileResults(str(tmp_path / "results"), scratch=tmp_path / "scratch")


def _table(results: FileResults, reference: Any) -> list[tuple[Any, ...]]:
    with results.file(reference) as path, duckdb.connect() as connection:
        return connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()


def _put(
    results: FileResults, root: Path, text: str, columns: list[Column] = COLUMNS, content_type: str = CSV
) -> Any:
    source = root / "table.txt"
    source.write_text(text)
    return results.put_table(source, content_type, columns, KEEP)


def test_csv_as_copy_writes_it_becomes_a_table_with_its_types(results: FileResults, tmp_path: Path) -> None:
    text = (
        f'1,"a ""b"", c\nd",12.50,2026-01-01 12:00:00+02,2026-01-01,t,"{{""a"": [1]}}",\\x6162,{UID}\n'
        '2,"",,,,,,,\n'
    )
    reference = _put(results, tmp_path, text)
    assert reference["ref"].endswith(f"/executions/7/{reference['meta']['sha256']}.parquet")
    assert reference["meta"]["content_type"] == "application/vnd.apache.parquet"
    assert reference["meta"]["rows"] == 2
    assert reference["preview"] == {
        "type": "array",
        "length": 2,
        "columns": [
            {"name": "id", "type": "BIGINT"},
            {"name": "name", "type": "VARCHAR"},
            {"name": "amount", "type": "DECIMAL(12,2)"},
            {"name": "at", "type": "TIMESTAMP WITH TIME ZONE"},
            {"name": "day", "type": "DATE"},
            {"name": "ok", "type": "BOOLEAN"},
            {"name": "more", "type": "JSON"},
            {"name": "raw", "type": "BLOB"},
            {"name": "uid", "type": "UUID"},
        ],
        "rows": [
            {
                "id": 1,
                "name": 'a "b", c\nd',
                "amount": Decimal("12.50"),
                "at": "2026-01-01T10:00:00+00:00",
                "day": "2026-01-01",
                "ok": True,
                "more": {"a": [1]},
                "raw": "YWI=",
                "uid": UID,
            },
            {"id": 2, "name": ""} | dict.fromkeys(["amount", "at", "day", "ok", "more", "raw", "uid"]),
        ],
    }
    assert json.loads(json.dumps(reference, typed=True)) == reference
    assert _table(results, reference)[0][7] == b"ab"


def test_lines_of_json_become_the_table_that_csv_becomes(results: FileResults, tmp_path: Path) -> None:
    row = {
        "uid": UID,
        "id": 1,
        "name": "",
        "amount": Decimal("12.50"),
        "at": "2026-01-01T10:00:00Z",
        "day": "2026-01-01",
    }
    row |= {"ok": True, "more": {"a": [1]}, "raw": "YWI=", "unknown": 1}
    from_json = _put(results, tmp_path, json.dumps(row) + '\n{"id": 2}\n', content_type=NDJSON)
    from_csv = _put(
        results,
        tmp_path,
        f'1,"",12.5,2026-01-01 10:00:00Z,2026-01-01,t,"{{""a"":[1]}}",\\x6162,{UID}\n2,,,,,,,,\n',
    )
    assert from_json == from_csv


def test_a_first_line_of_names_is_one_only_where_the_content_type_says_so(
    results: FileResults, tmp_path: Path
) -> None:
    columns = [Column("a", "VARCHAR")]
    assert _put(results, tmp_path, "a\nb\n", columns)["meta"]["rows"] == 2
    headed = _put(results, tmp_path, "a\nb\n", columns, "text/csv; charset=utf-8; header=present")
    assert headed["preview"]["rows"] == [{"a": "b"}]


def test_null_and_the_empty_text_stay_apart_in_a_table_of_one_column(
    results: FileResults, tmp_path: Path
) -> None:
    reference = _put(results, tmp_path, '1\n\n""\n', [Column("a", "VARCHAR")])
    assert _table(results, reference) == [("1",), (None,), ("",)]


@pytest.mark.parametrize("content_type", [CSV, NDJSON])
def test_a_table_without_rows_has_its_columns(
    results: FileResults, tmp_path: Path, content_type: str
) -> None:
    reference = _put(results, tmp_path, "", content_type=content_type)
    assert reference["meta"]["rows"] == 0
    assert len(reference["preview"]["columns"]) == len(COLUMNS)


def test_rows_of_many_groups_stay_in_order_and_make_one_object(results: FileResults, tmp_path: Path) -> None:
    text = "".join(f"{number},name {number % 97}\n" for number in range(50_000))
    columns = [Column("id", "BIGINT"), Column("name", "VARCHAR")]
    reference = _put(results, tmp_path, text, columns)
    assert [row[0] for row in _table(results, reference)] == list(range(50_000))
    assert _put(results, tmp_path, text, columns) == reference


def test_a_long_text_is_no_hindrance(results: FileResults, tmp_path: Path) -> None:
    text = "x" * 5_000_000
    reference = _put(results, tmp_path, f"1,{text}\n", [Column("id", "BIGINT"), Column("t", "VARCHAR")])
    assert _table(results, reference) == [(1, text)]
    assert reference["preview"]["rows"] == []


@pytest.mark.parametrize(
    ("content_type", "text", "columns", "why"),
    [
        (CSV, "1,a\nx,b\n", "BIGINT VARCHAR", "Line: 2.*\"x\" to 'BIGINT'"),
        (CSV, "1,a,3\n", "BIGINT VARCHAR", "Expected Number of Columns: 2 Found: 3"),
        (CSV, '1,"a\n', "BIGINT VARCHAR", "unterminated quote"),
        (CSV, "1,NaN\n", "BIGINT DECIMAL(10,2)", "DECIMAL"),
        (NDJSON, '{"c0": 1}\n[1]\n', "BIGINT", r"Expected OBJECT, but got ARRAY: \[1\]"),
        (NDJSON, '{"c0":\n', "BIGINT", "Malformed JSON"),
        (NDJSON, '{"c0": 99999999999999999999}\n', "BIGINT", "99999999999999999999"),
        ("text/plain", "1\n", "BIGINT", "'text/plain' is no text of a table"),
        (CSV, "1\n", "", "at least one column"),
        (CSV, "1\n", "BIGNIT", "'BIGNIT', which no table has. Did you mean 'BIGINT'"),
        (CSV, "1\n", "DECIMAL(2,3)", "which no table has"),
        (CSV, "1\n", "BIGINT'}); DROP", "which no table has"),
        (CSV, "1\n", "HUGEINT", "which no table has"),
    ],
)
def test_what_is_no_such_table_is_refused_with_the_place(
    results: FileResults, tmp_path: Path, content_type: str, text: str, columns: str, why: str
) -> None:
    typed = [Column(f"c{number}", kind) for number, kind in enumerate(columns.split(" ")) if kind]
    if "DROP" in columns:
        typed = [Column("c0", columns)]
    with pytest.raises(BadRequest, match=why) as caught:
        _put(results, tmp_path, text, typed, content_type)
    assert "\n" not in caught.value.message
    assert "/" not in caught.value.message.replace("text/", "").replace("application/", "")
    assert "auto-detect" not in caught.value.message.lower()


@pytest.mark.parametrize("names", [["a", "A"], [""], ["a\0b"]])
def test_columns_need_names_that_differ(results: FileResults, tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(BadRequest, match="column"):
        _put(results, tmp_path, "1,2\n", [Column(one, "BIGINT") for one in names])


def test_a_name_of_a_column_may_hold_anything_else(results: FileResults, tmp_path: Path) -> None:
    names = ['a"b', "it's", "{}", "select", "ü 😀", "x,y"]
    reference = _put(results, tmp_path, "1,2,3,4,5,6\n", [Column(one, "BIGINT") for one in names])
    assert reference["preview"]["rows"] == [dict(zip(names, range(1, 7), strict=True))]


def test_nothing_temporary_is_left(results: FileResults, tmp_path: Path) -> None:
    _put(results, tmp_path, "1\n", [Column("a", "BIGINT")])
    with pytest.raises(BadRequest):
        _put(results, tmp_path, "x\n", [Column("a", "BIGINT")])
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_file_that_says_it_is_a_table_and_is_none_is_refused(results: FileResults, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"PAR1, or so")
    with pytest.raises(BadRequest, match="cannot be used"):
        results.put_file(tmp_path / "x", "application/vnd.apache.parquet", KEEP)
    assert list(results.places()) == []
