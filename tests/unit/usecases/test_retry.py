"""What a retry runs again, what stands, and what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from noetl.engine import copies
from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.events import StepScheduled
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, control, history, retry
from noetl.usecases.results import collect
from noetl.usecases.retry import PlannedRetry, RetryRequest
from noetl.usecases.runtime import RuntimeLimits
from tests.effort import calls

ROOT = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: again, path: tests/again}\n"


class Again:
    """A playbook whose http tasks are counted by their url; those in `broken` fail."""

    def __init__(self, workflow: str, root: str = "", **more: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        self.broken: dict[str, str] = {}
        self.answers: dict[str, Json] = {}
        #: What answers the calls of each kind; a test may put something else there.
        self.answering: dict[str, Callable[[Call], Any]] = {"http": self._call}
        tools = {kind: partial(self._answer, kind) for kind in ("http", "postgres")}
        self.sim = Simulation(self.text(workflow, root), tools, **more)

    def text(self, workflow: str, root: str = "") -> str:
        return f"{ROOT}{root}\nworkflow:\n{workflow}"

    def _answer(self, kind: str, call: Call) -> Any:
        return self.answering[kind](call)

    def _call(self, call: Call) -> Any:
        url = str(call.config["url"])
        self.calls[url] += 1
        self.keys.append((url, call.idempotency_key))
        if url in self.broken:
            kind = self.broken[url]
            return failed(ErrorInfo(kind, f"{url} is broken", retryable=kind == "timeout"))
        return self.answers.get(url, {"url": url, "args": dict(call.args)})

    def register(self, workflow: str, root: str = "") -> int:
        return catalog.register(self.sim.rt, self.text(workflow, root), "test.yaml").version

    def run(self, payload: JsonMap | None = None, **overrides: Json) -> str:
        return self.sim.run(payload, **overrides).row.execution_id

    def plan(self, execution_id: str, **more: Any) -> PlannedRetry:
        return retry.plan(self.sim.rt, RetryRequest(execution_id, **more))

    def words(self, execution_id: str, **more: Any) -> dict[str, str]:
        return {run.step: run.verdict for run in self.plan(execution_id, **more).plan.runs}

    def retry(self, execution_id: str, **more: Any) -> str:
        self.calls.clear()
        row = retry.retry(self.sim.rt, RetryRequest(execution_id, **more))
        self.sim.settle()
        return row.execution_id

    def report(self, execution_id: str) -> Any:
        return self.sim.report(execution_id)


CHAIN = """
- step: start
  tool: {kind: http, url: a}
  next: second
- step: second
  tool: {kind: http, url: b, input: {from: "{{ start.url }}"}}
  set: {ctx.seen: "{{ result.url }}"}
  next: third
- step: third
  tool: {kind: http, url: c, input: {x: "{{ ctx.seen }}"}}
"""


def test_only_what_failed_and_what_follows_runs_again() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "server_error"}
    first = again.run()
    assert again.report(first).row.status == "failed"
    again.broken = {}
    assert again.words(first) == {"start": "reuse", "second": "rerun", "third": "new"}
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert again.calls == {"b": 1, "c": 1}
    assert again.report(second).result == {"url": "c", "args": {"x": "b"}}
    assert again.report(second).row.source_id == first
    assert {name: step.get("reused") for name, step in again.report(second).steps.items()} == {
        "start": 1,
        "second": None,
        "third": None,
    }


def test_unchanged_nothing_runs_and_all_is_equal() -> None:
    again = Again(CHAIN)
    first = again.run()
    assert set(again.words(first).values()) == {"reuse"}
    second = again.retry(first)
    assert again.calls == {}
    one, other = again.report(first), again.report(second)
    assert (one.result, one.ctx, one.row.status) == (other.result, other.ctx, other.row.status)
    assert list(other.steps) == list(one.steps)


def test_a_copy_says_where_it_comes_from() -> None:
    again = Again(CHAIN)
    first = again.run()
    events = again.sim.events(again.retry(first))
    origins = [event.draft.origin for event in events if event.fact.type in ("task.done", "step.done")]
    assert all(origin is not None and origin.startswith(f"{first}.") for origin in origins)


def test_a_changed_input_runs_what_reads_it_and_what_reads_that() -> None:
    steps = """
