"""`now()` is refused where it would always fail, and nowhere else."""

from __future__ import annotations

import pytest

from noetl.dsl import Code, compile_playbook
from noetl.testing import Simulation
from noetl.tools.kit.registry import kinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: clock, path: a/clock}\n"
NOW = '"{{ now() }}"'

REFUSED = [
    f"workflow: [{{step: start, tool: {{kind: noop, input: {{at: {NOW}}}}}}}]",
    f"workflow: [{{step: start, tool: {{kind: noop, result: {NOW}}}}}]",
    f"workflow: [{{step: start, tool: [{{kind: noop}}, {{name: b, kind: noop, args: {{at: [{NOW}]}}}}]}}]",
    f"workflow: [{{step: start, tool: [{{b: {{kind: noop, args: {{at: {NOW}}}}}}}]}}]",
    f"workflow: [{{step: start, tool: {{kind: noop, loop: {{in: {NOW}, iterator: n}}}}}}]",
    f"workbook: {{w: {{kind: noop, input: {{at: {NOW}}}}}}}\nworkflow: [{{step: start, tool: w}}]",
    "workflow: [{step: start, loop: {in: [1], iterator: n}, input: {at: '{{ now() }}{{ n }}'}, tool: "
    "{kind: noop}}]",
    "workflow: [{step: start, tool: {kind: noop, spec: {policy: {rules: [{when: '{{ now() }}', then: "
    "{do: continue}}]}}}}]",
    "workflow: [{step: start, spec: {policy: {rules: [{when: '{{ now() }}', then: {do: continue}}]}}, "
    "tool: {kind: noop}}]",
    "workflow: [{step: start, tool: {kind: noop, spec: {policy: {rules: [{when: '{{ error }}', then: "
    "{do: retry, "
    "delay: '{{ 1 if now() else 2 }}'}}, {else: {do: continue}}]}}}}]",
    "workflow: [{step: start, tool: {kind: noop, spec: {timeout: '{{ 1 if now() else 2 }}'}}}]",
    "workflow: [{step: start, spec: {timeout: '{{ 1 if now() else 2 }}'}, tool: [{kind: noop}, {kind: "
    "noop}]}]",
    "executor: {spec: {timeout: '{{ 1 if now() else 2 }}'}}\nworkflow: [{step: start, tool: {kind: noop}}]",
]
RIGHT = [
    f"workload: {{at: {NOW}}}\nctx: {{at: {NOW}}}\nworkflow: [{{step: start}}]",
    f"workflow: [{{step: start, input: {{at: {NOW}}}, tool: {{kind: noop, input: {{x: '{{{{ at }}}}'}}}}}}]",
    f"workflow: [{{step: start, tool: {{kind: noop, set: {{ctx.at: {NOW}}}}}, set: {{ctx.b: {NOW}}}}}]",
    f"workflow: [{{step: start, tool: {{kind: noop}}, next: [{{step: end, args: {{at: {NOW}}}}}]}}, "
    f"{{step: end}}]",
    "workflow: [{step: start, loop: {in: '{{ [now()] }}', iterator: n}, input: {at: '{{ now() }}'}, "
    "tool: {kind: noop}}]",
    "workflow: [{step: start, tool: {kind: noop, spec: {policy: {rules: [{else: {do: continue, set: "
    "{ctx.x: '{{ now() }}'}}}]}}}}]",
    "workflow: [{step: start, spec: {policy: {admit: {rules: [{when: '{{ now() }}', then: {allow: "
    "true}}]}}}, tool: {kind: noop}}]",
    "workload: {now: 5}\nworkflow: [{step: start, tool: {kind: noop, input: {at: '{{ now }}'}}}]",
]


@pytest.mark.parametrize("text", REFUSED)
def test_now_in_what_a_task_renders_is_an_error_with_the_way_to_do_it(text: str) -> None:
    [problem] = compile_playbook(HEAD + text, file="p", kinds=kinds()).errors
    assert problem.code is Code.NO_CLOCK
    assert "at the step" in problem.hint
    # What was registered before is started, and fails as it did.
    assert [
        one.code for one in compile_playbook(HEAD + text, file="p", kinds=kinds(), lenient=True).errors
    ] == []


@pytest.mark.parametrize("text", RIGHT)
def test_now_where_it_is_recorded_is_right(text: str) -> None:
    assert compile_playbook(HEAD + text, file="p", kinds=kinds()).problems == ()
    assert Simulation(HEAD + text).run().as_json()["status"] == "completed"
