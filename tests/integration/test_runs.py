"""What people write in playbooks, run for real: values, names, python, results of any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases import inspect
from noetl.usecases.runtime import Runtime

Run = Callable[..., dict[str, Any]]
Result = Callable[..., Any]


# --- names and values ----------------------------------------------------------------------------


def test_bare_names_are_workload_keys_and_keep_their_types(result: Result) -> None:
    body = """
    workload: {city: Oslo, limit: 3, ratio: 0.5, on_duty: true, nothing: null, tags: [a, b], nested: {deep: {x: 7}}}
    workflow:
      - step: start
        tool:
          kind: python
          input:
            city: "{{ city }}"
            limit: "{{ limit }}"
            ratio: "{{ workload.ratio }}"
            on_duty: "{{ on_duty }}"
            nothing: "{{ nothing }}"
            tags: "{{ tags }}"
            nested: "{{ nested }}"
            x: "{{ nested.deep.x }}"
            text: "{{ city }}-{{ limit }}-{{ on_duty }}-{{ nothing }}-{{ tags }}"
          code: |
            result = [city, limit + 1, ratio * 2, on_duty is True, nothing is None, tags + ["c"], nested, x, text]
    """
    nested = {"deep": {"x": 7}}
    expected = ["Oslo", 4, 1.0, True, True, ["a", "b", "c"], nested, 7, 'Oslo-3-true--["a", "b"]']
    assert result(body) == expected


def test_payload_is_merged_deeply_and_overrides_win(result: Result) -> None:
    body = """
    workload: {db: {host: a, port: 1}, name: x, other: 1}
    workflow:
      - {step: start, tool: {kind: noop, input: {db: "{{ db }}", name: "{{ name }}", other: "{{ other }}"}}}
    """
    found = result(body, overrides={"name": "z"}, db={"port": 2}, name="y")
    assert found == {"db": {"host": "a", "port": 2}, "name": "z", "other": 1}


def test_workload_templates_see_each_other_the_execution_and_what_was_given(run: Run) -> None:
    body = """
    workload:
      table: "run_{{ execution_id }}"
      file: "{{ folder }}/{{ table }}.csv"
      folder: "/data/{{ region }}"
      region: eu
      same: "{{ job.uuid == execution_id and job.execution_id == execution_id }}"
      total: "{{ numbers | length }}"
      numbers: [1, 2, 3]
      secret: "{{ env.HOME is defined }}"
    workflow:
      - {step: start, tool: {kind: noop, input: {all: "{{ workload }}"}}}
    """
    report = run(body, region="us", raw="{{ region }}")
    workload = report["result"]["all"]
    assert workload["file"] == f"/data/us/run_{report['execution_id']}.csv"
    assert workload["same"] is True
    assert workload["total"] == 3
    assert workload["secret"] is False  # HOME is not on the allow-list
    assert workload["raw"] == "{{ region }}"  # what is given is data


def test_the_execution_id_is_a_decimal_string_that_fits_a_bigint(run: Run) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: duckdb
          command: "SELECT CAST({{ execution_id }} AS BIGINT) AS id, typeof({{ job.uuid }}) AS type"
    """
    report = run(body)
    assert report["result"]["rows"] == [{"id": int(report["execution_id"]), "type": "BIGINT"}]


