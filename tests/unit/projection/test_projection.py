"""The tables say of an execution what the API says of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.events import Draft, Event, TaskDone
from noetl.pipeline.model import Call
from noetl.projection.references import find_reference_rows
from noetl.projection.rows import ProjectionRow
from noetl.projection.tables import TABLES
from noetl.testing import START, Simulation
from noetl.usecases import catalog, control, inspect
from noetl.usecases.export import ExportedBefore, rows
from noetl.usecases.views import envelope

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"

SQUARES = """
workload: {n: 4}
workflow:
  - step: squares
    loop: {in: "{{ range(n) | list }}", iterator: i, spec: {mode: parallel, max_in_flight: 2}}
    tool: {name: square, kind: python, input: {i: "{{ iter.i }}"}, code: "result = i * i"}
    next: {arcs: [{step: end, args: {from: squares}}]}
  - step: end
    tool: {kind: noop, input: {total: "{{ squares.stats.total }}"}}
"""

POLLED = """
workflow:
  - step: poll
    tool:
      name: ask
      kind: http
      url: u
      spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 5, delay: 5}},
        {when: "{{ result == 'not yet' }}", then: {do: retry, attempts: 5, delay: 5}},
        {else: {then: {do: continue}}}]}}
"""

JUMPS = """
workload: {pages: 3}
workflow:
  - step: pages
    tool:
      - {name: fetch, kind: noop, input: {page: "{{ page | default(1) }}"}, set: {page: "{{ result.page + 1 }}"}}
      - {name: more, kind: noop, spec: {policy: {rules: [
          {when: "{{ page <= pages }}", then: {do: jump, to: fetch}}, {else: {then: {do: continue}}}]}}}
"""

CALLS = """
workflow:
  - step: each
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: playbook, path: tests/child, input: {n: "{{ iter.n }}"}}
"""
CHILD = """
workload: {n: 0}
workflow:
  - step: start
    tool: {kind: noop, input: {tenfold: "{{ n * 10 }}"}}
"""

WRONG = """
workflow:
  - step: start
    tool: {name: broken, kind: python, code: "raise ValueError('no luck')"}
"""

GATED = """
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""

PASSED = """
workflow:
  - step: gate
    spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}], on_deny: pass}}}
    tool: {kind: noop}
    next: end
  - step: end
"""


def exported(simulation: Simulation, known: ExportedBefore | None = None) -> dict[str, list[dict[str, Any]]]:
    """Rows by table."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for item in rows(simulation.rt, list(TABLES), known or ExportedBefore()):
        if isinstance(item, ProjectionRow):
            found[item.table].append(dict(item.values))
    return found


def simulated(body: str, tools: Any = None, **overrides: Any) -> tuple[Simulation, inspect.Report]:
    simulation = Simulation(HEAD + body, tools)
    return simulation, simulation.run(**overrides)


def test_rows_have_exactly_the_columns_of_their_table_and_no_null_where_one_is_required() -> None:
    simulation, _ = simulated(SQUARES)
    for name, found in exported(simulation).items():
        for row in found:
            assert set(row) == {column.name for column in TABLES[name].columns}, name
            assert [c.name for c in TABLES[name].columns if c.required and row[c.name] is None] == []


@pytest.mark.parametrize("body", [SQUARES, JUMPS, WRONG, GATED], ids=["loop", "jumps", "failure", "waits"])
def test_an_execution_is_what_its_report_says(body: str) -> None:
    simulation, report = simulated("key: 'k-{{ execution_id }}'" + body)
    row = exported(simulation)["execution"][0]
    said = report.as_json()
    assert [row[key] for key in ("execution_id", "path", "status", "events", "ctx", "key")] == [
        said[key] for key in ("execution_id", "path", "status", "events", "ctx", "key")
    ]
    assert row["playbook_version"] == said["version"]
    assert row["error"] == said["error"]
    assert row["result"] == said["result"]
    assert row["created_at"] == report.row.created_at.isoformat()
    assert row["ended_at"] == (report.row.ended_at and report.row.ended_at.isoformat())


@pytest.mark.parametrize("body", [SQUARES, JUMPS, WRONG, PASSED], ids=["loop", "jumps", "failure", "passed"])
def test_step_runs_are_those_of_the_report(body: str) -> None:
    simulation, report = simulated(body)
    runs = exported(simulation)["step_run"]
    assert Counter(row["step"] for row in runs) == {name: one["runs"] for name, one in report.steps.items()}
    for row in runs:
        assert row["status"] == report.steps[row["step"]]["status"]
        if row["loop_mode"] is None:
            assert row["result"] == report.steps[row["step"]]["result"]


def test_a_loop_has_its_numbers_and_a_task_run_for_each_iteration() -> None:
    simulation, report = simulated(SQUARES)
    tables = exported(simulation)
    loop = next(row for row in tables["step_run"] if row["step"] == "squares")
    assert [loop[f"iterations{end}"] for end in ("", "_done", "_failed")] == [4, 4, 0]
    assert (loop["loop_mode"], loop["result"]) == ("parallel", None)
    tasks = sorted(
        (row for row in tables["task_run"] if row["step"] == "squares"), key=lambda row: row["iteration"]
    )
    assert [row["result"] for row in tasks] == report.steps["squares"]["result"]["results"]
    assert {row["kind"] for row in tasks} == {"python"}


HARD = """
workflow:
  - step: each
    loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 1, policy: {failure: {mode: best_effort}}}}
    tool:
      name: ask
      kind: http
      url: u
      input: {n: "{{ n }}"}
      spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 2, delay: 5}},
        {else: {then: {do: continue}}}]}}
