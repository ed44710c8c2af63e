"""What a run says besides how it ended: names that nothing defined, and errors that it went on
after."""

from __future__ import annotations

from typing import Any

import pytest
from playbooks import playbook

from noetl.engine.notices import MOST, MOST_ERRORS, Notices
from noetl.errors import BadRequest, ToolError
from noetl.facts.events import Draft, Evaluated, Requested, StepSkipped, TaskDone
from noetl.facts.json import JsonMap
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import inspect


def _places(report: inspect.Report) -> dict[str, str]:
    return {one["place"]: one["template"] for one in of_run(report)}


def of_run(report: inspect.Report) -> list[JsonMap]:
    """The warnings of the run; the compiler may have some of its own."""
    return [one for one in report.warnings if one["source"] == "run"]


def test_every_value_that_became_null_is_in_the_report_with_its_place_step_and_line() -> None:
    sim = Simulation(
        playbook(
            """
            - step: start
              input: {a: "{{ gone_a }}"}
              set: {ctx.c: "{{ gone_c }}"}
              next: {arcs: [{step: work, args: {d: "{{ gone_d }}"}, set: {ctx.e: "{{ gone_e }}"}}]}
            - step: work
              loop: {in: "{{ ctx.gone_list }}", iterator: x}
              tool: {kind: noop}
              next: tasks
            - step: tasks
              tool:
                - name: one
                  kind: noop
                  input:
                    deep: {er: ["{{ 1 }}", "{{ gone_f.g }}"]}
                  set: {local: "{{ gone_h }}", ctx.i: "{{ gone_i }}"}
                - name: two
                  kind: python
                  libs: {x: "{{ gone_j }}"}
                  code: "result = 1"
                  spec: {policy: {rules: [{else: {then: {do: continue, set: {ctx.k: "{{ gone_k }}"}}}}]}}
                - name: three
                  kind: noop
                  loop: {in: "{{ gone_l }}", iterator: y}
            """,
            'workload: {w: {x: "{{ gone_w }}", y: 1}}',
        )
    )
    report = sim.run(payload={"w": {"y": 2}})
    assert _places(report) == {
        "workload.w.x": "{{ gone_w }}",
        "input.a": "{{ gone_a }}",
        "set.ctx.c": "{{ gone_c }}",
        "next.work.args.d": "{{ gone_d }}",
        "next.work.set.ctx.e": "{{ gone_e }}",
        "loop.in": "{{ gone_l }}",
        "input.deep.er[1]": "{{ gone_f.g }}",
        "set.local": "{{ gone_h }}",
        "set.ctx.i": "{{ gone_i }}",
        "libs.x": "{{ gone_j }}",
        "policy.rules[0].set.ctx.k": "{{ gone_k }}",
    }
    assert ["{{ ctx.gone_list }}", "work", None] in [
        [one["template"], one["step"], one["task"]] for one in of_run(report)
    ]
    deep = next(one for one in of_run(report) if one["template"] == "{{ gone_f.g }}")
    assert (deep["step"], deep["task"], deep["count"], deep["source"]) == ("tasks", "one", 1, "run")
    assert deep["line"] is not None
    assert report.row.warnings_count == len(of_run(report))


def test_what_asks_whether_there_is_something_is_no_warning() -> None:
    report = Simulation(
        playbook(
            """
            - step: start
              tool:
                kind: noop
                input: {a: "{{ gone | default(none) }}", b: "{{ gone is defined }}", c: "x{{ gone | d('') }}", d: "{{ none }}"}
                spec: {policy: {rules: [{when: "{{ outcome.result.gone }}", then: {do: fail}}, {else: {then: {do: continue}}}]}}
              next: {arcs: [{step: start, when: "{{ ctx.gone }}"}, {step: end, when: "{{ gone == 1 }}"}, {step: end}]}
            - step: end
            """
        )
    ).run()
    assert (report.row.status, of_run(report), report.errors_passed_over) == ("completed", [], 0)
    assert all("errors" not in step for step in report.steps.values())


def test_the_same_warning_is_counted_and_only_so_many_different_ones_are_kept() -> None:
    notices = Notices()
    for number in range(MOST + 7):
        one = {"template": f"{{{{ gone_{number} }}}}", "place": "input.x"}
        notices = notices.after(Draft(TaskDone("t", meta={"warnings": [one]}), step="s"))
        notices = notices.after(Draft(TaskDone("t", meta={"warnings": [one]}), step="s"))
    assert [one.count for one in notices.kept] == [2] * MOST
    assert (notices.more, notices.count) == (14, MOST + 14)


def test_sentences_of_tools_and_of_earlier_versions_are_warnings_too_and_garbage_is_none() -> None:
    old = "The template `{{ x }}` is undefined and became null."
    notices = Notices().after(Draft(Evaluated(True, warnings=(old,))))
    for garbage in ("text", 7, [7, None, {"template": 7}]):
        notices = notices.after(Draft(TaskDone("t", meta={"warnings": garbage}), step="s"))
    assert [one.message for one in notices.kept] == [old, ""]