- step: start
  tool: {kind: http, url: "{{ workload.first }}"}
  next: second
- step: second
  tool: {kind: http, url: b, input: {n: "{{ workload.n }}"}}
  next: third
- step: third
  tool: {kind: http, url: c}
"""
    again = Again(steps, "workload: {first: a, n: 1}")
    first = again.run()
    planned = again.plan(first, overrides={"n": 2}).plan.runs
    assert {run.step: run.verdict for run in planned} == {
        "start": "reuse",
        "second": "rerun",
        "third": "rerun",
    }
    assert planned[1].reason == "workload.n changed from 1 to 2"
    assert planned[2].reason == "depends on second"
    again.retry(first, overrides={"n": 2})
    # What the third one reads has not changed.
    assert again.calls == {"b": 1}


def test_changed_code_runs_again() -> None:
    again = Again(CHAIN)
    first = again.run()
    version = again.register(CHAIN.replace("url: b", "url: B"))
    planned = {run.step: run for run in again.plan(first, version=version).plan.runs}
    assert (planned["second"].verdict, planned["second"].reason) == ("rerun", "its code changed")
    second = again.retry(first, version=version)
    assert again.calls == {"B": 1, "c": 1}
    assert again.report(second).ctx == {"seen": "B"}


LOOP = """
- step: start
  loop: {in: "{{ workload.items }}", iterator: item, mode: parallel}
  tool: {kind: http, url: "u{{ item }}"}
  next: end
- step: end
  tool: {kind: noop, input: {n: "{{ start.results | length }}"}}
"""


def test_a_failed_loop_of_1000_with_7_failures_runs_7() -> None:
    best = LOOP.replace(
        "mode: parallel",
        "mode: parallel, spec: {policy: {failure: {mode: best_effort, tolerate: {count: 0}}}}",
    )
    again = Again(best, f"workload: {{items: {list(range(1000))}}}")
    bad = {f"u{n}" for n in (3, 100, 250, 500, 501, 777, 999)}
    again.broken = dict.fromkeys(bad, "server_error")
    first = again.run()
    assert again.report(first).row.status == "failed"
    again.broken = {}
    planned = again.plan(first).plan.runs[0]
    assert (planned.verdict, planned.iterations) == ("rerun", {"reuse": 993, "rerun": 7})
    second = again.retry(first)
    assert again.calls == dict.fromkeys(bad, 1)
    report = again.report(second)
    assert report.row.status == "completed"
    assert [one["url"] for one in report.steps["start"]["result"]["results"]] == [
        f"u{n}" for n in range(1000)
    ]


def test_what_stands_is_copied_in_several_turns_and_in_the_same_order() -> None:
    steps = """
- step: start
  next: [left, right]
- step: left
  loop: {in: "{{ range(30) | list }}", iterator: item, mode: parallel}
  tool: {kind: http, url: "l{{ item }}"}
  set: {ctx.last: left}
  next: end
- step: right
  loop: {in: "{{ range(30) | list }}", iterator: item, mode: parallel}
  tool: {kind: http, url: "r{{ item }}"}
  set: {ctx.last: right}
  next: end
- step: end
  tool: {kind: http, url: "{{ ctx.last }}"}
"""
    again = Again(steps, limits=RuntimeLimits(slice_s=3600.0, turn_copies=7))
    first = again.run()
    second = again.retry(first)
    assert again.calls == {}
    assert again.report(second).row.status == "completed"
    assert again.report(second).ctx == again.report(first).ctx

    def order(execution_id: str) -> list[tuple[str | None, int | None]]:
        found = again.sim.events(execution_id)
        return [
            (one.draft.step, one.draft.iteration) for one in found if one.fact.type == "loop.iteration.done"
        ]

    assert order(first) == order(second)


def test_code_reads_what_it_is_given_and_not_its_own_names() -> None:
    steps = """
