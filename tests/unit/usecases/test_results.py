"""Results that are kept by reference: how long, which parts of them are at hand, and who fetches
them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from playbooks import lone, playbook

from noetl.facts.events import StepDone, TaskDone
from noetl.facts.json import Json
from noetl.facts.reference import MANIFEST, Retention, is_reference
from noetl.pipeline.model import Call
from noetl.testing import KINDS, Simulation
from noetl.usecases import large_values
from noetl.usecases.inspect import Report
from noetl.usecases.results import owner_of
from noetl.usecases.runtime import RuntimeLimits

SMALL = RuntimeLimits(inline_bytes=300, slice_s=3600.0)


class Watch:
    """Counts what a simulation puts into its result store and fetches from it."""

    def __init__(self, sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
        self.put: list[Json] = []
        self.loaded: list[str] = []
        results = sim.rt.results
        put, load = results.put, results.load

        def watched_put(value: Json, keep: Any) -> Any:
            self.put.append(value)
            return put(value, keep)

        def watched_load(reference: Mapping[str, Json], /) -> Json:
            self.loaded.append(str(reference.get("ref", MANIFEST)))
            return load(reference)

        monkeypatch.setattr(results, "put", watched_put)
        monkeypatch.setattr(results, "load", watched_load)


def result_of(sim: Simulation, report: Report, task: str) -> Json:
    facts = (event.fact for event in sim.events(report.row.execution_id))
    return next(fact.result for fact in facts if isinstance(fact, TaskDone) and fact.task == task)


def get(more: str, code: str = "result = {'rows': [{'id': 7, 'pad': 'x' * 400}], 'total': 1}") -> str:
    return f'{{name: get, kind: python, code: "{code}", {more}}}'


def read(task: str, **values: str) -> str:
    inputs = ", ".join(f'{name}: "{{{{ {value} }}}}"' for name, value in values.items())
    return lone(f"tool:\n- {task}\n- {{name: end, kind: noop, input: {{{inputs}}}}}")


# --- select --------------------------------------------------------------------------------------


def test_selected_parts_are_read_without_a_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    task = get("output_select: ['$.rows[0].id', {path: total, as: many}]")
    sim = Simulation(read(task, id="get.rows[0].id", n="get.many"), limits=SMALL)
    watch = Watch(sim, monkeypatch)
    report = sim.run()
    assert report.result == {"id": 7, "n": 1}
    assert result_of(sim, report, "get")["extracted"] == {"rows[0].id": 7, "many": 1}
    assert watch.loaded == []


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_an_alias_reads_the_same_at_every_size(inline: int) -> None:
    task = get(
        "spec: {result: {select: [{path: rows, as: r}, {path: gone, as: g}, total]}}",
        "result = {'rows': [1]}",
    )
    playbook = read(
        task, r="get.r", g="get.g", defined="get.g is defined", gone="get.total", row="get.rows[0]"
    )
    report = Simulation(playbook, limits=RuntimeLimits(inline_bytes=inline)).run()
    assert report.result == {"r": [1], "g": None, "defined": True, "gone": None, "row": 1}


def test_a_path_alone_does_not_make_a_small_result_a_reference() -> None:
    sim = Simulation(read(get("output_select: [total]", "result = {'total': 1}"), n="get.total"))
    report = sim.run()
    assert result_of(sim, report, "get") == {"total": 1}


def test_a_part_that_is_too_large_fails_the_task_and_says_which() -> None:
    report = Simulation(
        read(get("output_select: [rows]", "result = {'rows': ['x' * 5000]}"), n="get.total"), limits=SMALL
    ).run()
    assert report.error is not None
    assert (report.error["kind"], report.error["task"]) == ("limit", "get")
    assert "'rows', which spec.result.select names, has 5,0" in report.error["message"]


def test_policies_read_what_was_selected_and_the_rest_by_a_fetch() -> None:
    rules = (
        'policy: {rules: [{when: "{{ result.many == 1 and result.rows[0].id == 7 }}", then: {do: '
        'continue, set: {ctx.seen: "{{ outcome.result.many }}"}}}, {else: {then: {do: fail}}}]}'
    )
    task = get(
        f'output_select: [{{path: total, as: many}}], spec: {{{rules}}}, set: {{ctx.id: "{{{{ '
        f'output.rows[0].id }}}}"}}'
    )
    report = Simulation(read(task, n="get.many"), limits=SMALL).run()
    assert (report.row.status, report.ctx) == ("completed", {"seen": 1, "id": 7})


# --- how it is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("{inline_bytes: 10}", True),
        ("{inline: 10}", True),
        ("{inline: 10, inline_bytes: 100}", False),
        ("{inline_bytes: 100}", False),
        ("{}", True),
    ],
)
def test_a_task_may_say_what_the_log_holds_of_it(spec: str, kept: bool) -> None:
    sim = Simulation(
        read(get(f"spec: {{result: {spec}}}", "result = 'x' * 60"), n="get | length"),
        limits=RuntimeLimits(inline_bytes=50),
    )
    report = sim.run()
    assert is_reference(result_of(sim, report, "get")) is kept
    assert report.result == {"n": 60}


def test_the_inner_spec_wins_key_by_key() -> None:
    body = """
        - step: start
          spec: {result: {inline_bytes: 5, scope: permanent}}
          tool: {name: get, kind: python, code: "result = 'x' * 60", spec: {result: {ttl: 1h}}}
    """
    sim = Simulation(playbook(body, "executor: {spec: {result: {scope: step, inline_bytes: 1000}}}"))
    found = result_of(sim, sim.run(), "get")
    assert (found["scope"], found["expires_at"]) == ("permanent", "2026-01-01T01:00:00+00:00")


def test_a_result_whose_time_is_over_fails_what_looks_into_it_and_says_so() -> None:
    body = """
        - step: start
          tool: {name: get, kind: python, code: "result = 'x' * 60", spec: {result: {ttl: 10, inline: 0}}}
          next: wait
        - step: wait
          tool: {kind: noop, spec: {policy: {rules: [{when: "{{ _attempt < 2 }}", then: {do: retry, delay: 60}}]}}}
          next: end
        - step: end
          tool: {kind: noop, input: {n: "{{ start | length }}"}}
    """
    report = Simulation(playbook(body)).run()
    assert report.error is not None
    assert report.error["step"] == "end"
    assert "has expired: its ttl ended at 2026-01-01T00:00:10" in report.error["message"]


def test_a_guard_over_a_result_whose_time_is_over_fails_its_step() -> None:
    body = """
        - step: start
          tool:
          - {name: get, kind: python, code: "result = 'x' * 60", spec: {result: {ttl: 10, inline: 0}}}
          - {kind: noop, spec: {policy: {rules: [{when: "{{ _attempt < 2 }}", then: {do: retry, delay: 60}}]}}}
          next: {arcs: [{step: end, when: "{{ start.results.get | length > 3 }}"}]}
        - step: end
    """
    report = Simulation(playbook(body)).run()
    assert report.error is not None
    assert (report.error["step"], report.error["kind"]) == ("start", "template")
    assert "has expired" in report.error["message"]


def test_a_large_result_is_put_once_and_what_comes_after_sees_the_reference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = get('set: {copy: "{{ result }}", ctx.all: "{{ output }}", ctx.id: "{{ result.rows[0].id }}"}')
    sim = Simulation(read(task, c="copy.total", t="_prev.total"), limits=SMALL)
    watch = Watch(sim, monkeypatch)
    report = sim.run()
    assert len(watch.put) == 1
    assert report.result == {"c": 1, "t": 1}
    assert report.ctx["id"] == 7


def test_a_result_with_references_inside_is_kept_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Json] = {"row_count": 1000}
    task = "{name: get, kind: postgres}"
    sim = Simulation(
        read(task, n="get.rows | length", c="get.row_count", last="get.rows[-1]"),
        {"postgres": lambda _: answer},
        limits=RuntimeLimits(inline_bytes=2000),
    )
    answer["rows"] = sim.rt.results.put(list(range(1000)), Retention("1"))
    watch = Watch(sim, monkeypatch)
    report = sim.run()
    assert watch.put == []
    assert result_of(sim, report, "get") == answer
    assert report.result == {"n": 1000, "c": 1000, "last": 999}


# --- tools that take references ------------------------------------------------------------------


def test_a_tool_gets_what_it_takes_by_reference_unopened(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Call] = []
    kind = replace(KINDS["duckdb"], by_reference=("rows", "*"))
    monkeypatch.setitem(KINDS, "duckdb", kind)
    body = f"""
        tool:
        - {get("spec: {result: {inline: 0}}")}
        - {{kind: duckdb, rows: "{{{{ get.rows }}}}", all: ["{{{{ get }}}}"], other: "{{{{ get.rows }}}}", input: {{a: "{{{{ get }}}}", n: "{{{{ get.total }}}}"}}}}
    """
    sim = Simulation(lone(body), {"duckdb": seen.append})
    sim.run()
    (call,) = seen
    whole = {"rows": [{"id": 7, "pad": "x" * 400}], "total": 1}
    assert is_reference(call.args["a"])
    assert call.args["n"] == 1
    assert (call.config["all"], call.config["other"]) == ([whole], whole["rows"])
    assert call.config["rows"] == whole["rows"]


# --- inputs of python ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "fetched"),
    [
        ("result = small", False),
        ("def main(small):\\n    return small", False),
        ("result = big['total']", True),
        ("result = len(args)", True),
        ("result = input_data['big']['total']", True),
        ("result = context['args']['big']['total']", True),
        ("result = globals()['big']['total']", True),
        ("def main(**kwargs):\\n    return kwargs['big']['total']", True),
        ("def main(big):\\n    return big['total']", True),
        ("main = lambda big: big['total']", True),
        ("def f():\\n    return big['total']\\nresult = f()", True),
        ("result = f'{big}'", True),
    ],
)
def test_an_input_that_code_cannot_read_is_not_fetched(
    code: str, fetched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = f"""
        - {{step: start, tool: {get("spec: {result: {inline: 0}}")}, next: end}}
        - {{step: end, tool: {{kind: python, code: "{code}", input: {{big: "{{{{ start }}}}", small: 1}}}}}}
    """
    sim = Simulation(playbook(body))
    watch = Watch(sim, monkeypatch)
    sim.start()
    sim.settle()
    assert bool(watch.loaded) is fetched
    assert ("big" in sim.tools.calls[-1].args) is fetched


# --- loops ---------------------------------------------------------------------------------------


def paged_loop(count: int, limits: RuntimeLimits, after: str = "", spec: str = "") -> tuple[Simulation, str]:
    body = f"""
        - step: each
          loop: {{in: "{{{{ range({count}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 3{spec}}}}}
          tool: {{kind: python, code: "result = {{'n': n, 'pad': 'x' * 40}} if n != 13 else 1 / 0", input: {{n: "{{{{ n }}}}"}}}}
          next: end
        - step: end
          tool: {{kind: noop, input: {{{after}}}}}
    """
    sim = Simulation(playbook(body), limits=limits)
    execution_id = sim.start()
    return sim, execution_id


def test_the_results_of_a_large_loop_are_pages_of_which_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RuntimeLimits(inline_bytes=3000, page_bytes=1000, slice_s=3600)
    sim, execution_id = paged_loop(
        100,
        limits,
        'n: "{{ each.stats.failed }}", at: "{{ each.results[70].n }}", why: "{{ each.errors[13].type }}"',
        ", policy: {failure: {mode: best_effort}}",
    )
    watch = Watch(sim, monkeypatch)
    sim.settle()
    report = sim.report(execution_id)
    assert report.result == {"n": 1, "at": 70, "why": "ZeroDivisionError"}
    done = next(e.fact for e in sim.events(execution_id) if isinstance(e.fact, StepDone))
    assert done.result["stats"] == {"total": 100, "completed": 99, "failed": 1}
    assert is_reference(done.result["results"])
    assert max(len(page) for page in watch.put) < 30


def test_stats_of_a_large_loop_need_no_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, execution_id = paged_loop(
        10, RuntimeLimits(inline_bytes=300, slice_s=3600), 'n: "{{ each.stats.total }}"'
    )
    watch = Watch(sim, monkeypatch)
    sim.settle()
    pages = [ref for ref in watch.loaded if ref != MANIFEST]
    # The collection of the loop is all that anybody fetched.
    assert len(set(pages)) <= 1
    assert sim.report(execution_id).result == {"n": 10}


def test_the_results_of_a_small_loop_are_not_written_again() -> None:
    sim, execution_id = paged_loop(10, RuntimeLimits(slice_s=3600))
    sim.settle()
    done = next(e.fact for e in sim.events(execution_id) if isinstance(e.fact, StepDone))
    assert done.result is None


def test_items_that_are_references_are_never_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = RuntimeLimits(inline_bytes=300, page_bytes=100_000, slice_s=3600)
    body = """
        - step: each
          loop: {in: [0, 1, 2], iterator: n}
          tool: {kind: python, code: "result = {'n': n, 'pad': 'x' * 4000}", input: {n: "{{ n }}"}}
          next: end
        - step: end
          tool: {kind: noop, input: {n: "{{ each.results[1].n }}"}}
    """
    sim = Simulation(playbook(body), limits=limits)
    watch = Watch(sim, monkeypatch)
    sim.start()
    sim.settle()
    pages = [value for value in watch.put if isinstance(value, list)]
    assert [all(is_reference(item) for item in page) for page in pages] == [True]
    # The manifest, its page, and the one item.
    assert len({ref for ref in watch.loaded if ref != MANIFEST}) <= 3


def test_a_loop_over_a_list_that_is_kept_stays_with_that_list(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""
        - {{step: start, tool: {get("spec: {result: {inline: 0}}", "result = [{'id': i} for i in range(5)]")}, next: end}}
        - step: end
          loop: {{in: "{{{{ start }}}}", iterator: row, spec: {{mode: parallel}}}}
          tool: {{kind: python, code: "result = id", input: {{id: "{{{{ row.id }}}}"}}}}
    """
    sim = Simulation(playbook(body))
    watch = Watch(sim, monkeypatch)
    report = sim.run()
    assert report.result["results"] == [0, 1, 2, 3, 4]
    assert len(watch.put) == 1


# --- questions -----------------------------------------------------------------------------------


def test_what_is_shown_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sim, execution_id = paged_loop(
        12, RuntimeLimits(inline_bytes=200, page_bytes=300, slice_s=3600), 'all: "{{ each.results }}"'
    )
    sim.settle()
    whole = sim.report(execution_id)
    assert [item["n"] for item in whole.steps["each"]["result"]["results"]] == list(range(12))
    assert whole.result["all"] == whole.steps["each"]["result"]["results"]
    watch = Watch(sim, monkeypatch)
    monkeypatch.setattr(large_values, "SHOWN_BYTES", 1400)
    shown = sim.report(execution_id)
    assert is_reference(shown.steps["each"]["result"]["results"]) or is_reference(shown.result["all"])
    assert len(watch.loaded) < 12


@pytest.mark.parametrize(
    ("ref", "owner"),
    [
        ("noetl://results/executions/7/ab.json", "7"),
        ("noetl://results/running/7/ab.json", "7"),
        ("noetl://results/until/490000/ab.json", None),
        ("noetl://results/permanent/ab.json", None),
        ("noetl://results/ab.json", None),
        ("noetl://results/executions/7", None),
        ("noetl://results/executions/7/../8/ab.json", None),
        ("noetl://results/executions//ab.json", None),
        ("noetl://results//executions/7/ab.json", None),
    ],
)
def test_a_result_belongs_to_the_execution_that_it_is_kept_for(ref: str, owner: str | None) -> None:
    assert owner_of(ref) == owner