FAILING = """
    - step: start
      tool:
        - name: risky
          kind: python
          code: "raise ValueError('no')"
          spec: {policy: {rules: [{when: "{{ error }}", then: {do: continue}}]}}
        - name: shaky
          kind: python
          code: "flaky"
          spec: {policy: {rules: [{when: "{{ error }}", then: {do: retry, attempts: 3, delay: 0}}]}}
      next: many
    - step: many
      loop:
        in: [{n: 0}, {n: 1, password: hunter22hunter22}, {n: 2}]
        iterator: row
        spec: {mode: parallel, policy: {failure: {mode: best_effort}}}
      tool: {kind: python, code: "loop", input: {row: "{{ row }}"}}
      next: items
    - step: items
      tool:
        kind: python
        code: "items"
        input: {n: "{{ n }}"}
        loop: {in: [1, 2, 3], iterator: n, spec: {policy: {failure: {mode: best_effort}}}}
"""


def _python(call: Call) -> Any:
    code = str(call.config["code"])
    if "raise" in code:
        raise ToolError("python", "no")
    if code == "flaky" and call.attempt < 2:
        raise ToolError("python", "not yet")
    if code == "loop" and call.args["row"]["n"] == 1:
        raise ToolError("python", "bad row")
    if code == "items" and call.args["n"] > 1:
        raise ToolError("python", "bad item")
    return 1


def test_errors_that_went_on_are_counted_with_the_step_and_name_their_items() -> None:
    sim = Simulation(playbook(FAILING), {"python": _python})
    report = sim.run()
    assert report.row.status == "completed"
    errors = {name: step["errors"] for name, step in report.steps.items() if "errors" in step}
    assert {name: (one["count"], one["text"]) for name, one in errors.items()} == {
        "start": (1, "1 ignored error"),
        "many": (1, "2 of 3, 1 failed"),
        "items": (2, "2 ignored errors"),
    }
    assert errors["many"]["first"][0]["item_text"] == '{"n": 1, "password": "***"}'
    assert [one["item_text"] for one in errors["items"]["first"]] == ["2", "3"]
    assert report.errors_passed_over == report.row.errors_passed_over == 4
    listed = inspect.executions(sim.rt)[0]
    assert (listed.errors_passed_over, listed.warnings_count) == (4, 0)


def test_the_items_of_a_task_that_fails_after_all_are_its_failure_and_not_passed_over() -> None:
    body = FAILING.replace("{mode: best_effort}}}}\n", "{tolerate: {count: 1}}}}}\n")
    report = Simulation(playbook(body), {"python": _python}).run()
    assert report.row.status == "failed"
    assert "errors" not in report.steps["items"]
    assert report.error is not None
    assert (report.error["item"], report.error["item_text"]) == (1, "2")


def test_of_many_errors_the_first_are_kept_and_all_are_counted() -> None:
    body = """
    - step: start
      loop: {in: "{{ range(50) | list }}", iterator: n, spec: {policy: {failure: {mode: best_effort}}}}
      tool: {kind: python, code: "raise ValueError(n)"}
    """
    step = Simulation(playbook(body), {"python": _python}).run().steps["start"]
    assert (step["errors"]["count"], len(step["errors"]["first"])) == (50, MOST_ERRORS)
    assert step["errors"]["text"] == "0 of 50, 50 failed"


READING = playbook(
    """
    - step: start
      tool: {kind: noop, input: {a: "{{ workload.read }}", b: "{{ bare }}", c: "{{ payload.way.deep }}"}}
    """,
    "workload: {name: Ada, db: {host: h}, any: {}}",
)


@pytest.mark.parametrize(
    "overrides",
    [
        {"name": 1},
        {"db": {"host": 1}},
        {"db": 7},
        {"any": {"thing": 1}},
        {"read": 1, "bare": {"x": 1}, "way": {"deep": {"er": 1}}},
        {"+new": {"x": 1}, "+db": {"port": 1}},
        {"given": 2},
    ],
)
def test_overrides_of_what_the_playbook_knows_are_set(overrides: JsonMap) -> None:
    sim = Simulation(READING)
    report = sim.run(payload={"given": 1}, **overrides)
    (requested,) = [e.fact for e in sim.events(report.row.execution_id) if isinstance(e.fact, Requested)]
    assert requested.overrides == {key.removeprefix("+"): value for key, value in overrides.items()}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"nmae": 1}, "has no 'nmae' to set, and no template reads it. Did you mean 'name'? Write '+nmae'"),
        ({"db": {"hots": 1}}, "has no 'db.hots' to set, and no template reads it. Did you mean 'host'?"),
        ({"raed": 1}, "Did you mean 'read'?"),
        (
            {"given": {"theer": 1}},
            "has no 'given.theer' to set, and no template reads it. Did you mean 'there'?",
        ),
    ],
)
def test_an_override_that_the_playbook_does_not_know_is_refused(overrides: JsonMap, said: str) -> None:
    sim = Simulation(READING)
    with pytest.raises(BadRequest) as caught:
        sim.run(payload={"given": {"there": 1}}, **overrides)
    assert said in caught.value.message
    assert inspect.executions(sim.rt) == []