- {step: start, next: {arcs: [{step: sum, args: {y: 2}}]}}
- {step: sum, tool: {kind: python, code: "import os\\nown = y\\nresult = own + (x or 0)", input: {x: 1}}}
"""
    again = Again(steps)
    first = again.run()
    (recorded,) = (
        one.fact.reads
        for one in again.sim.events(first)
        if isinstance(one.fact, StepScheduled) and one.draft.step == "sum"
    )
    assert recorded == {"args.y": "2"}
    for args, reason in (
        ("{y: 2, x: 3}", "args.x changed from nothing to 3"),
        ("{}", "args.y changed from 2 to nothing"),
    ):
        version = again.register(steps.replace("{y: 2}", args))
        (run,) = (one for one in again.plan(first, version=version).plan.runs if one.step == "sum")
        assert (run.verdict, run.reason) == ("rerun", reason)


def test_items_are_matched_once_however_many_turns_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    items = list(range(40))
    again = Again(LOOP, f"workload: {{items: {items}}}", limits=RuntimeLimits(turn_copies=3))
    first = again.run()
    matched: list[Json] = []
    monkeypatch.setattr(copies, "fingerprint", lambda item, _: matched.append(item) or str(item))
    again.retry(first)
    assert again.calls == {}
    # Those there and those here: once for the plan, once for all turns.
    assert len(matched) <= 4 * len(items)


def test_items_are_matched_by_what_they_are() -> None:
    again = Again(LOOP, "workload: {items: [a, b, b, c]}")
    first = again.run()
    second = again.retry(first, overrides={"items": ["c", "x", "b", "a", "b", "b"]})
    assert again.calls == {"ux": 1, "ub": 1}
    results = again.report(second).steps["start"]["result"]["results"]
    assert [one["url"] for one in results] == ["uc", "ux", "ub", "ua", "ub", "ub"]


def test_by_index_where_the_index_is_read() -> None:
    again = Again(LOOP.replace("u{{ item }}", "u{{ item }}{{ loop_index }}"), "workload: {items: [a, b]}")
    first = again.run()
    again.retry(first, overrides={"items": ["b", "b"]})
    assert again.calls == {"ub0": 1}


def test_finished_tasks_of_a_failed_run_stand() -> None:
    steps = """
- step: start
  tool:
    - {name: one, kind: http, url: a, set: {ctx.one: "{{ result.url }}", mine: 5}}
    - {name: two, kind: http, url: b, input: {mine: "{{ mine }}", one: "{{ one.url }}"}}
    - {name: three, kind: http, url: c}
"""
    again = Again(steps)
    again.broken = {"b": "server_error"}
    first = again.run()
    again.broken = {}
    again.answers = {"b": "done"}
    second = again.retry(first)
    assert again.calls == {"b": 1, "c": 1}
    assert again.report(second).ctx == {"one": "a"}
    assert again.report(second).row.status == "completed"


def test_from_runs_a_step_and_what_its_tokens_led_to_whatever_is_equal() -> None:
    again = Again(CHAIN)
    first = again.run()
    planned = {run.step: run for run in again.plan(first, from_step="second").plan.runs}
    assert {name: run.verdict for name, run in planned.items()} == {
        "start": "reuse",
        "second": "rerun",
        "third": "rerun",
    }
    assert planned["second"].reason == "asked for"
    again.retry(first, from_step="second")
    assert again.calls == {"b": 1, "c": 1}


CYCLE = """
- step: start
  tool: {kind: http, url: "r{{ ctx.n | default(0) }}"}
  set: {ctx.n: "{{ ctx.n | default(0) | int + 1 }}"}
  next: {spec: {mode: exclusive}, arcs: [{step: start, when: "{{ ctx.n < 4 }}"}, {step: done}]}