def test_undefined_is_null_false_and_empty_and_never_an_error_in_a_guard(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, code: "result = {'rows': []}"}
        next:
          arcs:
            - {step: wrong, when: "{{ ctx.never.set.anywhere == 3 }}"}
            - {step: wrong, when: "{{ start.missing > 1 }}"}
            - {step: wrong, when: "{{ start.rows[0].x is defined }}"}
            - {step: wrong, when: "{{ nobody.wrote.this }}"}
            - {step: right, when: "{{ start.rows[0].x is none and start.y == none and (start.z | default(5)) == 5 }}"}
      - {step: wrong, tool: {kind: noop, input: {which: wrong}}}
      - {step: right, tool: {kind: noop, input: {which: right, gone: "{{ a.b.c }}", text: "<{{ a.b.c }}>"}}}
    """
    assert result(body) == {"which": "right", "gone": None, "text": "<>"}


def test_mapping_keys_come_before_attributes(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: python
          code: |
            result = {"items": [1, 2], "keys": 3, "values": {"get": "g"}, "update": "u", "pop": None, "copy": [0]}
        next: end
      - step: end
        tool:
          kind: python
          input: {a: "{{ start.items }}", b: "{{ start.keys }}", c: "{{ start.values.get }}", d: "{{ start.copy[0] }}",
                  e: "{{ start.update ~ start.pop }}"}
          code: result = [a, b, c, d, e]
    """
    assert result(body) == [[1, 2], 3, "g", 0, "u"]


def test_data_returned_by_a_tool_is_never_rendered_again(result: Result) -> None:
    body = """
    workload: {secret: hidden}
    workflow:
      - step: start
        tool: {kind: python, code: "result = {'t': '{' + '{ workload.secret }' + '}'}"}
        set: {ctx.kept: "{{ result.t }}"}
        next: end
      - step: end
        tool: {kind: python, input: {a: "{{ start.t }}", b: "{{ ctx.kept }}"}, code: "result = [a, b, '{{ not }}']"}
    """
    assert result(body) == ["{{ workload.secret }}", "{{ workload.secret }}", "{{ not }}"]


def test_filters_that_people_use(result: Result) -> None:
    body = """
    workload: {n: "12", name: ADA, rows: [{id: 2, v: 1.5}, {id: 1, v: 2}], quote: "it's {\\"here\\"}"}
    workflow:
      - step: start
        tool:
          kind: noop
          input:
            int: "{{ n | int + 1 }}"
            default: "{{ nope | default('d') }}"
            length: "{{ rows | length }}"
            lower: "{{ name | lower }}"
            string: "{{ rows[0].v | string }}"
            first: "{{ rows | map(attribute='id') | list | first }}"
            sorted: "{{ rows | sort(attribute='id') | map(attribute='id') | list }}"
            json: "{{ rows | tojson }}"
            sum: "{{ rows | sum(attribute='v') }}"
            chosen: "{{ rows | selectattr('id', 'equalto', 2) | list }}"
            joined: "{{ rows | map(attribute='id') | join(',') }}"
            statement: "{% if n | int > 10 %}many{% else %}few{% endif %}: {% for r in rows %}{{ r.id }};{% endfor %}"
    """
    assert result(body) == {
        "int": 13,
        "default": "d",
        "length": 2,
        "lower": "ada",
        "string": "1.5",
        "first": 2,
        "sorted": [1, 2],
        "json": '[{"id": 2, "v": 1.5}, {"id": 1, "v": 2}]',
        "sum": 3.5,
        "chosen": [{"id": 2, "v": 1.5}],
        "joined": "2,1",
        "statement": "many: 2;1;",
    }


# --- pipelines -----------------------------------------------------------------------------------