def test_a_payload_key_that_nothing_reads_is_a_warning() -> None:
    report = Simulation(READING).run(payload={"nmae": 1, "read": 1, "db": {"port": 1}, "any": {"x": 1}})
    assert [one["place"] for one in of_run(report) if not one["template"]] == [
        "payload.nmae",
        "payload.db.port",
    ]
    assert "Did you mean 'name'?" in of_run(report)[0]["message"]


def test_code_that_sees_everything_may_read_any_key() -> None:
    body = """
    - step: start
      tool: {kind: python, code: "result = context['workload']"}
    """
    report = Simulation(playbook(body), {"python": lambda call: 1}).run(payload={"any": 1}, thing=2)
    assert of_run(report) == []


def test_a_path_that_nothing_defines_inside_of_a_text_is_in_the_report_as_well() -> None:
    steps = """
        - step: fetch
          tool: {kind: noop, input: {id: 1}}
          next: {arcs: [{step: use, args: {c: "order {{ fetch.gone }}"}}]}
        - step: use
          tool: {kind: noop, input: {b: "orders/{{ fetch.missing }}/{{ fetch.id }}"}}
    """
    report = Simulation(playbook(steps)).run()
    assert report.result == {"c": "order ", "b": "orders//1"}
    said = {one["place"]: one["message"] for one in of_run(report)}
    assert said.keys() == {"next.use.args.c", "input.b"}
    assert "puts nothing into its text for `fetch.missing`, which is undefined" in said["input.b"]


def test_what_the_language_itself_writes_into_a_loop_around_steps_is_not_warned_of() -> None:
    steps = """
        - step: cities
          loop: {in: [oslo, rome], iterator: city}
          next: get
        - step: get
          when: "{{ city == 'rome' }}"
          tool: {kind: noop, input: {c: "{{ city }}"}}
          next: done
        - step: done
          end_loop: cities
          result: {n: "{{ cities_results | length }}"}
    """
    report = Simulation(playbook(steps)).run()
    assert (report.row.status, report.ctx["n"]) == ("completed", 2)
    assert of_run(report) == []


def test_a_step_whose_when_does_not_hold_says_so() -> None:
    sim = Simulation(playbook('- {step: start, when: "{{ 1 > 2 }}", tool: {kind: noop}}'))
    run = sim.start()
    sim.settle()
    skipped = next(event.fact for event in sim.events(run) if isinstance(event.fact, StepSkipped))
    assert skipped.reason == "`{{ 1 > 2 }}` does not hold"


BRANCHES = """
    - step: start
      tool: {kind: noop, input: {n: 1}}
      next: {arcs: [{step: a, when: "{{ start.n > 5 }}"}, {step: b}]}
    - step: a
      tool: {kind: noop, input: {v: 1}}
      next: end
    - step: b
      when: "{{ false }}"
      tool: {kind: noop, input: {v: 2}}
      next: end
    - step: end
      INPUT
"""


@pytest.mark.parametrize(
    ("place", "read", "why"),
    [
        ("tool: {kind: noop, input: {x: READ}}", "{{ a.v + 1 }}", "Step 'a' did not run"),
        ("tool: {kind: noop, input: {x: READ}}", "{{ b.v + 1 }}", "Step 'b' was skipped"),
        ("input: {x: READ}", "{{ a.v + 1 }}", "Step 'a' did not run"),
        ("set: {ctx.x: READ}", "{{ b.v + 1 }}", "Step 'b' was skipped"),
    ],
)
def test_reading_a_step_that_did_not_run_says_so_and_what_to_write(place: str, read: str, why: str) -> None:
    report = Simulation(playbook(BRANCHES.replace("INPUT", place.replace("READ", f'"{read}"')))).run()
    assert report.error is not None
    assert report.error["message"].endswith(f"{why}: write `| default(...)` where it may be absent.")


def test_what_became_null_because_its_step_did_not_run_says_so() -> None:
    steps = BRANCHES.replace("INPUT", 'tool: {kind: noop, input: {x: "{{ a.v }}", y: "{{ b }}-"}}')
    messages = [one["message"] for one in of_run(Simulation(playbook(steps)).run())]
    assert [message.rpartition(": ")[2] for message in messages] == [
        "step 'a' did not run.",
        "step 'b' was skipped.",
    ]


def test_a_variable_of_the_environment_that_is_not_there_names_the_setting() -> None:
    sim = Simulation(
        playbook(
            '- {step: start, tool: {kind: noop, input: {x: "{{ env.STAGE }}"}}}',
            'workload: {s: "{{ env.STAGE }}"}',
        )
    )
    found = of_run(sim.run())
    assert len(found) == 2
    assert all(
        one["message"].endswith(": STAGE is not set, or NOETL_ENV_ALLOW does not name it.") for one in found
    )
    assert {one["hint"] for one in found} == {"write `| default(...)` where it may be absent"}