- step: done
  tool: {kind: http, url: d}
"""


LOOPS = """
- step: start
  tool: {kind: http, url: first}
  next: loop
- step: loop
  loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, policy: {failure: {mode: best_effort, tolerate: {count: 0}}}}}
  tool: {kind: http, url: "{{ iter.n }}"}
"""


@pytest.mark.parametrize("from_step", ["start", "loop", "loop#1"])
def test_failed_iterations_of_what_from_runs_again_whole_are_a_contradiction(from_step: str) -> None:
    again = Again(LOOPS)
    again.broken = {"1": "server_error"}
    first = again.run()
    again.broken = {}
    with pytest.raises(BadRequest, match=rf"`from` {from_step} runs every iteration of 'loop' again"):
        again.plan(first, from_step=from_step, iterations="failed")

    again.retry(first, from_step=from_step, iterations="all")
    assert sum(again.calls[url] for url in "012") == 3
    again.retry(first, iterations="failed")
    assert again.calls == {"1": 1}


def test_failed_iterations_of_a_loop_beside_what_from_runs_again_stand() -> None:
    again = Again("""
- step: start
  tool: {kind: noop}
  next: [loop, side]
- step: loop
  loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, policy: {failure: {mode: best_effort, tolerate: {count: 0}}}}}
  tool: {kind: http, url: "{{ iter.n }}"}
- step: side
  tool: {kind: http, url: side}
""")
    again.broken = {"1": "server_error"}
    first = again.run()
    again.broken = {}
    again.retry(first, from_step="side", iterations="failed")
    assert again.calls == {"1": 1, "side": 1}


def test_rounds_of_a_cycle_are_matched_one_by_one() -> None:
    again = Again(CYCLE)
    again.broken = {"r2": "server_error"}
    first = again.run()
    again.broken = {}
    again.retry(first)
    assert again.calls == {"r2": 1, "r3": 1, "d": 1}


def test_from_the_third_round_of_a_cycle() -> None:
    again = Again(CYCLE)
    first = again.run()
    again.retry(first, from_step="start#3")
    assert again.calls == {"r2": 1, "r3": 1, "d": 1}


def test_the_key_of_a_call_whose_outcome_is_unknown_is_kept() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "timeout"}
    first = again.run()
    key = dict(again.keys)["b"]
    again.broken = {}
    again.keys.clear()
    again.retry(first)
    assert dict(again.keys)["b"] == key


def test_a_definite_answer_brings_a_new_key() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "client_error"}
    first = again.run()
    key = dict(again.keys)["b"]
    again.broken = {}
    again.retry(first)
    assert dict(again.keys)["b"] != key


def test_a_changed_request_brings_a_new_key() -> None:
    again = Again(CHAIN.replace("{from:", '{n: "{{ workload.n }}", from:'), "workload: {n: 1}")
    again.broken = {"b": "timeout"}
    first = again.run()
    key = dict(again.keys)["b"]
    again.broken = {}
    again.retry(first, overrides={"n": 2})
    assert dict(again.keys)["b"] != key


def test_a_key_is_kept_through_several_retries() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "timeout"}
    first = again.run()
    key = dict(again.keys)["b"]
    second = again.retry(first)
    assert again.report(second).row.status == "failed"
    again.broken = {}
    again.retry(second)
    assert dict(again.keys)["b"] == key


def test_instants_and_the_id_count_as_unchanged() -> None:
    root = 'workload: {at: "{{ now() }}", name: "run {{ execution_id }}"}'
    steps = """
- step: start
  tool: {kind: http, url: a, input: {at: "{{ workload.at }}", name: "{{ workload.name }}"}}
  set: {ctx.later: "{{ now() }}"}
  next: second
- step: second
  tool: {kind: http, url: "{{ ctx.later }}"}