def test_earlier_tasks_and_what_they_set_are_readable_by_name(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          - name: fetch
            kind: python
            code: "result = {'rows': [1, 2, 3], 'data': 'd'}"
            set: {found: "{{ output.rows | length }}", first: "{{ result.rows[0] }}", ctx.seen: "{{ outcome.status }}"}
          - name: double
            kind: python
            input: {rows: "{{ fetch.rows }}", n: "{{ found }}", before: "{{ _prev.rows }}"}
            code: "result = [r * 2 for r in rows] + [n, before == rows]"
          - name: last
            kind: noop
            input: {double: "{{ double }}", first: "{{ first }}", data: "{{ fetch.data }}", task: "{{ _task }}",
                    attempt: "{{ _attempt }}"}
        next: end
      - step: end
        tool: {kind: noop, input: {start: "{{ start }}", fetch: "{{ start.results.fetch.rows }}", seen: "{{ ctx.seen }}",
                                   gone: "{{ found }}"}}
    """
    last = {"double": [2, 4, 6, 3, True], "first": 1, "data": "d", "task": "last", "attempt": 1}
    assert result(body) == {"start": last, "fetch": [1, 2, 3], "seen": "ok", "gone": None}


def test_tasks_may_be_labelled_or_bare(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          - first: {kind: noop, input: {v: 1}}
          - {kind: noop, input: {v: "{{ first.v + 1 }}"}}
          - second: {kind: noop, input: {v: "{{ task_1.v + 1 }}"}}
    """
    assert result(body) == {"v": 3}


def test_policies_retry_continue_break_jump_and_fail(run: Run, tmp_path: Any) -> None:
    body = """
    workflow:
      - step: start
        tool:
          - name: flaky
            kind: python
            input: {attempt: "{{ _attempt }}"}
            code: |
              if attempt < 3:
                  raise ConnectionError("not yet")
              result = attempt
            spec:
              policy:
                rules:
                  - {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 5, delay: 0.01, backoff: exponential}}
                  - {else: {then: {do: continue, set: {tries: "{{ result }}"}}}}
          - name: broken
            kind: python
            code: "1 / 0"
            spec: {policy: {rules: [{when: true, then: {do: continue, set_ctx: {why: "{{ error.message }}"}}}]}}
          - name: count
            kind: noop
            input: {rounds: "{{ (rounds | default(0)) + 1 }}"}
            set: {rounds: "{{ output.rounds }}"}
          - name: again
            kind: noop
            spec:
              policy:
                rules:
                  - {when: "{{ rounds < 3 }}", then: {do: jump, to: count}}
                  - {else: {do: break, set: {ctx.end: "{{ rounds }}/{{ tries }}/{{ broken }}"}}}
          - {name: never, kind: noop, input: {reached: true}}
        next:
          arcs: [{step: end, when: "{{ ctx.end == '3/3/' }}"}]
      - step: end
        tool: {kind: python, code: "raise KeyError('last')"}
    """
    report = run(body)
    assert report["status"] == "failed"
    assert report["ctx"] == {"why": "division by zero", "end": "3/3/"}
    assert report["error"]["type"] == "KeyError"
    assert report["error"]["step"] == "end"


# --- routing -------------------------------------------------------------------------------------


def test_a_cycle_over_arcs_goes_sixteen_rounds(run: Run) -> None:
    body = """
    workload: {rounds: 16}
    workflow:
      - step: start
        set: {ctx.round: 0, ctx.seen: []}
        next: work
      - step: work
        tool: {kind: python, input: {n: "{{ ctx.round }}"}, code: "result = {'n': n + 1, 'square': n * n}"}
        set: {ctx.round: "{{ result.n }}", ctx.seen: "{{ ctx.seen + [output.data.square] }}"}
        next:
          spec: {mode: exclusive}
          arcs:
            - {step: work, when: "{{ ctx.round < rounds }}"}
            - {step: end}
      - {step: end, tool: {kind: noop, input: {seen: "{{ ctx.seen }}", last: "{{ work.square }}"}}}
    """
    report = run(body)
    assert report["result"] == {"seen": [n * n for n in range(16)], "last": 225}
    assert report["steps"]["work"]["runs"] == 16


def test_branches_that_join_fire_the_next_step_once(run: Run) -> None:
    body = """
    workflow:
      - step: start
        next: {spec: {mode: inclusive}, arcs: [{step: a, args: {x: 1}}, {step: b, args: {y: 2}}, {step: c, when: "{{ false }}"}]}
      - {step: a, tool: {kind: python, input: {x: "{{ args.x }}"}, code: "result = x"}, next: end}
      - {step: b, tool: {kind: noop, input: {y: "{{ y }}"}}, next: end}
      - {step: c, tool: {kind: noop}, next: end}
      - {step: cleanup, tool: {kind: noop}, next: end}
      - {step: end, tool: {kind: noop, input: {a: "{{ a }}", b: "{{ b.y }}", c: "{{ c is defined }}"}}}
    """
    report = run(body)
    assert report["result"] == {"a": 1, "b": 2, "c": False}
    assert {name: step["runs"] for name, step in report["steps"].items()} == {
        "start": 1,
        "a": 1,
        "b": 1,
        "end": 1,
    }


def test_a_failed_step_is_handled_by_an_arc_that_asks_for_failures(run: Run) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, code: "raise ValueError('bad data')"}
        next:
          arcs:
            - {step: wrong}
            - {step: repair, when: "{{ event.name == 'call.error' and error.type == 'ValueError' }}", args: {why: "{{ error.message }}"}}
      - {step: wrong, tool: {kind: noop}}
      - {step: repair, tool: {kind: noop, input: {why: "{{ args.why }}"}}}
    """
    report = run(body)
    assert report["status"] == "completed"
    assert report["result"] == {"why": "bad data"}
    assert report["steps"]["start"]["status"] == "failed"


def test_step_inputs_set_and_output_reach_the_next_steps(result: Result) -> None:
    body = """
    workflow:
      - step: start
        input: {base: 10, over: step}
        tool: {kind: python, input: {over: task}, code: "result = {'sum': base + 1, 'over': over, 'status': 'error'}"}
        set: {ctx.sum: "{{ output.data.sum }}", step.note: "{{ outcome.status }}"}
        next: {arcs: [{step: end, when: "{{ step.note == 'ok' and output.status == 'ok' }}", args: {got: "{{ result.over }}"}}]}
      - {step: end, tool: {kind: noop, input: {sum: "{{ vars.sum }}", got: "{{ input.got }}", bare: "{{ got }}",
                                               status: "{{ start.status }}"}}}
    """
    assert result(body) == {"sum": 11, "got": "task", "bare": "task", "status": "error"}


def test_guards_read_what_the_step_has_just_set_by_its_bare_name_too(run: Run) -> None:
    body = """
    workload: {n: 100}
    workflow:
      - {step: start, set: {n: 0}, next: work}
      - step: work
        tool: {kind: noop, input: {next: "{{ n + 1 }}"}}
        set: {n: "{{ result.next }}", step.odd: "{{ result.next % 2 == 1 }}"}
        next: {arcs: [{step: work, when: "{{ n < 4 or step.odd }}"}, {step: end, args: {n: "{{ n }}"}}]}
      - {step: end, tool: {kind: noop, input: {n: "{{ args.n }}", given: "{{ workload.n }}", step: "{{ ctx.odd is defined }}"}}}
    """
    report = run(body)
    assert report["result"] == {"n": 4, "given": 100, "step": False}
    assert report["ctx"] == {"n": 4}


def test_best_effort_ends_partial_and_the_final_step_sees_how(run: Run) -> None:
    body = """
    executor:
      spec: {policy: {failure: {mode: best_effort}}, final_step: finish}
    workflow:
      - step: start
        next: {spec: {mode: inclusive}, arcs: [{step: good}, {step: bad}]}
      - {step: good, tool: {kind: noop, input: {v: 1}}}
      - {step: bad, tool: {kind: shell, command: "exit 4"}}
      - step: finish
        tool: {kind: noop, input: {status: "{{ args.status }}", failed: "{{ args.steps.failed }}"}}
    """
    report = run(body)
    assert report["status"] == "partial"
    assert report["steps"]["good"]["status"] == "done"
    assert report["result"]["status"] == "partial"


# --- loops ---------------------------------------------------------------------------------------


def test_sequential_loops_see_what_earlier_iterations_wrote(run: Run) -> None:
    body = """
    workflow:
      - step: start
        loop: {in: [5, 6, 7], iterator: n}
        tool:
          - {name: square, kind: python, input: {n: "{{ n }}"}, code: "result = n * n"}
          - name: add
            kind: noop
            input: {sum: "{{ (ctx.sum | default(0)) + square }}", at: "{{ loop_index }}", same: "{{ iter.index == loop_index and iter.n == n }}"}
            set: {ctx.sum: "{{ output.sum }}"}
        next: end
      - {step: end, tool: {kind: noop, input: {stats: "{{ start.stats }}", last: "{{ start.results[-1] }}"}}}
    """
    report = run(body)
    assert report["ctx"] == {"sum": 110}
    assert report["result"] == {
        "stats": {"total": 3, "completed": 3, "failed": 0},
        "last": {"sum": 110, "at": 2, "same": True},
    }


def test_parallel_loops_keep_order_isolate_iterations_and_reduce(run: Run, tmp_path: Path) -> None:
    body = """
    workload: {width: 4, folder: ""}
    workflow:
      - step: start
        tool: {kind: python, code: "result = {'items': [{'id': i, 'name': f'n{i}'} for i in range(20)]}"}
        next: each
      - step: each
        loop:
          in: "{{ start.items }}"
          iterator: item
          spec: {mode: parallel, max_in_flight: "{{ width }}", reduce: {ctx.total: sum, ctx.names: append}}
        tool:
          - name: work
            kind: python
            input: {item: "{{ iter.item }}", i: "{{ iter.index }}", folder: "{{ workload.folder }}"}
            code: |
              import pathlib, time
              (pathlib.Path(folder) / str(i)).touch()
              # Every third one ends behind the one that began after it.
              while i % 3 == 0 and not (pathlib.Path(folder) / str(i + 1)).exists(): time.sleep(0.005)
              result = {"id": item["id"], "i": i, "double": item["id"] * 2}
            set: {mine: "{{ output.double }}", iter.flag: "{{ item.id % 2 == 0 }}"}
          - name: keep
            kind: noop
            input: {id: "{{ item.id }}", mine: "{{ mine }}", flag: "{{ iter.flag }}"}
            set: {ctx.total: "{{ work.double }}", ctx.names: "{{ item.name }}"}
        next: again
      - step: again
        loop: {in: "{{ each.results }}", iterator: row, mode: sequential}
        tool: {kind: noop, input: {v: "{{ row.mine }}"}}
        next: end
      - {step: end, tool: {kind: noop, input: {each: "{{ each.results }}", again: "{{ again.results }}"}}}
    """
    report = run(body, folder=str(tmp_path))
    assert report["status"] == "completed", report["error"]
    assert report["result"]["each"] == [{"id": i, "mine": 2 * i, "flag": i % 2 == 0} for i in range(20)]
    assert report["result"]["again"] == [{"v": 2 * i} for i in range(20)]
    assert report["ctx"] == {"total": 380, "names": [f"n{i}" for i in range(20)]}


def test_loops_over_nothing_and_over_one_thing(result: Result) -> None:
    body = """
    workload: {nothing: null, one: {a: 1}, text: abc}
    workflow:
      - {step: start, loop: {in: "{{ nothing }}", iterator: x}, tool: {kind: noop, input: {x: "{{ x }}"}}, next: one}
      - {step: one, loop: {in: "{{ one }}", iterator: x}, tool: {kind: noop, input: {x: "{{ x }}"}}, next: text}
      - {step: text, loop: {in: "{{ text }}", iterator: x}, tool: {kind: noop, input: {x: "{{ x }}"}}, next: gone}
      - {step: gone, loop: {in: "{{ a.b.c }}", iterator: x}, tool: {kind: noop, input: {x: "{{ x }}"}}, next: end}
      - {step: end, tool: {kind: noop, input: {all: "{{ [start.results, one.results, text.results, gone.stats.total] }}"}}}
    """
    assert result(body) == {"all": [[], [{"x": {"a": 1}}], [{"x": "abc"}], 0]}


def test_a_failed_iteration_fails_the_loop_and_names_itself(error: Run) -> None:
    body = """
    workflow:
      - step: start
        loop: {in: [1, 2, 0, 4], iterator: n}
        tool: {name: divide, kind: python, input: {n: "{{ n }}"}, code: "result = 10 / n"}
    """
    found = error(body)
    assert (found["step"], found["task"], found["iteration"], found["type"]) == (
        "start",
        "divide",
        2,
        "ZeroDivisionError",
    )
    assert found["stats"] == {"total": 4, "completed": 2, "failed": 1}


def test_a_tolerant_loop_aligns_errors_with_results(run: Run) -> None:
    body = """
    workflow:
      - step: start
        loop:
          in: [1, 0, 4]
          iterator: n
          spec: {mode: parallel, policy: {failure: {mode: best_effort}}}
        tool: {kind: python, input: {n: "{{ n }}"}, code: "result = 8 // n"}
    """
    report = run(body)
    assert report["status"] == "completed"
    assert report["result"]["results"] == [8, None, 2]
    assert report["result"]["stats"] == {"total": 3, "completed": 2, "failed": 1}
    errors = report["result"]["errors"]
    assert [each and each["type"] for each in errors] == [None, "ZeroDivisionError", None]


# --- python --------------------------------------------------------------------------------------


def test_functions_comprehensions_and_classes_see_one_namespace(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: python
          input: {rows: [3, 1, 2], factor: 10}
          code: |
            import json
            from dataclasses import dataclass
            LIMIT = 2

            @dataclass
            class Row:
                v: int

            def scale(value):
                return helper(value) * factor

            def helper(value):
                global calls
                calls += 1
                return value + LIMIT

            calls = 0
            rows = sorted(rows)
            factor = factor + 1
            scaled = [scale(r) for r in rows if r <= max(rows)]
            print("scaled", json.dumps(scaled))
            result = {"scaled": scaled, "calls": calls, "row": Row(1).v, "lazy": (lambda: LIMIT)()}
    """
    assert result(body) == {"scaled": [33, 44, 55], "calls": 3, "row": 1, "lazy": 2}


