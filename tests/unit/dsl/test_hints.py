"""Somebody without a manual: what is wrong is told at its place, with a hint that leads to the
cure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled

Compile = Callable[[str], Compiled]


def _given(value: str, more: str = "") -> str:
    return f"{more}workflow:\n- step: start\n  tool: {{kind: noop, input: {{x: '{value}'}}}}\n"


def _led(guard: str, more: str = "") -> str:
    return (
        f"{more}workflow:\n- step: start\n  tool: {{kind: noop}}\n  set: {{ctx.counter: 1}}\n"
        f'  next: {{arcs: [{{step: end, when: "{guard}"}}]}}\n- step: end\n'
    )


_WORKLOAD = "workload: {api_url: x, db: {host: h}}\n"
_SPECS = """\
executor: {spec: {entrystep: a, mode: parallel}}
workflow:
- step: start
  spec: {polcy: {}, policy: {admitt: {}}}
  loop: {in: [1], iterator: n, max_in_flight: 2, spec: {mod: parallel}}
  tool: {kind: http, url: x, spec: {rules: [], timeut: 1, join: all}}
"""

#: (text, words of it at which the problem points, hint)
NAMES = [
    (_given("{{ workload.api_ulr }}", _WORKLOAD), "workload.api_ulr", "did you mean 'api_url'?"),
    (
        _given("{{ workload.token }}", _WORKLOAD),
        "workload.token",
        "add it to workload: (null where a run gives it)",
    ),
    (_given("{{ workload.db.hots }}", _WORKLOAD), "workload.db.hots", "did you mean 'host'?"),
    (_given("{{ db.hots }}", _WORKLOAD), "db.hots", "did you mean 'host'?"),
    (_led("{{ ctx.conter > 1 }}"), "ctx.conter", "did you mean 'counter'?"),
    (_led("{{ vars.conter > 1 }}"), "vars.conter", "did you mean 'counter'?"),
    (_led("{{ event.nme == 1 }}"), "event.nme", "did you mean 'name'?"),
    (_led("{{ outcome.stauts == 1 }}"), "outcome.stauts", "did you mean 'status'?"),
    (_led("{{ output.error.retriable }}"), "output.error.retriable", "did you mean 'retryable'?"),
    (_given("{{ result.n }}"), "result.n", "steps and tasks are read by their names"),
    (
        _given("{{ error.message }}"),
        "error.message",
        "hand it over where it is there: with args of the arc, or set in a rule or arc",
    ),
    (_given("{{ len(workload) }}"), "len(", "write x | length"),
    (_given("{{ int(execution_id) }}"), "int(", "int is a filter: write x | int"),
    (_led("{{ ctx.counter == null }}"), "null", "write none"),
]

#: The same, of templates that cannot be parsed: they are pointed at as a whole.
SYNTAX = [
    ("ctx.counter = 1", "write `==` to compare"),
    ("ctx.counter === 1", "write `==` or `!=`"),
    ("{{ ctx.counter && true }}", "write `and`"),
    ("{{ ctx.counter || true }}", "write `or`"),
    ("{{ !ctx.counter }}", "write `not`"),
    ("{{ ctx.counter ? 1 : 2 }}", "write `a if condition else b`, or default(...)"),
    ("${ctx.counter}", "names stand without $"),
    ("{{ {{ ctx.counter }} }}", "one pair of braces is enough"),
    ("{{ 'a && b' ~ }}", ""),
]

YAML = [
    ("- step: start\n   tool: x\n", ": x", "indent this one like the keys beside it"),
    ("- step: start\n  desc: a: b\n", ": b", "quote texts that contain ': '"),
    (
        "- {step: start, tool: {kind: noop input: {}}}\n",
        ": {}}}",
        "the bracket of line 5, column 23 is still open",
    ),
    (
        "- {step: start, tool: {kind: noop}\n- step: end\n",
        "- step: end",
        "the bracket of line 5, column 3 is still open",
    ),
    ("- step: start\n  tool: {kind: noop}}\n", "}\n", "remove it: no bracket is open here"),
    ('- step: start\n  desc: "x\n- step: end\n', '"x', "close the quote that opens here"),
    ('- step: start\n  desc: "\\d"\n', "\\d", r"write \\ for a backslash, or put the text in single quotes"),
    ("- step: start\n  desc: @x\n", "@x", "quote texts that begin with @"),
    ("- step: start\n  desc: *\n", "\n", "quote texts that begin with * or &"),
    ("- step: start\n  tool\n", "tool\n", "write key: value"),
    ("- step: start\n next: end\n", "next: end", "indent it like what it belongs to"),
    ("- {step: start, desc: |\n  x}\n", "|", "texts of several lines cannot stand inside of { } or [ ]"),
]


def _told(found: Compiled, text: str) -> list[tuple[str, str]]:
    """What stands at each problem, and its hint."""
    lines = ["", "", "", *text.split("\n")]
    return [("\n".join([lines[p.line - 1][p.column - 1 :], ""]), p.hint) for p in found.problems]


@pytest.mark.parametrize(("text", "words", "hint"), NAMES)
def test_a_name_that_means_nothing_is_reported_with_the_one_that_was_meant(
    body: Compile, text: str, words: str, hint: str
) -> None:
    found = body(text)
    assert [problem.code for problem in found.problems] == [Code.UNDEFINED]
    [(place, told)] = _told(found, text)
    assert place.startswith(words)
    assert told == hint


#: A step whose rule, `set`, guard and arc can be given a template.
_OUTCOMES = (
    'workflow:\n- step: start\n  tool: {{kind: {kind}, command: x, set: {{b: "{task}"}}, '
    'spec: {{policy: {{rules: [{{when: "{rule}", then: {{do: break}}}}, {{else: {{then: {{do: '
    "fail}}}}}}]}}}}}}\n"
    '  set: {{ctx.c: "{step}"}}\n  next: {{arcs: [{{step: end, when: "{arc}", args: {{a: '
    '"{args}"}}}}]}}\n- step: end\n'
)
_WELL = {
    "kind": "shell",
    "task": "{{ output.stdout }}",
    "rule": "{{ output.sh.code or outcome.meta.x or output.error.type }}",
    "step": "{{ outcome.result.stdout }}{{ output.data.stdout }}{{ output.http.status }}",
    "arc": "{{ output.status == 1 and response.stdout and output.stdout is not defined }}",
    "args": "{{ result.stdout }}",
}


def test_what_outcomes_have_is_not_warned_of(body: Compile) -> None:
    assert body(_OUTCOMES.format(**_WELL)).problems == ()


@pytest.mark.parametrize(
    ("place", "chain", "hint"),
    [
        ("task", "outcome.stdout", "outcome is the whole outcome: write outcome.data.stdout"),
        ("rule", "output.stdout", "output is the whole outcome: write output.data.stdout"),
        ("step", "output.rows.first", "output is the whole outcome: write output.data.rows.first"),
        ("arc", "output.pg", "output is the whole outcome: write output.data.pg"),
        ("args", "outcome.reslt", "did you mean 'result'?"),
    ],
)
def test_who_takes_an_outcome_for_its_result_is_warned(
    body: Compile, place: str, chain: str, hint: str
) -> None:
    text = _OUTCOMES.format(**_WELL | {place: f"{{{{ {chain} }}}}"})
    found = body(text)
    [(at, told)] = _told(found, text)
    assert (at.startswith(chain), told) == (True, hint)
    assert found.problems[0].code == Code.UNDEFINED
    # Of a kind that does not tell what its outcomes have, only what is nearly something is told.
    foreign = body(text.replace("kind: shell", "kind: noop").replace(", command: x", ""))
    assert [problem.hint for problem in foreign.problems] == [hint] * ("did you" in hint)


@pytest.mark.parametrize(
    "template",
    [
        "{{ workload.token | default(1) }}{{ ctx.conter is defined }}",
        "{{ workload.items() }}{{ workload.db.port }}{{ workload.api_url.data }}",
        "{{ db.port }}{{ db.host.hots }}{{ api_url.data }}{{ counter.db.hots }}",
        "{{ ctx.other }}{{ vars.counter.deep }}{{ workload }}",
    ],
)
def test_names_that_a_run_may_give_and_those_asked_for_are_not_warned_of(
    body: Compile, template: str
) -> None:
    assert body(_led(template, _WORKLOAD)).problems == ()


def test_of_a_playbook_that_declares_no_workload_nothing_is_said_of_it(body: Compile) -> None:
    assert body(_given("{{ workload.token }}")).problems == ()


def test_a_name_that_hides_a_value_of_the_workload_is_read_as_itself(body: Compile) -> None:
    steps = "- {step: start, input: {db: {hots: 1}}, tool: {kind: noop, input: {x: '{{ db.hots }}'}}}"
    assert body(f"{_WORKLOAD}workflow:\n{steps}\n").problems == ()


@pytest.mark.parametrize(
    "steps",
    [
        "- {step: start, tool: {kind: noop, input: {result: 1}, set: {x: '{{ result.a }}'}}}",
        "- {step: start, input: {error: 1}, tool: {kind: noop, input: {x: '{{ error.mesage }}'}}}",
        "- {step: start, tool: [{kind: noop}, {kind: noop, input: {x: '{{ error.message }}'}, spec: "
        "{after: true}}]}",
        "- {step: start, tool: {kind: noop, repeat: {next: {args: {n: '{{ result.n }}'}}, max: 2}}}",
        "- {step: start, next: error}\n- {step: error, tool: {kind: noop}, next: e}\n"
        "- {step: e, tool: {kind: noop, input: {x: '{{ error.mesage }}'}}}",
    ],
)
def test_names_of_ends_are_read_where_something_gives_them(body: Compile, steps: str) -> None:
    assert body(f"workflow:\n{steps}\n").problems == ()


@pytest.mark.parametrize(("guard", "hint"), SYNTAX)
def test_words_of_other_languages_are_reported_in_those_of_templates(
    body: Compile, guard: str, hint: str
) -> None:
    found = body(_led(guard))
    assert [(problem.code, problem.hint) for problem in found.problems] == [(Code.TEMPLATE, hint)]


@pytest.mark.parametrize(("steps", "words", "hint"), YAML)
def test_anything_but_yaml_is_reported_where_its_cure_is(
    body: Compile, steps: str, words: str, hint: str
) -> None:
    text = f"workflow:\n{steps}"
    found = body(text)
    assert [problem.code for problem in found.problems] == [Code.SYNTAX]
    [(place, told)] = _told(found, text)
    assert place.startswith(words)
    assert hint in told


def test_unknown_keys_of_every_spec_are_reported_with_the_place_that_has_them(body: Compile) -> None:
    found = body(_SPECS)
    assert {problem.code for problem in found.problems} == {Code.UNKNOWN_KEY, Code.MISSPELT_KEY}
    assert [(place.partition(":")[0], hint) for place, hint in _told(found, _SPECS)] == [
        ("entrystep", "did you mean 'entry_step'?"),
        ("mode", "put it under the spec of the loop"),
        ("polcy", "did you mean 'policy'?"),
        ("admitt", "did you mean 'admit'?"),
        ("max_in_flight", "put it under spec:"),
        ("mod", "did you mean 'mode'?"),
        ("rules", "put it under policy:"),
        ("timeut", "did you mean 'timeout'?"),
        ("join", "put it under the spec of the step"),
    ]


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ("tool: {kind: http, url: x}\n  headers: {a: b}", "put it under tool:"),
        ("tool: {kind: http, url: x, next: end}", "put it beside tool:"),
        ("tool: {kind: noop}\n  arcs: [{step: end}]", "put it under next:"),
    ],
)
def test_a_key_at_the_wrong_depth_is_reported_where_it_belongs(body: Compile, step: str, hint: str) -> None:
    found = body(f"workflow:\n- step: start\n  {step}\n- step: end\n").problems
    assert [problem.hint for problem in found if problem.code is Code.UNKNOWN_KEY] == [hint]


def test_the_root_keys_of_other_engines_are_led_to_the_workflow(body: Compile) -> None:
    found = {problem.message: problem.hint for problem in body("steps:\n- {step: start}\n").problems}
    assert found["the key 'steps' means nothing here"] == "write the steps under workflow:"


def test_a_spec_may_say_what_a_kind_has_defaults_for(body: Compile) -> None:
    steps = (
        "- {step: start, spec: {retries: {max: 2}}, tool: {kind: http, url: x, spec: {retries: {max: 3}}}}"
    )
    assert body(f"executor: {{spec: {{retries: {{max: 1}}}}}}\nworkflow:\n{steps}\n").problems == ()


def test_a_decision_with_a_misspelt_branch_is_reported(body: Compile) -> None:
    text = "workflow:\n- step: start\n  next: [{when: '{{ ctx.x }}', thn: [end], else: [end]}]\n- step: end\n"
    assert [(p.code, p.hint) for p in body(text).problems if p.code is Code.MISSPELT_KEY] == [
        (Code.MISSPELT_KEY, "did you mean 'then'?")
    ]


def test_a_kind_in_the_place_of_the_tool_learns_how_to_write_it(body: Compile) -> None:
    found = body("workflow:\n- step: start\n  tool: python\n  code: result = 1\n")
    assert [(problem.code, problem.hint) for problem in found.problems] == [
        (Code.UNKNOWN_TASK, "write tool: {kind: python, ...} with what the tool needs"),
        (Code.MISPLACED, "put it under tool: with its kind"),
    ]


@pytest.mark.parametrize(
    ("tool", "hint"),
    [
        ("{type: http, url: x}", "did you mean 'kind' by 'type'?"),
        ("{knd: http, url: x}", "did you mean 'kind' by 'knd'?"),
    ],
)
def test_a_task_without_kind_is_reported_which_key_was_meant(body: Compile, tool: str, hint: str) -> None:
    found = body(f"workflow:\n- step: start\n  tool: {tool}\n")
    assert [(problem.code, problem.hint) for problem in found.problems] == [(Code.MISSING, hint)]


def test_another_line_that_python_names_is_that_of_the_playbook(body: Compile) -> None:
    found = body(
        "workflow:\n- step: start\n  tool:\n    kind: python\n    code: |\n      x = 1\n      def f():\n "
        "     return 1\n"
    )
    assert [(problem.line, problem.message) for problem in found.problems] == [
        (11, "python: expected an indented block after function definition on line 10")
    ]


def test_a_fault_that_an_alias_repeats_is_reported_once(body: Compile) -> None:
    text = "workflow:\n- {step: start, tool: &t {kind: nop}, next: end}\n- {step: end, tool: *t}\n"
    assert [problem.code for problem in body(text).problems] == [Code.UNKNOWN_KIND]


def test_a_secret_beside_the_keys_of_an_entry_is_one_in_plain_text_and_shown_nowhere(body: Compile) -> None:
    found = body(
        "keychain: [{name: shop, kind: oauth2, client_secret: hunter2hunter2}]\n"
        "workflow: [{step: start, tool: {kind: noop}}]\n"
    )
    assert [problem.code for problem in found.problems] == [Code.IN_PLAIN_TEXT]
    assert "hunter2" not in found.shown


def test_what_an_entry_of_the_keychain_needs_is_said_of_the_kind_that_it_names(body: Compile) -> None:
    found = body("keychain: [{name: shop, kind: oauth2}]\nworkflow: [{step: start, tool: {kind: noop}}]\n")
    assert [problem.message for problem in found.problems] == ["a keychain entry of kind oauth2 needs `auth`"]


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ("loop: '{{ xs }}'\n  tool: {kind: noop}", "write loop: {in: ..., iterator: item}"),
        ("next: {arcs: {step: end}}", "write arcs: [{step: name}]"),
        ("tool: {kind: noop, input: 5}", "write input: {name: value}"),
        ("tool: {kind: noop, set: [a]}", "write set: {ctx.name: value}"),
    ],
)
def test_a_value_of_the_wrong_form_has_a_hint_at_the_right_one(body: Compile, step: str, hint: str) -> None:
    found = body(f"workflow:\n- step: start\n  {step}\n- step: end\n").problems
    assert [problem.hint for problem in found if problem.code is Code.TYPE] == [hint]