"""
    again = Again(steps, root)
    again.sim.pass_time(365 * 86_400)
    first = again.run()
    again.sim.pass_time(3600)
    again.retry(first)
    assert again.calls == {}


@pytest.mark.parametrize("turn", [True, False])
def test_a_first_join_is_won_by_the_same_branch(turn: bool) -> None:
    steps = """
- step: start
  next: [slow, fast]
- step: slow
  tool: {kind: http, url: slow}
  set: {ctx.last: slow}
  next: {spec: {mode: exclusive}, arcs: [{step: meet, args: {who: slow}}]}
- step: fast
  tool: {kind: http, url: fast}
  set: {ctx.last: fast}
  next: {spec: {mode: exclusive}, arcs: [{step: meet, args: {who: fast}}]}
- step: meet
  spec: {join: first}
  tool: {kind: http, url: "meet {{ who }}"}
"""
    again = Again(steps)
    first = again.sim.start()
    again.sim.deliver()
    # The message of the second branch overtakes that of the first.
    again.sim.deliver(1)
    if turn:
        again.sim.deliver(1)
    again.sim.settle()
    assert again.calls["meet fast"] == 1
    assert again.report(first).ctx == {"last": "slow" if turn else "fast"}
    second = again.retry(first)
    assert again.calls == {}
    assert again.report(first).ctx == again.report(second).ctx


LARGE = """
- step: start
  tool: {kind: http, url: big SPEC}
  next: end
- step: end
  tool: {kind: http, url: "{{ start.n }}"}