"""

WAITS = """
workflow:
  - step: each
    loop: {in: [0, 1], iterator: n, spec: {mode: parallel}}
    tool:
      - {name: note, kind: noop}
      - {name: doze, kind: wait, timer: 10}
"""


def iterations_of(simulation: Simulation, *columns: str) -> list[tuple[Any, ...]]:
    found = exported(simulation)["loop_iteration"]
    assert len({(row["run_id"], row["iteration"]) for row in found}) == len(found)
    found.sort(key=lambda row: row["iteration"])
    return [tuple(row[name] for name in columns) for row in found]


def test_an_iteration_is_a_row_with_its_tries_and_its_error() -> None:
    answers = iter([{"status": 200}, None, {"status": 200}, None, None])

    def ask(_: Call) -> Any:
        if (answer := next(answers)) is None:
            raise ToolError("server_error", "Busy.", retryable=True)
        return answer

    simulation, report = simulated(HARD, {"http": ask})
    found = iterations_of(simulation, "run_id", "iteration", "status", "attempts", "error_kind")
    by_status = sorted((row[2:] for row in found), key=str)
    assert by_status == [("done", 1, None), ("done", 2, None), ("failed", 2, "server_error")]
    assert {row[0] for row in found} == {"each#1"}
    stats = report.steps["each"]["result"]["stats"]
    assert [row[2] for row in found].count("failed") == stats["failed"]


def test_an_iteration_that_waits_is_a_row_that_goes_on_being_told() -> None:
    simulation = Simulation(HEAD + WAITS)
    simulation.start()
    simulation.settle()
    waiting = iterations_of(simulation, "iteration", "status", "ended_at", "duration_ms")
    assert waiting == [(0, "waiting", None, None), (1, "waiting", None, None)]

    simulation.pass_time(10)
    simulation.settle()
    done = iterations_of(simulation, "iteration", "status", "attempts", "duration_ms")
    assert done == [(0, "done", 1, 10_000.0), (1, "done", 1, 10_000.0)]


def test_iterations_of_what_was_cancelled_are_cancelled() -> None:
    simulation = Simulation(HEAD + WAITS)
    execution_id = simulation.start()
    simulation.settle()
    control.cancel(simulation.rt, execution_id, "")
    simulation.settle()
    assert iterations_of(simulation, "status") == [("cancelled",), ("cancelled",)]
    assert exported(simulation)["execution"][0]["status"] == "cancelled"


def test_attempts_are_the_tries_that_failed_those_that_a_policy_repeated_and_the_last_one() -> None:
    answers = iter(["busy", "not yet", "busy", "here"])

    def ask(_: Call) -> str:
        if (answer := next(answers)) == "busy":
            raise ToolError("server_error", "Busy.", retryable=True)
        return answer

    simulation, _ = simulated(POLLED, {"http": ask})
    tables = exported(simulation)
    tries = [(row["attempt"], row["status"], row["error_kind"]) for row in tables["attempt"]]
    assert tries == [
        (1, "failed", "server_error"),
        (2, "repeated", None),
        (3, "failed", "server_error"),
        (4, "done", None),
    ]
    (task,) = tables["task_run"]
    assert (task["status"], task["attempts"], task["result"]) == ("done", 4, "here")


def test_a_task_that_is_jumped_back_to_has_a_row_for_each_visit() -> None:
    simulation, _ = simulated(JUMPS)
    visits = [(row["task"], row["visit"]) for row in exported(simulation)["task_run"]]
    assert visits == [(task, visit) for visit in (1, 2, 3) for task in ("fetch", "more")]


def test_callers_and_children_name_each_other() -> None:
    simulation = Simulation(HEAD + CALLS)
    catalog.register(simulation.rt, HEAD.replace("tests/test", "tests/child") + CHILD)
    report = simulation.run()
    tables = exported(simulation)
    children = [row for row in tables["execution"] if row["parent_id"] == report.row.execution_id]
    assert {row["parent_run_id"] for row in children} == {"each#1"}
    calls = {row["iteration"]: row["child_id"] for row in tables["task_run"] if row["step"] == "each"}
    assert calls == {row["parent_iteration"]: row["execution_id"] for row in children}
    assert sorted(row["result"]["tenfold"] for row in children) == [10, 20, 30]


def test_a_token_tells_where_it_was_put_down_and_who_took_it() -> None:
    simulation, _ = simulated(SQUARES)
    tokens = {row["token_id"]: row for row in exported(simulation)["token"]}
    assert [(row["arc_id"], row["status"], row["run_id"]) for row in tokens.values()] == [
        ("entry", "consumed", "squares#1"),
        ("squares->end", "consumed", "end#1"),
    ]
    assert next(row["args"] for row in tokens.values() if row["source_run_id"]) == {"from": "squares"}


def test_what_has_not_ended_is_reported_as_it_is_and_what_was_cancelled_as_cancelled() -> None:
    simulation = Simulation(HEAD + GATED)
    execution_id = simulation.start()
    simulation.settle()
    assert [row["status"] for row in exported(simulation)["token"]] == ["waiting"]
    assert exported(simulation)["execution"][0]["status"] == "waiting"
    control.cancel(simulation.rt, execution_id, "")
    simulation.settle()
    assert [row["status"] for row in exported(simulation)["token"]] == ["left"]
    assert exported(simulation)["execution"][0]["status"] == "cancelled"


def test_what_waits_for_another_try_is_waiting_and_unfinished_when_it_is_cancelled() -> None:
    def busy(_: Call) -> str:
        raise ToolError("server_error", "Busy.", retryable=True)

    simulation = Simulation(HEAD + POLLED, {"http": busy})
    execution_id = simulation.start()
    simulation.settle()
    tables = exported(simulation)
    assert [row["status"] for row in tables["task_run"]] == ["waiting"]
    assert [row["status"] for row in tables["step_run"]] == ["waiting"]
    control.cancel(simulation.rt, execution_id, "")
    simulation.settle()
    tables = exported(simulation)
    assert [row["status"] for row in tables["task_run"]] == ["unfinished"]
    assert [row["status"] for row in tables["step_run"]] == ["cancelled"]


def test_the_log_is_every_event_as_the_api_shows_it() -> None:
    simulation, report = simulated(SQUARES)
    events = simulation.events(report.row.execution_id)
    assert exported(simulation)["event_log"] == [envelope(event) for event in events]


def test_steps_and_arcs_are_those_of_the_net() -> None:
    simulation, report = simulated(SQUARES)
    net = inspect.net_of(simulation.rt, report.row.execution_id)
    tables = exported(simulation)
    assert [row["step"] for row in tables["playbook_step"]] == list(net.steps)
    assert [row["arc_id"] for row in tables["playbook_arc"]] == list(net.arcs)
    assert tables["playbook_step"][0]["tasks"] == [{"name": "square", "kind": "python"}]
    assert tables["playbook"][0]["digest"] == tables["playbook_step"][0]["digest"] == report.row.digest


def test_references_are_found_wherever_they_stand() -> None:
    def reference(name: str) -> dict[str, Any]:
        meta = {"bytes": 9, "sha256": name, "content_type": "application/json"}
        return {
            "kind": "result_ref",
            "ref": f"noetl://{name}",
            "store": "results",
            "scope": "step",
            "meta": meta,
        }

    parts = [{"count": 2, "items": [1, 2]}, {"count": 5, "ref": reference("part")}]
    value = {"a": [reference("first")], "b": {"kind": "manifest", "count": 7, "parts": parts}}
    event = Event("7", 3, START, Draft(TaskDone("t", value), step="s", run_id="s#1"))
    found = [(row.table, row.values) for row in find_reference_rows(event, envelope(event)["payload"])]
    assert [(table, values["place"]) for table, values in found] == [
        ("result_ref", "result.a.0"),
        ("manifest_ref", "result.b"),
        ("result_ref", "result.b.parts.1.ref"),
    ]
    assert [found[0][1][key] for key in ("ref", "bytes", "scope", "version")] == [
        "noetl://first",
        9,
        "step",
        3,
    ]
    assert (found[1][1]["count"], found[1][1]["parts"]) == (7, 2)


def test_what_only_looks_like_a_reference_yields_no_value_of_another_type() -> None:
    odd = {"kind": "result_ref", "ref": "x", "store": 5, "meta": [], "expires_at": {}}
    event = Event("7", 3, START, Draft(TaskDone("t", odd)))
    (row,) = find_reference_rows(event, envelope(event)["payload"])
    assert [row.values[key] for key in ("store", "bytes", "expires_at")] == [None, None, None]
