"""Exports of real executions, from real databases into files that DuckDB reads."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.errors import BadRequest, Conflict
from noetl.exports.export import ExportRequest, export
from noetl.exports.folder import Folder, Manifest
from noetl.exports.query import answer_query
from noetl.facts.events import CtxPatched, Draft
from noetl.projection.tables import TABLES
from noetl.usecases import catalog, inspect
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests import zygote
from tests.waiting import until

#: A loop, retries, children, a failure that is handled, a result that is kept by reference.
BODY = """
workload: {n: 6, fails: false}
workflow:
  - step: squares
    loop: {in: "{{ range(n) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 3}}
    tool: {name: square, kind: python, input: {i: "{{ iter.i }}"}, code: "result = i * i"}
    next: flaky
  - step: flaky
    tool:
      name: third
      kind: python
      input: {nth: "{{ _attempt }}"}
      code: |
        if nth < 3:
            raise ValueError("not yet")
        result = "x" * 100_000
      spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 0.01}},
        {else: {then: {do: continue}}}]}}
    next: child
  - step: child
    tool: {kind: playbook, path: tests/export/child, input: {n: 7}}
    next: broken
  - step: broken
    tool: {kind: shell, command: exit 3}
    next: {arcs: [{step: end, when: "{{ outcome.status == 'error' and not fails }}"}]}
  - step: end
    tool: {kind: noop, input: {total: "{{ squares.stats.total }}"}}
"""
CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: tests/export/child}
workload: {n: 1}
workflow: [{step: start, tool: {kind: noop, input: {tenfold: "{{ n * 10 }}"}}}]
"""


@pytest.fixture
def engine(tmp_path: Path, postgres_url: str) -> Iterator[Runtime]:
    """An engine on PostgreSQL; `small` is one on SQLite."""
    with bootstrap.local(Settings(home=tmp_path / "home", database_url=postgres_url)) as rt:
        catalog.register(rt, CHILD, "child.yaml")
        yield rt


@pytest.fixture
def ran(engine: Runtime, run_in: Callable[[Runtime], Any]) -> Callable[..., dict[str, Any]]:
    """Runs the playbook and returns its report."""
    run = run_in(engine)
    return lambda **payload: run(BODY, **payload)


def rows(to: Path, manifest: Manifest, table: str, columns: str = "*") -> list[dict[str, Any]]:
    """The newest row of each key, as readers of the export find it."""
    one = TABLES[table]
    files = [str(to / part.file) for part in manifest.tables[table]]
    reader = "read_json" if files[0].endswith(".jsonl") else "read_parquet"
    newest = f"QUALIFY row_number() OVER (PARTITION BY {', '.join(one.key)} ORDER BY as_of DESC) = 1"
    query = (
        f"SELECT {columns} FROM {reader}({files}) {newest if one.revised else ''} ORDER BY "
        f"{', '.join(one.key)}"
    )
    with duckdb.connect() as connection:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def everything(to: Path, manifest: Manifest) -> dict[str, list[dict[str, Any]]]:
    return {table: rows(to, manifest, table) for table in TABLES}


@pytest.mark.postgres
def test_the_figures_of_an_export_are_those_of_the_api_whatever_its_form(
    engine: Runtime, ran: Callable[..., dict[str, Any]], tmp_path: Path, subtests: Any
) -> None:
    reports = [ran(), ran(n=2, fails=True)]
    for form in ("parquet", "jsonl", "clickhouse"):
        with subtests.test(form=form):
            out = tmp_path / form
            assert_same_figures(engine, reports, out, export(engine, ExportRequest(str(out), form)))


def assert_same_figures(
    engine: Runtime, reports: Sequence[dict[str, Any]], out: Path, manifest: Manifest
) -> None:
    found = {str(row["execution_id"]): row for row in rows(out, manifest, "execution")}
    listed = inspect.executions(engine)
    assert {row.execution_id: row.status for row in listed} == {
        key: row["status"] for key, row in found.items()
    }
    for report in reports:
        row = found[report["execution_id"]]
        assert (row["events"], row["duration_ms"]) == (report["events"], report["duration_ms"])
        assert row["error_message"] == (report["error"] or {}).get("message")
        runs = [
            one
            for one in rows(out, manifest, "step_run")
            if str(one["execution_id"]) == report["execution_id"]
        ]
        assert {one["step"]: one["status"] for one in runs} == {
            name: step["status"] for name, step in report["steps"].items()
        }
    assert sum(part.rows for part in manifest.tables["event_log"]) == sum(row.head_version for row in listed)
    tries = [row["attempt"] for row in rows(out, manifest, "attempt") if row["task"] == "third"]
    assert sorted(tries) == [1, 1, 2, 2, 3, 3]
    assert {row["bytes"] for row in rows(out, manifest, "result_ref") if row["step"] == "flaky"} == {100_002}