"""


def _large(again: Again) -> Again:
    again.answers = {"big": {"n": 7, "text": "x" * 100_000}}
    return again


def test_a_result_that_is_kept_by_reference_is_shared() -> None:
    again = _large(Again(LARGE.replace(" SPEC", "")))
    again.broken = {"7": "server_error"}
    first = again.run()
    again.broken = {}
    second = again.retry(first)
    assert again.calls == {"7": 1}
    one, other = (again.sim.report(run) for run in (first, second))
    assert other.steps["start"]["result"] == one.steps["start"]["result"]


def test_what_was_collected_runs_again_and_the_plan_says_so() -> None:
    again = _large(Again(LARGE.replace(" SPEC", ", spec: {result: {scope: step}}")))
    again.broken = {"7": "server_error"}
    first = again.run()
    assert again.words(first)["start"] == "reuse"
    collect(again.sim.rt, again.sim.now)
    assert again.plan(first).plan.runs[0].reason == "its result was collected"
    again.broken = {}
    again.retry(first)
    assert again.calls == {"big": 1, "7": 1}


def test_results_live_while_an_execution_of_the_lineage_names_them() -> None:
    limits = RuntimeLimits(slice_s=3600.0, results_keep_s=100.0)
    again = _large(Again(LARGE.replace(" SPEC", ""), limits=limits))
    first = again.run()
    again.sim.pass_time(90)
    second = again.retry(first)
    again.sim.pass_time(90)
    assert collect(again.sim.rt, again.sim.now).removed == ()
    assert again.report(second).steps["start"]["result"]["n"] == 7
    again.sim.pass_time(11)
    assert collect(again.sim.rt, again.sim.now).removed == (f"executions/{first}",)


def test_one_open_retry_of_an_execution() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "server_error"}
    first = again.run()
    row = retry.retry(again.sim.rt, RetryRequest(first))
    with pytest.raises(Conflict, match=f"is being retried by {row.execution_id}"):
        retry.retry(again.sim.rt, RetryRequest(first))
    again.sim.settle()
    assert again.retry(first)


def test_what_still_runs_is_not_retried() -> None:
    again = Again(CHAIN)
    running = again.sim.start()
    with pytest.raises(Conflict, match="is pending: a retry begins where it has ended"):
        again.plan(running)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"version": 9}, NotFound, "has no version 9"),
        ({"from_step": "thrid"}, BadRequest, "Did you mean 'third'"),
        ({"from_step": "start#4"}, BadRequest, "ran 1 times"),
        ({"path": "tests/other"}, BadRequest, "is another one"),
        ({"overrides": {"nothing": 1}}, BadRequest, "to set"),
    ],
)
def test_a_retry_that_does_not_fit_is_answered(more: JsonMap, error: type[Exception], words: str) -> None:
    again = Again(CHAIN)
    first = again.run()
    with pytest.raises(error, match=words):
        again.plan(first, **more)


def test_a_playbook_with_none_of_the_steps_is_refused() -> None:
    again = Again(CHAIN)
    first = again.run()
    version = again.register("- step: other\n  tool: {kind: http, url: a}\n")
    with pytest.raises(BadRequest, match="none of the steps"):
        again.plan(first, version=version)


def test_effects_that_would_happen_again_are_confirmed() -> None:
    kinds = {**KINDS, "http": KindInfo("http", queue="http", effects="external")}
    again = Again(CHAIN, kinds=kinds)
    again.broken = {"c": "client_error"}
    first = again.run()
    with pytest.raises(Conflict, match="task_0 of step 'second'"):
        again.retry(first, from_step="second")
    # One that failed for certain had no effect.
    again.broken = {}
    assert again.retry(first)
    assert again.calls == {"c": 1}


def test_a_failed_child_is_retried_and_linked() -> None:
    child = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: tests/child}\nworkload: {n: 0}\n"
        "workflow:\n- step: start\n  tool: {kind: http, url: x}\n  next: more\n"
        "- step: more\n  tool: {kind: http, url: y}\n"
    )
    caller = "- step: start\n  tool: {kind: http, url: a}\n  next: call\n- step: call\n  tool: {kind: playbook, path: tests/child}\n"
    again = Again(caller)
    catalog.register(again.sim.rt, child, "child.yaml")
    again.broken = {"y": "server_error"}
    first = again.run()
    (failed_child,) = again.report(first).children
    again.broken = {}
    second = again.retry(first)
    assert again.calls == {"y": 1}
    (new_child,) = again.report(second).children
    assert again.report(new_child["execution_id"]).row.source_id == failed_child["execution_id"]
    assert again.report(second).row.status == "completed"


def test_a_child_that_went_well_is_not_called_again() -> None:
    child = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: tests/child}\nworkflow:\n- step: start\n  tool: {kind: http, url: x}\n"
    caller = "- step: start\n  tool: {kind: playbook, path: tests/child}\n  next: more\n- step: more\n  tool: {kind: http, url: y}\n"
    again = Again(caller)
    catalog.register(again.sim.rt, child, "child.yaml")
    again.broken = {"y": "server_error"}
    first = again.run()
    again.broken = {}
    again.retry(first)
    assert again.calls == {"y": 1}
    # Another version of it is another call.
    again.broken = {"y": "server_error"}
    first = again.run()
    catalog.register(again.sim.rt, child.replace("url: x", "url: z"), "child.yaml")
    again.broken = {}
    assert {run.step: run.reason for run in again.plan(first).plan.runs}[
        "start"
    ] == "playbook 'tests/child' changed"
    again.retry(first, confirmed=True)
    assert again.calls["z"] == 1


CURSOR = """
- step: start
  loop:
    cursor: {kind: postgres, claim: claim}
    iterator: row
    spec: {mode: parallel, max_in_flight: 3, policy: {failure: {mode: best_effort, tolerate: {count: 0}}}}
  tool: {kind: http, url: "u{{ row.id }}"}
  next: end
- step: end
  tool: {kind: noop, input: {n: "{{ start.stats.completed }}"}}
