"""`/api/results` as callers see it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from flask.testing import FlaskClient

from noetl.facts.reference import Column, Retention
from noetl.testing import Simulation

KEEP = Retention("7")


def address(reference: Any) -> str:
    return f"/api/results/{reference['ref'].removeprefix('noetl://results/')}"


@pytest.fixture
def table(sim: Simulation, tmp_path: Path) -> str:
    """Where a table of 5,000 rows is found."""
    (tmp_path / "table.csv").write_text("".join(f"{number},n{number}\n" for number in range(5_000)))
    columns = [Column("id", "BIGINT"), Column("name", "VARCHAR")]
    return address(sim.rt.results.put_table(tmp_path / "table.csv", "text/csv", columns, KEEP))


def test_a_result_is_shown_as_its_value(client: FlaskClient, sim: Simulation) -> None:
    value = {"b": [1, None, "é"], "a": {"x": 1.5}}
    answer = client.get(address(sim.rt.results.put(value, KEEP)))
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert json.loads(answer.data) == value
    assert list(json.loads(answer.data)) == ["b", "a"]


def test_a_result_in_parts_is_shown_as_one(client: FlaskClient, sim: Simulation) -> None:
    value = {"rows": [{"id": number, "x": [number]} for number in range(30_000)], "text": "x" * 300_000}
    assert client.get(address(sim.rt.results.put(value, KEEP))).get_json() == value


def test_a_table_is_shown_as_its_rows(client: FlaskClient, table: str) -> None:
    rows = client.get(table).get_json()
    assert len(rows) == 5_000
    assert rows[4_999] == {"id": 4_999, "name": "n4999"}


def test_rows_are_paged(client: FlaskClient, table: str) -> None:
    page = client.get(f"{table}?offset=4990&limit=5").get_json()
    assert (page["offset"], page["length"], page["next"]) == (4_990, 5_000, 4_995)
    assert [row["id"] for row in page["items"]] == list(range(4_990, 4_995))
    assert client.get(f"{table}?offset=4995").get_json()["next"] is None
    assert client.get(f"{table}?offset=6000").get_json()["items"] == []
    assert len(client.get(f"{table}?limit=3").get_json()["items"]) == 3


@pytest.mark.parametrize(
    "how", [{"query_string": "raw=1"}, {"headers": {"Accept": "application/vnd.apache.parquet"}}]
)
def test_the_bytes_of_a_table_are_handed_out_as_they_were_kept(
    client: FlaskClient, table: str, how: dict[str, Any], tmp_path: Path
) -> None:
    answer = client.get(table, **how)
    assert answer.mimetype == "application/vnd.apache.parquet"
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    (tmp_path / "copy.parquet").write_bytes(answer.data)
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*) FROM read_parquet(?)", [str(tmp_path / "copy.parquet")])
        assert found.fetchone() == (5_000,)


def test_a_download_has_a_name_and_a_tag_and_is_not_sent_twice(client: FlaskClient, table: str) -> None:
    answer = client.get(f"{table}?raw=1")
    name = table.rpartition("/")[2]
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["ETag"] == f'"{name.partition(".")[0]}"'
    answer.close()
    again = client.get(table, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_a_file_of_any_sort_is_downloaded(client: FlaskClient, sim: Simulation, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\0\1\2" * 300_000)
    answer = client.get(address(sim.rt.results.put_file(tmp_path / "x", "image/png", KEEP)) + "?raw=1")
    assert answer.mimetype == "application/octet-stream"
    assert answer.data == io.BytesIO(b"\0\1\2" * 300_000).getvalue()


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("x", 400),
        ("executions/7/../../../etc/passwd", 400),
        ("executions/7/%2e%2e/x", 400),
        ("x" * 201, 400),
        (f"executions/7/{'0' * 64}.json", 404),
        (f"executions/7/{'0' * 64}.parquet", 404),
        (f"executions/7/{'0' * 64}.ndjson?offset=0", 404),
        (f"executions/7/{'0' * 64}.bytes?raw=1", 404),
        ("0" * 64, 404),
    ],
)
def test_anything_but_a_result_or_gone_is_a_problem(client: FlaskClient, name: str, status: int) -> None:
    answer = client.get(f"/api/results/{name}")
    assert answer.status_code == status, answer.data
    assert answer.mimetype == "application/problem+json"
    assert answer.get_json()["detail"]


@pytest.mark.parametrize(
    "query", ["offset=-1", "limit=0", "limit=10001", "limit=x", "raw=maybe", "offset=10e99"]
)
def test_a_query_that_cannot_be_used_is_a_problem(client: FlaskClient, table: str, query: str) -> None:
    assert client.get(f"{table}?{query}").status_code == 400


def test_only_lists_have_rows(client: FlaskClient, sim: Simulation) -> None:
    answer = client.get(address(sim.rt.results.put({"a": 1}, KEEP)) + "?limit=1")
    assert (answer.status_code, "is no list" in answer.get_json()["detail"]) == (400, True)
