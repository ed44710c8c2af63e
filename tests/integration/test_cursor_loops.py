"""Loops over a cursor, on real databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import make_url

from noetl.facts.events import LoopClaimed
from noetl.facts.reference import is_reference
from noetl.usecases import inspect
from noetl.usecases.runtime import Runtime

Run = Callable[..., dict[str, Any]]

CLAIM = """
              UPDATE jobs SET status = 'claimed', claims = claims + 1, worker = :worker
              WHERE id IN (
                SELECT id FROM jobs WHERE status = 'new' ORDER BY id FOR UPDATE SKIP LOCKED LIMIT :max_rows
              )
              RETURNING *"""


@pytest.fixture
def dsn(empty_postgres_url: str) -> str:
    """A database with a table of jobs."""
    url = make_url(empty_postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    asked(
        url,
        "create table jobs (id int primary key, status text not null default 'new', claims int not null "
        "default 0,"
        " worked int not null default 0, worker text, payload jsonb)",
    )
    return url


def asked(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []


def draining(dsn: str, spec: str, work: str = "", cursor: str = "") -> str:
    return f"""
    workflow:
      - step: drain
        loop:
          cursor:
            kind: postgres
            dsn: {dsn}
            {cursor}
            claim: |{CLAIM}
          iterator: row
          spec: {{{spec}}}
        tool:
          kind: postgres
          dsn: {dsn}
          params: {{id: "{{{{ row.id }}}}"}}
          command: |
            UPDATE jobs SET status = 'done', worked = worked + 1 WHERE id = :id RETURNING id{work}
    """


def claims_of(rt: Runtime, report: dict[str, Any]) -> Iterator[LoopClaimed]:
    events = inspect.events(rt, report["execution_id"])
    return (event.fact for event in events if isinstance(event.fact, LoopClaimed))


@pytest.mark.postgres
def test_rows_are_claimed_and_worked_on_once_by_several_lanes(run: Run, rt: Runtime, dsn: str) -> None:
    asked(dsn, "insert into jobs (id) select generate_series(1, 120)")
    report = run(draining(dsn, "mode: parallel, max_in_flight: 4, frame: {max_rows: 10}"))
    assert report["status"] == "completed", report["error"]
    assert report["steps"]["drain"]["result"]["stats"] == {"total": 120, "completed": 120, "failed": 0}
    wrong = asked(dsn, "select * from jobs where (status, claims, worked) <> ('done', 1, 1)")
    assert wrong == []
    made = list(claims_of(rt, report))
    assert {claim.lane for claim in made if claim.count} >= {"l0", "l1"}, "no lane worked alone"
    assert max(claim.count for claim in made) == 10


@pytest.mark.postgres
def test_rows_that_are_added_while_the_loop_runs_are_worked_on(run: Run, dsn: str) -> None:
    asked(dsn, "insert into jobs (id) select generate_series(1, 7)")
    more = ";\n            INSERT INTO jobs (id) SELECT :id + 10 WHERE :id < 60"
    report = run(draining(dsn, "mode: parallel, max_in_flight: 3, frame: {max_rows: 2}", more))
    assert report["status"] == "completed", report["error"]
    assert report["steps"]["drain"]["result"]["stats"]["total"] == 49
    assert asked(dsn, "select count(*), count(*) filter (where status = 'done') from jobs") == [(49, 49)]


@pytest.mark.postgres
def test_a_sequential_loop_takes_rows_in_the_order_of_the_claims(run: Run, dsn: str) -> None:
    asked(dsn, "insert into jobs (id) select generate_series(1, 9)")
    report = run(draining(dsn, "frame: {max_rows: 1}"))
    results = report["steps"]["drain"]["result"]["results"]
    assert [one["rows"][0]["id"] for one in results] == [*range(1, 10)]


@pytest.mark.postgres
def test_large_rows_are_recorded_by_reference(run: Run, rt: Runtime, dsn: str) -> None:
    asked(
        dsn,
        "insert into jobs (id, payload) select n, jsonb_build_object('text', repeat(n::text, 3000))"
        " from generate_series(100, 139) n",
    )
    body = draining(dsn, "mode: parallel, max_in_flight: 2, frame: {max_rows: 40}").replace(
        "RETURNING id", "RETURNING length(:text) AS n"
    )
    report = run(
        body.replace(
            'params: {id: "{{ row.id }}"}', 'params: {id: "{{ row.id }}", text: "{{ row.payload.text }}"}'
        )
    )
    assert report["status"] == "completed", report["error"]
    assert is_reference(next(claims_of(rt, report)).items)
    assert {one["rows"][0]["n"] for one in report["steps"]["drain"]["result"]["results"]} == {9000}


@pytest.mark.postgres
def test_a_claim_that_can_be_repeated_keeps_its_answer_in_the_ledger(run: Run, rt: Runtime, dsn: str) -> None:
    asked(dsn, "insert into jobs (id) select generate_series(1, 20)")
    report = run(
        draining(dsn, "mode: parallel, max_in_flight: 3, frame: {max_rows: 4}", cursor="exactly_once: true")
    )
    assert report["status"] == "completed", report["error"]
    made = len(list(claims_of(rt, report)))
    assert asked(dsn, "select count(*) from noetl_ledger where task = 'claim'") == [(made,)]


@pytest.mark.postgres
def test_a_claim_with_a_wrong_statement_fails_the_step_at_its_line(run: Run, dsn: str) -> None:
    report = run(draining(dsn, "mode: parallel").replace("claims = claims + 1", "claimed_by = 1"))
    assert report["status"] == "failed"
    error = report["error"]
    assert (error["kind"], error["step"], error["task"]) == ("sql", "drain", "claim")
    assert "claimed_by" in error["message"]
    assert error["line"] == 13


@pytest.mark.postgres
def test_a_claim_that_returns_nothing_of_what_it_marked_fails_the_step(run: Run, dsn: str) -> None:
    asked(dsn, "insert into jobs (id) select generate_series(1, 3)")
    report = run(draining(dsn, "mode: parallel").replace("RETURNING *", ""))
    assert report["status"] == "failed"
    assert "end it with RETURNING *" in report["error"]["message"]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_files_are_drained_as_well(run: Run, tmp_path: Path, kind: str, mode: str) -> None:
    body = f"""
    workload: {{db: {tmp_path / "jobs"}}}
    workflow:
      - step: start
        tool:
          kind: {kind}
          database: "{{{{ db }}}}"
          command: |
            CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT, claims INTEGER);
            INSERT INTO jobs VALUES (1, 'new', 0), (2, 'new', 0), (3, 'new', 0), (4, 'new', 0), (5, 'new', 0)
        next: drain
      - step: drain
        loop:
          cursor:
            kind: {kind}
            database: "{{{{ db }}}}"
            claim: |
              UPDATE jobs SET status = :run, claims = claims + 1
              WHERE id IN (SELECT id FROM jobs WHERE status = 'new' ORDER BY id LIMIT :max_rows) RETURNING *
          iterator: row
          spec: {{mode: {mode}, max_in_flight: 2, frame: {{max_rows: 2}}}}
        tool: {{kind: noop, input: {{id: "{{{{ row.id }}}}", status: "{{{{ row.status }}}}"}}}}
        next: end
      - step: end
        tool: {{kind: {kind}, database: "{{{{ db }}}}", command: "SELECT sum(claims) AS n, min(status) AS s FROM jobs"}}
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    drained = report["steps"]["drain"]["result"]
    assert sorted(one["id"] for one in drained["results"]) == [1, 2, 3, 4, 5]
    assert drained["stats"] == {"total": 5, "completed": 5, "failed": 0}
    assert report["result"]["rows"] == [{"n": 5, "s": "drain#1"}]