"""


def test_rows_of_a_cursor_are_those_that_were_claimed_then() -> None:
    again = Again(CURSOR)
    left = [{"id": number} for number in range(10)]

    def claim(_: Call) -> Json:
        rows = [left.pop(0) for _ in range(min(3, len(left)))]
        return {"rows": rows, "row_count": len(rows), "columns": ["id"]}

    again.answering["postgres"] = claim
    again.broken = {"u2": "server_error", "u7": "timeout"}
    first = again.run()
    assert again.report(first).row.status == "failed"
    assert left == []
    again.broken = {}
    # A row that has come since is worked on as well.
    left.append({"id": 99})
    second = again.retry(first)
    assert again.calls == {"u2": 1, "u7": 1, "u99": 1}
    assert again.report(second).result == {"n": 11}


class Ledger:
    """A table of rows that are claimed one at a time; a claim is answered twice under one key, as
    `exactly_once` does. The answer of claim number `lost` gets lost."""

    def __init__(self, rows: int) -> None:
        self.left = list(range(rows))
        self.answers: dict[str, list[int]] = {}
        self.lost = -1

    def __call__(self, call: Call) -> Json:
        known = self.answers.setdefault(call.idempotency_key, self.left[:1])
        self.left = [one for one in self.left if one not in known]
        if len(self.answers) - 1 == self.lost:
            raise Died
        return {"rows": [{"id": one} for one in known], "row_count": len(known), "columns": ["id"]}


class Died(BaseException):
    """The worker's process is gone."""


@pytest.mark.parametrize("lost", [0, 2])
def test_rows_of_a_claim_that_nobody_heard_of_are_heard_of_by_the_retry(lost: int) -> None:
    """Also by a retry of the retry, where the first of them died in the same way."""
    again, ledger = Again(CURSOR.replace("max_in_flight: 3", "max_in_flight: 1")), Ledger(4)
    again.answering["postgres"] = ledger
    ledger.lost = lost
    executions = [again.sim.start()]
    for _ in range(2):
        with pytest.raises(Died):
            again.sim.settle()
        control.cancel(again.sim.rt, executions[-1], grace_s=0)
        again.sim.mailbox.messages.clear()
        again.sim.pass_time(60)
        again.sim.settle()
        executions.append(
            retry.retry(again.sim.rt, RetryRequest(executions[-1], confirmed=True)).execution_id
        )
    ledger.lost = -1
    again.sim.settle()
    report = again.sim.report(executions[-1])
    assert (report.row.status, report.result) == ("completed", {"n": 4})
    assert again.calls == {f"u{n}": 1 for n in range(4)}


def test_a_late_result_goes_to_the_source_alone_and_both_calls_have_one_key() -> None:
    again = Again("- step: start\n  tool: {kind: http, url: pay, effects: external}\n")
    first, second = again.sim.start(), ""

    def overtaken(call: Call) -> Json:
        nonlocal second
        again.keys.append(("pay", call.idempotency_key))
        if second:
            return "in time"
        control.cancel(again.sim.rt, first, grace_s=0)
        again.sim.pass_time(1)
        again.sim.settle()
        second = retry.retry(again.sim.rt, RetryRequest(first, confirmed=True)).execution_id
        again.sim.settle()
        return "late"

    again.answering["http"] = overtaken
    again.sim.settle()
    assert again.report(first).row.status == "cancelled"
    assert again.sim.types(first)[-1] == "result.discarded"
    assert again.report(second).result == "in time"
    assert len({key for _, key in again.keys}) == 1


@pytest.mark.parametrize("loop", ["", "  loop: {in: [1], iterator: item, mode: parallel}\n"])
def test_a_key_is_kept_from_retry_to_retry_as_long_as_nobody_hears_of_the_call(loop: str) -> None:
    again = Again(f"- step: start\n{loop}  tool: {{kind: http, url: pay, effects: external}}\n")
    alive = again.answering["http"]

    def die(call: Call) -> Json:
        alive(call)
        raise Died

    again.answering["http"] = die
    last = again.sim.start()
    for _ in range(3):
        with pytest.raises(Died):
            again.sim.settle()
        control.cancel(again.sim.rt, last, grace_s=0)
        again.sim.mailbox.messages.clear()
        again.sim.pass_time(60)
        again.sim.settle()
        last = retry.retry(again.sim.rt, RetryRequest(last, confirmed=True)).execution_id
    again.answering["http"] = alive
    again.sim.settle()
    assert again.report(last).row.status == "completed"
    assert len(again.keys) == 4
    assert len({key for _, key in again.keys}) == 1