@pytest.mark.postgres
def test_exports_that_follow_one_another_hold_what_one_of_everything_holds(
    engine: Runtime, ran: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    for number in range(3):
        ran(n=number)
        several = export(engine, ExportRequest(str(tmp_path / "several")))
        assert several.exports == number + 1
    whole = export(engine, ExportRequest(str(tmp_path / "whole")))
    assert everything(tmp_path / "several", several) == everything(tmp_path / "whole", whole)
    again = export(engine, ExportRequest(str(tmp_path / "several")))
    assert (again.exports, again.tables) == (4, several.tables)


@pytest.mark.postgres
def test_the_same_log_is_the_same_files_whatever_the_size_of_parts_says(
    engine: Runtime, ran: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    ran()
    first = export(engine, ExportRequest(str(tmp_path / "first")))
    export(engine, ExportRequest(str(tmp_path / "second")))
    for name in first.files:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    small = export(engine, ExportRequest(str(tmp_path / "small")), most_rows=3)
    assert len(small.tables["event_log"]) > 10
    assert max(part.rows for part in small.tables["event_log"]) == 3
    assert everything(tmp_path / "small", small) == everything(tmp_path / "first", first)


@pytest.mark.postgres
def test_an_export_of_some_tables_holds_what_one_of_all_holds_of_them(
    engine: Runtime, ran: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    ran()
    whole = export(engine, ExportRequest(str(tmp_path / "whole")))
    for tables in (["event_log", "result_ref"], ["playbook_arc"], ["playbook"], ["token", "attempt"]):
        to = tmp_path / tables[0]
        part = export(engine, ExportRequest(str(to), tables=tables))
        assert list(part.tables) == [name for name in TABLES if name in tables]
        for table in tables:
            assert rows(to, part, table) == rows(tmp_path / "whole", whole, table)


@pytest.mark.postgres
def test_what_a_slow_transaction_commits_late_is_in_the_next_export(
    postgres_url: str, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", database_url=postgres_url)
    with bootstrap.local(settings) as rt:
        row = catalog.register(rt, CHILD, "child.yaml")
        quick, slow = _requested(rt, row), _requested(rt, row)
        out = ExportRequest(str(tmp_path / "out"))
        patch = Draft(CtxPatched({"a": 1}, "client"))
        with rt.store.begin() as late:
            late.executions.lock(slow)
            late.events.append(slow, _head(rt, slow), [patch], rt.clock())
            with rt.store.begin() as tx:
                tx.executions.lock(quick)
                tx.events.append(quick, _head(rt, quick), [patch], rt.clock())
            # What is later in the log is exported before what is earlier can be seen.
            before = _patches(rt, out, tmp_path)
        after = _patches(rt, out, tmp_path)
    assert before == [quick]
    assert sorted(after) == sorted([quick, slow])


def _requested(rt: Runtime, row: Any) -> str:
    """A small execution that has ended."""
    execution_id = start(rt, StartRequest(row.path, row.version)).execution_id
    until(lambda: inspect.execution(rt, execution_id).status == "completed", "the execution to end")
    return execution_id


def _head(rt: Runtime, execution_id: str) -> int:
    return inspect.execution(rt, execution_id).head_version


def _patches(rt: Runtime, request: ExportRequest, tmp_path: Path) -> list[str]:
    manifest = export(rt, request)
    log = rows(tmp_path / "out", manifest, "event_log", "execution_id, version, type")
    return [str(row["execution_id"]) for row in log if row["type"] == "ctx.patched"]


# --- the directory ---


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Runtime]:
    """An engine with one playbook that has run once."""
    with bootstrap.local(Settings(home=tmp_path / "home")) as rt:
        _requested(rt, catalog.register(rt, CHILD, "child.yaml"))
        yield rt


def test_an_export_that_was_killed_leaves_what_was_there_and_the_next_one_makes_it_whole(
    tmp_path: Path,
) -> None:
    settings = Settings(home=tmp_path / "home")
    out = tmp_path / "out"
    with bootstrap.local(settings) as rt:
        row = catalog.register(rt, CHILD, "child.yaml")
        ids = [_requested(rt, row) for _ in range(3)]
        first = export(rt, ExportRequest(str(out)))
        for execution_id in ids:
            _append_many(rt, execution_id, 500)
        _kill_in_the_middle(out, settings)
        assert {name for name in first.files if not (out / name).exists()} == set()
        manifest = export(rt, ExportRequest(str(out)))
        whole = export(rt, ExportRequest(str(tmp_path / "whole")))
        assert everything(out, manifest) == everything(tmp_path / "whole", whole)
        found = {name for name in Folder(str(out)).names() if name.endswith(".parquet")}
        assert found == {part.file for parts in manifest.tables.values() for part in parts}


def _append_many(rt: Runtime, execution_id: str, count: int) -> None:
    with rt.store.begin() as tx:
        tx.executions.lock(execution_id)
        drafts = [Draft(CtxPatched({"a": number}, "client")) for number in range(count)]
        tx.events.append(execution_id, _head(rt, execution_id), drafts, rt.clock())


EXPORTS = """
import sys
from pathlib import Path
from noetl import bootstrap
from noetl.config import Settings
from noetl.dispatch.null import NullDispatcher
from noetl.exports.export import ExportRequest, export
export(bootstrap.runtime(Settings(home=Path(sys.argv[1])), NullDispatcher()), ExportRequest(sys.argv[2]), most_rows=20)
"""


def _kill_in_the_middle(out: Path, settings: Settings) -> None:
    folder = out.parent
    (folder / "program.py").write_text(EXPORTS)
    with zygote.Popen(["program", str(settings.home), str(out)], cwd=folder) as process:
        third = out / "event_log/part-000003.parquet"
        until(lambda: third.exists() or process.poll() is not None, "the third part")
        assert process.poll() is None, "it ended before it was killed"
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL


def test_only_one_export_writes_to_a_directory_at_a_time(small: Runtime, tmp_path: Path) -> None:
    with Folder(str(tmp_path / "out")).hold(), pytest.raises(Conflict, match="Another export"):
        export(small, ExportRequest(str(tmp_path / "out")))


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (ExportRequest("", "jsonl"), ExportRequest("", "parquet"), "is an export as jsonl"),
        (
            ExportRequest("", None, ["execution"]),
            ExportRequest("", None, ["token"]),
            "is an export of execution",
        ),
        (ExportRequest(""), ExportRequest("", None, ["step_runs"]), "Did you mean 'step_run'"),
    ],
)
def test_an_export_stays_what_it_began_as(
    small: Runtime, tmp_path: Path, first: ExportRequest, then: ExportRequest, said: str
) -> None:
    to = str(tmp_path / "out")
    export(small, replace(first, to=to))
    with pytest.raises(BadRequest, match=said):
        export(small, replace(then, to=to))
    assert export(small, ExportRequest(to)).exports == 2


def test_a_directory_of_somebody_else_is_left_alone(small: Runtime, tmp_path: Path) -> None:
    (tmp_path / "theirs" / "event_log").mkdir(parents=True)
    file = tmp_path / "theirs/event_log/part-000001.parquet"
    file.write_text("theirs")
    with pytest.raises(BadRequest, match=r"holds files and no manifest\.json"):
        export(small, ExportRequest(str(tmp_path / "theirs")))
    (tmp_path / "theirs/manifest.json").write_text('{"format": "zip"}')
    with pytest.raises(BadRequest, match="is no manifest of an export"):
        export(small, ExportRequest(str(tmp_path / "theirs")))
    assert file.read_text() == "theirs"


@pytest.mark.parametrize("to", ["nowhere://x", "/dev/null"])
def test_anything_but_a_directory_is_refused(small: Runtime, to: str) -> None:
    with pytest.raises(BadRequest, match="is no directory to export to"):
        export(small, ExportRequest(to))


def test_an_export_goes_to_any_file_system_of_fsspec(small: Runtime, tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}"
    first = export(small, ExportRequest(url, "jsonl", ["execution"]))
    (part,) = first.tables["execution"]
    line = json.loads(Folder(url).read(part.file) or b"")
    assert line["status"] == "completed"
    assert list(line) == [column.name for column in TABLES["execution"].columns]
    _requested(small, catalog.playbook(small, "tests/export/child"))
    assert [part.rows for part in export(small, ExportRequest(url)).tables["execution"]] == [1, 1]


def test_clickhouse_gets_a_schema_and_a_script_for_each_export(small: Runtime, tmp_path: Path) -> None:
    out = ExportRequest(str(tmp_path / "out"), "clickhouse")
    manifest = export(small, out)
    schema = (tmp_path / "out/schema.sql").read_text()
    for name, table in TABLES.items():
        body = schema.split(f"CREATE TABLE IF NOT EXISTS {name}\n")[1].split(";")[0]
        types = dict(
            line.strip().rstrip(",").split(" ", 1) for line in body.splitlines() if line.startswith("    ")
        )
        assert list(types) == [f"`{column.name}`" for column in table.columns]
        for column in table.columns:
            assert types[f"`{column.name}`"].startswith("Nullable(") != column.required
        assert ("ReplacingMergeTree(as_of)" in body) == table.revised
        assert ("PARTITION BY" in body) == ("execution_id" in table.key)
        order = body.split("ORDER BY (")[1]
        assert [word for word in table.key if word in order] == list(table.key)
    _requested(small, catalog.playbook(small, "tests/export/child"))
    after = export(small, out)
    loads = [(tmp_path / f"out/load-00000{number}.sql").read_text() for number in (1, 2)]
    assert loads[0].count("INSERT INTO") == sum(map(len, manifest.tables.values()))
    assert "INSERT INTO execution FROM INFILE 'execution/part-000002.parquet' FORMAT Parquet;" in loads[1]
    assert "".join(loads).count("INSERT INTO") == sum(map(len, after.tables.values()))


def test_rows_of_one_execution_lie_in_one_month_of_clickhouse(small: Runtime, tmp_path: Path) -> None:
    # The expression of the partition, in the words of DuckDB: the month in which the execution was
    # made.
    manifest = export(small, ExportRequest(str(tmp_path / "out")))
    months = rows(
        tmp_path / "out",
        manifest,
        "execution",
        "strftime(make_timestamp(((execution_id >> 22) + 1767225600000) * 1000), '%Y%m') AS of_id, "
        "strftime(created_at::timestamp, '%Y%m') AS of_row",
    )
    assert [row["of_id"] for row in months] == [row["of_row"] for row in months]


# --- questions ---


def answer(rt: Runtime, query: str, last: int | None = None) -> Sequence[Any]:
    with answer_query(rt, query, last) as found:
        return list(found.rows)


@pytest.mark.postgres
def test_a_question_is_answered_while_executions_run(
    engine: Runtime, ran: Callable[..., dict[str, Any]]
) -> None:
    report = ran()
    found = answer(
        engine,
        "SELECT e.status, count(*) FILTER (t.status = 'done'), any_value(s.iterations) FROM execution e "
        "JOIN task_run t USING (execution_id) JOIN step_run s ON (s.execution_id = e.execution_id AND "
        "s.loop_mode IS "
        f"NOT NULL) WHERE e.execution_id = {report['execution_id']} GROUP BY ALL",
    )
    assert found == [("completed", 9, 6)]
    assert answer(engine, "SELECT count(*) FROM execution", last=1) == [(1,)]
    assert answer(engine, "WITH token AS (SELECT 1) SELECT count(*) FROM token") == [(1,)]


def test_numbers_that_no_float_holds_keep_their_digits(small: Runtime, tmp_path: Path, subtests: Any) -> None:
    """The rows of JSON lines are read as texts: DuckDB makes floats of the numbers in them."""
    digits = "1234567890.0123456789"
    (path,) = answer(small, "SELECT DISTINCT path FROM execution")[0]
    start(small, StartRequest(path=path, payload={"n": Decimal(digits)}))

    for form in ("parquet", "jsonl"):
        with subtests.test(form=form):
            export(small, ExportRequest(str(tmp_path / form), form))
            files = f"{tmp_path / form}/execution/part-*.{form}"
            reader = (
                f"read_csv('{files}', sep='', quote='', header=false)" if form == "jsonl" else f"'{files}'"
            )
            with duckdb.connect() as connection:
                assert f'"n":{digits}' in str(connection.execute(f"FROM {reader}").fetchall())
    assert ({"n": Decimal(digits)},) in answer(small, "SELECT workload FROM execution")


def test_questions_are_answered_on_sqlite_as_well(small: Runtime) -> None:
    query = "SELECT e.status, t.status FROM execution e JOIN task_run t USING (execution_id)"
    assert answer(small, query) == [("completed", "done")]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT * FROM executions", 'Did you mean "execution'),
        ("SELECT statu FROM execution", 'Referenced column "statu" not found'),
        ("SELEC 1", "syntax error"),
        ("", "one statement"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("COPY (SELECT 1) TO '/tmp/out.csv'", "read-only"),
        ("ATTACH '/tmp/other.duckdb'", "read-only"),
        ("INSTALL httpfs", "read-only"),
        ("SET enable_external_access = true", "read-only"),
        ("DELETE FROM execution", "no DELETE"),
        ("EXPLAIN ANALYZE DELETE FROM execution", "read-only"),
        ("CREATE TABLE x (a INT)", "read-only"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(small: Runtime, query: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        answer(small, query)