def test_inputs_are_globals_input_data_and_args(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: python
          args: {a: 1, b: [2]}
          code: |
            result = [a, b, input_data["a"], input_data.get("zzz", "none"), args["b"], sorted(input_data)]
    """
    assert result(body) == [1, [2], 1, "none", [2], ["a", "b"]]


def test_main_gets_the_inputs_that_it_names(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, input: {a: 1, b: 2}, code: "def main(a, c=5):\\n    return [a, b, c]"}
        next: end
      - step: end
        tool: {kind: python, input: {a: 1, b: 2}, code: "def main(**kwargs):\\n    return kwargs"}
    """
    assert result(body) == {"a": 1, "b": 2}


def test_a_top_level_return_is_the_result(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: python
          input: {n: 3}
          code: |
            def inner(x):
                return x + 1
            if n > 2:
                print("early")
                return {"n": inner(n)}
            result = "late"
    """
    assert result(body) == {"n": 4}


def test_prints_are_kept_with_the_outcome(rt: Runtime, run: Run) -> None:
    body = """
    workflow:
      - step: start
        tool:
          kind: python
          code: |
            import sys
            print("to stdout")
            print("to stderr", file=sys.stderr)
            result = 1
    """
    report = run(body)
    (done,) = inspect.events(rt, report["execution_id"], types=["task.done"])
    meta = done.fact.meta  # type: ignore[union-attr]
    assert meta["stdout"] == "to stdout\n"
    assert meta["stderr"] == "to stderr\n"


@pytest.mark.parametrize(
    ("code", "type_", "message", "line"),
    [
        ("x = 1\n\nraise ValueError('no such day')", "ValueError", "no such day", 3),
        ("rows = []\nassert rows, 'no rows'", "AssertionError", "no rows", 2),
        ("def f(x):\n    return x['k']\n\nf({})", "KeyError", "'k'", 2),
        ("import sys\nsys.exit(3)", "SystemExit", "3", 2),
    ],
)
def test_what_code_raises_names_its_line_in_the_playbook(
    error: Run, code: str, type_: str, message: str, line: int
) -> None:
    indented = code.replace("\n", "\n" + " " * 12)
    body = f"""
    workflow:
      - step: start
        tool:
          name: check
          kind: python
          code: |
            {indented}
    """
    found = error(body)
    first = 10  # three lines of the head, one empty line, and the six before the code
    assert (found["step"], found["task"], found["kind"], found["type"]) == ("start", "check", "python", type_)
    assert message in found["message"]
    assert found["line"] == first + line


def test_code_that_names_context_sees_everything(result: Result) -> None:
    body = """
    workload: {region: eu}
    workflow:
      - step: start
        tool: {kind: python, code: "result = {'rows': [1, 2]}"}
        set: {ctx.mark: m}
        next: {arcs: [{step: each, args: {given: 5}}]}
      - step: each
        loop: {in: [7, 8], iterator: n}
        tool:
          kind: python
          code: |
            result = [context["workload"]["region"], context["start"]["rows"], context["ctx"]["mark"],
                      context["args"]["given"], context["iter"]["n"], context["region"],
                      len(context["execution_id"]) > 10, context.get("nothing")]
    """
    found = result(body)
    assert found["results"] == [["eu", [1, 2], "m", 5, n, "eu", True, None] for n in (7, 8)]


def test_braces_in_code_are_python(result: Result) -> None:
    body = """
    workflow:
      - step: start
        tool: {kind: python, input: {x: 1}, code: "result = f'{{{x}}} {{ x }}' + '{{ x }} {% x %}'"}
    """
    assert result(body) == "{1} { x }{{ x }} {% x %}"


# --- results of any size -------------------------------------------------------------------------


def test_fields_of_large_results_stay_readable_wherever_they_are_kept(run: Run) -> None:
    body = """
    workflow:
      - step: big
        tool:
          kind: python
          code: |
            result = {"rows": [{"x": i, "pad": "p" * 300} for i in range(3000)], "note": "n", "text": "é" * 900_000}
        next:
          arcs:
            - {step: wrong, when: "{{ big.rows | length != 3000 }}"}
            - {step: use, when: "{{ big.rows[3].x == 3 and big.note == 'n' and big.data.note == 'n' and output.data.note == 'n' }}"}
      - {step: wrong, tool: {kind: noop}}
      - step: use
        tool:
          - name: in_python
            kind: python
            input: {rows: "{{ big.rows }}", x: "{{ big.rows[3].x }}", whole: "{{ big }}", data: "{{ big.data.note }}"}
            code: "result = {'n': len(rows), 'x': x, 'text': len(whole['text']), 'data': data, 'copy': whole}"
          - name: smaller
            kind: noop
            input: {n: "{{ in_python.n }}", x: "{{ in_python.x }}", text: "{{ in_python.text }}", data: "{{ in_python.data }}",
                    last: "{{ in_python.copy.rows[-1].x }}"}
        set: {ctx.kept: "{{ use.results.in_python }}", ctx.text: "{{ big.text }}"}
        next: end
      - step: end
        loop: {in: "{{ big.rows[:5] }}", iterator: row}
        tool: {kind: noop, input: {x: "{{ row.x + ctx.kept.x }}", size: "{{ ctx.text | length }}", use: "{{ use }}"}}
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    use = {"n": 3000, "x": 3, "text": 900_000, "data": "n", "last": 2999}
    assert report["result"]["results"] == [{"x": i + 3, "size": 900_000, "use": use} for i in range(5)]
    assert report["steps"]["big"]["result"]["text"] == "é" * 900_000
    assert report["ctx"]["text"] == "é" * 900_000


def test_a_large_string_is_itself_and_its_own_data(run: Run) -> None:
    body = """
    workflow:
      - {step: big, tool: {kind: python, code: "result = 'x' * 900_000"}, next: end}
      - step: end
        tool: {kind: python, input: {a: "{{ big }}", b: "{{ big.data }}", c: "<{{ big }}>", n: "{{ big | length }}"},
               code: "result = [len(a), a == b, len(c), n]"}
    """
    assert run(body)["result"] == [900_000, True, 900_002, 900_000]


def test_large_values_in_loops_stay_readable(run: Run) -> None:
    body = """
    workflow:
      - step: each
        loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
        tool:
          - {name: make, kind: python, input: {n: "{{ n }}"}, code: "result = {'n': n, 'pad': 'p' * 200_000}"}
          - {name: check, kind: python, input: {made: "{{ make }}"}, code: "result = {'n': made['n'], 'size': len(made['pad']), 'pad': made['pad']}"}
        next: end
      - step: end
        tool: {kind: python, input: {rows: "{{ each.results }}", one: "{{ each.results[1].n }}"},
               code: "result = [[r['n'], r['size'], len(r['pad'])] for r in rows] + [one]"}
    """
    assert run(body)["result"] == [[n, 200_000, 200_000] for n in (1, 2, 3)] + [2]


def test_reports_show_large_values_wherever_they_stand(run: Run) -> None:
    body = """
    workflow:
      - step: each
        loop: {in: [a, b], iterator: n, spec: {mode: parallel}}
        tool: {kind: python, input: {n: "{{ n }}"}, code: "result = {'n': n, 'pad': n * 200_000}"}
        set: {ctx.all: "{{ each.results }}"}
        next: {arcs: [{step: end, args: {first: "{{ each.results[0] }}"}}]}
      - step: end
    """
    report = run(body)
    made = [{"n": n, "pad": n * 200_000} for n in "ab"]
    assert report["steps"]["each"]["result"]["results"] == made
    assert report["ctx"] == {"all": made}
    assert report["result"] == {"first": made[0]}


@pytest.mark.parametrize("ref", ["x", "noetl://results/" + "0" * 64, "noetl://other/" + "0" * 64])
def test_data_that_only_looks_like_a_reference_is_shown_as_it_is(run: Run, ref: str) -> None:
    value = {"kind": "result_ref", "ref": ref, "meta": {"bytes": 10}}
    body = f"""
    workflow:
      - step: start
        tool:
          kind: python
          code: |
            result = [{value!r}]
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    assert report["result"] == [value]


@pytest.mark.parametrize(
    "rules", ["[]", '[{when: "{{ outcome.error.retryable }}", then: {do: retry, attempts: 2, delay: 0.01}}]']
)
def test_a_result_store_that_takes_nothing_fails_the_task_with_its_reason(
    run_in: Callable[[Runtime], Run], tmp_path: Path, rules: str
) -> None:
    body = f"""
    workflow:
      - step: start
        tool:
          kind: python
          spec: {{policy: {{rules: {rules}}}}}
          code: "result = 'x' * 200_000"
    """
    (tmp_path / "file").write_text("not a directory")
    settings = Settings(home=tmp_path, results_url=f"file://{tmp_path}/file/below")
    with bootstrap.local(settings) as rt:
        report = run_in(rt)(body.replace("          spec: {policy: {rules: []}}\n", ""))
    assert report["status"] == "failed"
    assert report["error"]["kind"] == "connection"
    assert f"The result store {tmp_path}/file/below cannot be written" in report["error"]["message"]
    assert report["error"]["attempt"] == (1 if rules == "[]" else 2)


def test_a_result_that_is_gone_is_reported_by_its_reference(run: Run, settings: Settings) -> None:
    body = f"""
    workflow:
      - {{step: start, tool: {{kind: python, code: "result = {{'gone': 'y' * 150_000}}"}}, next: remove}}
      - {{step: remove, tool: {{kind: shell, argv: [rm, -rf, "{settings.home_dir}/results"]}}, next: end}}
      - step: end
    """
    report = run(body)
    assert report["status"] == "completed", report["error"]
    assert report["steps"]["start"]["result"]["preview"]["keys"] == ["gone"]