def test_a_plan_counts_iterations_that_never_began_and_those_whose_items_are_gone() -> None:
    again = Again(LOOP.replace("mode: parallel", "mode: sequential"), "workload: {items: [1, 2, 3, 4, 5]}")
    again.broken = {"u3": "server_error"}
    first = again.run()
    assert again.plan(first).plan.runs[0].iterations == {"reuse": 2, "rerun": 1, "new": 2}
    fewer = again.plan(first, overrides={"items": [3, 2, 9]}).plan.runs[0].iterations
    assert fewer == {"reuse": 1, "rerun": 1, "new": 1, "dropped": 1}


def test_an_iteration_whose_playbook_is_another_one_today_runs_again() -> None:
    child = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: tests/child}\nworkflow:\n"
        "- step: start\n  tool: {kind: http, url: x}\n"
    )
    steps = (
        "- step: start\n  loop: {in: [1, 2], iterator: item, mode: parallel}\n"
        '  tool: {kind: playbook, path: tests/child, input: {item: "{{ item }}"}}\n'
    )
    again = Again(steps)
    catalog.register(again.sim.rt, child, "child.yaml")
    first = again.run()
    assert again.words(first) == {"start": "reuse"}
    catalog.register(again.sim.rt, child.replace("url: x", "url: z"), "child.yaml")
    assert again.plan(first).plan.runs[0].iterations == {"reuse": 0, "rerun": 2}
    again.retry(first, confirmed=True)
    assert again.calls == {"z": 2}


def test_twice_as_many_rounds_are_matched_in_twice_the_work() -> None:
    taken = []
    for rounds in (20, 40):
        again = Again(CYCLE.replace("ctx.n < 4", f"ctx.n < {rounds}"))
        first = again.run()
        assert again.plan(first).plan.count("reuse") == rounds + 1
        taken.append(calls(lambda again=again, first=first: again.plan(first)))
    assert taken[1] < 2.2 * taken[0]


def test_explain_says_what_stands_and_why_the_rest_ran() -> None:
    again = Again(CHAIN)
    again.broken = {"b": "server_error"}
    first = again.run()
    again.broken = {}
    second = again.retry(first)
    steps = {step.step: step for step in history.explain(again.sim.rt, second).steps}
    told = {name: step.runs[0].reuse for name, step in steps.items()}
    assert told == {
        "start": f"reused from run start#1 of execution {first}: 1 result of a task",
        "second": f"run second#1 of execution {first} is not reused: it failed: b is broken",
        "third": f"no run of execution {first} is reused: it did not run so often",
    }


def test_an_execution_without_digests_is_matched_by_name_and_order(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again(CYCLE)
    again.broken = {"r2": "server_error"}
    with monkeypatch.context() as older:
        older.setattr("noetl.engine.firing._compare", lambda *_: {})
        first = again.run()
    again.broken = {}
    planned = again.plan(first).plan.runs
    assert [(run.step, run.verdict) for run in planned] == [
        ("start", "reuse"),
        ("start", "reuse"),
        ("start", "rerun"),
        ("done", "new"),
    ]
    assert planned[0].reason == "matched by name and order: no digests were recorded"
    again.retry(first)
    assert again.calls == {"r2": 1, "r3": 1, "d": 1}
    # Code is known by the nets of both.
    version = again.register(CYCLE.replace('kind: http, url: "r', 'kind: http, method: POST, url: "r'))
    assert again.plan(first, version=version).plan.runs[0].reason == "its code changed"
