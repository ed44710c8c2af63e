"""Every code is produced, at the right place, with a way out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from noetl.dsl import (
    MEANING,
    Code,
    Compiled,
    Problem,
    compile_playbook,
    json_schema,
    load_playbook,
)
from noetl.dsl.explain.rendering import render, render_problems
from noetl.dsl.problems import format_path, severity_of
from noetl.errors import PlaybookInvalid
from noetl.net.model import KindInfo
from tests.effort import calls

Compile = Callable[..., Compiled]

_TOOL = "tool: {kind: noop}"


def _many(count: int) -> str:
    return "workflow:\n" + "".join(f"- {{step: s{i}, next: s{(i + 1) % count}}}\n" for i in range(count))


#: (code, text below the header, line, word of message or hint)
SAMPLES = [
    (Code.YAML_1_1, f"workload: {{a: off}}\nworkflow: [{{step: a, {_TOOL}}}]", 4, "off"),
    (Code.TYPE, "workflow:\n- step: 5\n  tool: {kind: noop}", 5, 'quote it: "5"'),
    (Code.TYPE, "workflow: nothing", 4, "a list"),
    (Code.TYPE, f"workflow:\n- 7\n- {{step: a, {_TOOL}}}", 5, "a mapping"),
    (Code.MISSING, "workload: {}", 1, "no steps"),
    (Code.MISSING, "workflow:\n- tool: {kind: noop}", 5, "no name"),
    (Code.MISSING, "workflow:\n- name: x\n  tool: {kind: noop}", 5, "instead of name"),
    (Code.MISSING, "workflow:\n- step: a\n  tool: {url: x}", 6, "no kind"),
    (Code.MISSING, "workflow:\n- step: a\n  tool: {kind: http, method: GET}", 6, "url (or endpoint)"),
    (Code.MISSING, "workflow:\n- step: a\n  tool: {kind: http, url: ''}", 6, "url (or endpoint)"),
    (Code.MISSING, "workflow:\n- step: a", 5, "neither tool nor next"),
    (Code.MISSING, f"workflow:\n- {{step: a, loop: {{in: [1]}}, {_TOOL}}}", 5, "no iterator"),
    (Code.MISSING, f"workflow:\n- {{step: a, loop: {{iterator: i}}, {_TOOL}}}", 5, "what to loop over"),
    (Code.MISSING, "workflow:\n- step: start\n  next:\n    arcs: [{when: true}]", 7, "which step"),
    (Code.VALUE, f"workflow:\n- {{step: a, spec: {{join: al}}, {_TOOL}}}", 5, "'all'"),
    (Code.VALUE, f"workflow:\n- {{step: a, spec: {{join: {{count: 0}}}}, {_TOOL}}}", 5, "count is 0"),
    (
        Code.VALUE,
        f"workflow:\n- {{step: a, loop: {{in: [], iterator: i, mode: paralel}}, {_TOOL}}}",
        5,
        "'parallel'",
    ),
    (
        Code.VALUE,
        f"workflow:\n- {{step: a, loop: {{in: [], iterator: i, spec: {{max_in_flight: 0}}}}, {_TOOL}}}",
        5,
        "max_in_flight is 0",
    ),
    (Code.VALUE, "workflow:\n- {step: a, tool: {kind: noop, spec: {timeout: -1}}}", 5, "timeout"),
    (Code.VALUE, "workflow:\n- {step: a, tool: {kind: noop, spec: {timeout: {read: 1}}}}", 5, "one timeout"),
    (
        Code.VALUE,
        f"workflow:\n- {{step: a, spec: {{policy: {{failure: {{tolerate: {{percent: 101}}}}}}}}, {_TOOL}}}",
        5,
        "percent",
    ),
    (
        Code.VALUE,
        f"workflow:\n- {{step: a, spec: {{policy: {{failure: {{mode: run_all}}}}}}, {_TOOL}}}",
        5,
        "run_all is about loops",
    ),
    (Code.NAME, f"workflow:\n- {{step: '{'x' * 10_000}', {_TOOL}}}", 5, "10,000"),
    (Code.NAME, f"workflow:\n- {{step: ../../x, {_TOOL}}}", 5, "'/'"),
    (Code.NAME, f'workflow:\n- {{step: "a\\nb", {_TOOL}}}', 5, "\\n"),
    (Code.NAME, f"workflow:\n- {{step: 'a->b', {_TOOL}}}", 5, "->"),
    (Code.NAME, f"workflow:\n- {{step: a, loop: {{in: [], iterator: a-b}}, {_TOOL}}}", 5, "letters"),
    (Code.NAME, "workflow:\n- {step: a, tool: {kind: noop, name: a#1}}", 5, "'#'"),
    (Code.DUPLICATE_NAME, f"workflow:\n- {{step: a, {_TOOL}}}\n- {{step: a, {_TOOL}}}", 6, "line 5"),
    (
        Code.DUPLICATE_NAME,
        "workflow:\n- step: a\n  tool:\n  - {name: x, kind: noop}\n  - {name: x, kind: noop}",
        8,
        "'x'",
    ),
    (Code.TOO_MANY_STEPS, _many(1_001), 4, "1,001"),
    (
        Code.CLAIM,
        f"workflow:\n- {{step: a, loop: {{cursor: {{kind: postgres, claim: SELECT 1}}, iterator: i}}, "
        f"{_TOOL}}}",
        5,
        "for ever",
    ),
    (
        Code.UNSOUND,
        "workflow:\n- {step: a, next: [b, c]}\n- {step: b, next: {step: d, when: '{{ ctx.x }}'}}\n"
        f"- {{step: c, next: d}}\n- {{step: d, spec: {{join: all}}, {_TOOL}}}",
        8,
        "for ever",
    ),
    (
        Code.MISPLACED,
        "workflow:\n- {step: a, tool: {kind: noop, loop: {in: [], iterator: i, spec: {mode: parallel}}}}",
        5,
        "loop on a step",
    ),
    (
        Code.UNSUPPORTED,
        "executor: {requires: {noetl: '>=99'}}\nworkflow:\n- {step: a, tool: {kind: noop}}",
        4,
        "requires noetl >=99",
    ),
    (Code.MISPLACED, "workflow:\n- step: end\n  command: ls", 6, "under tool:"),
    (Code.SCOPE, f"workflow:\n- step: a\n  {_TOOL}\n  set: {{workload.x: 1}}", 7, "ctx.x"),
    (Code.SCOPE, f"workflow:\n- step: a\n  {_TOOL}\n  set: {{iter.x: 1}}", 7, "outside"),
    (Code.SCOPE, f"workflow:\n- step: a\n  {_TOOL}\n  set: {{ctx.: 1}}", 7, "nothing to assign"),
    (
        Code.UNREDUCED,
        "workflow:\n- step: a\n  loop: {in: [], iterator: i, mode: parallel}\n  tool: {kind: noop, set: "
        "{ctx.n: 1}}",
        7,
        "reduce",
    ),
    (
        Code.NO_CLOCK,
        "workflow:\n- step: a\n  tool: {kind: noop, input: {at: '{{ now() }}'}}",
        6,
        "at the step",
    ),
    (
        Code.REGION,
        f"regions: {{r: {{steps: [a, b]}}, s: {{steps: [b, c]}}}}\nworkflow:\n- {{step: a, {_TOOL}}}\n"
        f"- {{step: b, {_TOOL}}}\n- {{step: c, {_TOOL}}}",
        4,
        "inside of the other",
    ),
    (
        Code.HANDLER,
        f"workflow:\n- {{step: a, compensate: b, {_TOOL}, next: b}}\n- {{step: b, {_TOOL}}}",
        6,
        "no arc leads to",
    ),
    (
        Code.INPUT,
        f"inputs: {{n: {{type: integer, default: 1}}}}\nworkload: {{n: 2}}\nworkflow: [{{step: a, {_TOOL}}}]",
        4,
        "two defaults",
    ),
    (Code.UNKNOWN_KEY, f"workflow:\n- step: a\n  {_TOOL}\n  descrpt: x", 7, "'desc'"),
    (Code.MISSPELT_KEY, f"workloads: {{}}\nworkflow: [{{step: a, {_TOOL}}}]", 4, "'workload'"),
    (Code.MISSPELT_KEY, "workflow:\n- step: a\n  tool: {kind: http, url: x, metod: GET}", 6, "'method'"),
    (Code.IGNORED, f"workflow:\n- step: a\n  {_TOOL}\n  output: {{x: 1}}", 7, "set:"),
    (Code.IGNORED, "workflow:\n- step: a\n  tool: {kind: noop, policy: {rules: []}}", 6, "spec:"),
    (
        Code.IGNORED,
        f"executor:\n  spec: {{policy: {{admit: {{}}}}}}\nworkflow:\n- step: a\n  {_TOOL}",
        5,
        "of the step",
    ),
    (
        Code.IGNORED,
        "workflow:\n- step: a\n  tool: {kind: noop, spec: {policy: {failure: {}}}}",
        6,
        "of the step",
    ),
    (Code.DEPRECATED, f"workflow:\n- step: a\n  {_TOOL}\n  set_ctx: {{x: 1}}", 7, "ctx.<name>"),
    (Code.UNKNOWN_STEP, f"workflow:\n- step: a\n  next: fetc\n- {{step: fetch, {_TOOL}}}", 6, "'fetch'"),
    (Code.UNKNOWN_STEP, f"executor: {{spec: {{entry_step: x}}}}\nworkflow: [{{step: a, {_TOOL}}}]", 4, "'x'"),
    (Code.UNKNOWN_KIND, "workflow:\n- step: a\n  tool: {kind: pyton, code: x}", 6, "'python'"),
    (Code.UNKNOWN_KIND, "workflow:\n- step: a\n  tool: {kind: snowflake}", 6, "available: duckdb, http"),
    (
        Code.IN_PLAIN_TEXT,
        f"keychain: [{{name: k, kind: static, value: x}}]\nworkflow: [{{step: a, {_TOOL}}}]",
        4,
        "set k",
    ),
    (
        Code.UNKNOWN_KEYCHAIN,
        "keychain: {db: {credential: c}}\nworkflow: [{step: a, tool: {kind: shell, command: '{{ "
        "keychain.dbb }}'}}]",
        5,
        "'db'",
    ),
    (Code.UNKNOWN_TASK, "workbook: {load: {kind: noop}}\nworkflow: [{step: a, tool: lod}]", 5, "'load'"),
    (
        Code.UNKNOWN_TASK,
        "workbook: {load: {kind: noop}, all: {kind: workbook, name: lod}}\nworkflow: [{step: a, tool: all}]",
        4,
        "'load'",
    ),
    (Code.TEMPLATE, "workflow:\n- step: a\n  tool: {kind: http, url: '{{ x +  }}'}", 6, "template"),
    (
        Code.TEMPLATE,
        "workflow:\n- step: a\n  tool:\n    kind: shell\n    command: |\n      a\n      {{ b | nope }}",
        10,
        "nope",
    ),
    (
        Code.TEMPLATE,
        "workflow:\n- step: start\n  next: [{step: end, when: 'a =='}]\n- step: end",
        6,
        "template",
    ),
    (
        Code.PYTHON,
        "workflow:\n- step: a\n  tool:\n    kind: python\n    code: |\n      x = 1\n      def f(:\n",
        10,
        "python",
    ),
    (
        Code.UNDEFINED,
        "workload: {city: 1}\nworkflow:\n- step: a\n  tool: {kind: http, url: '{{ cty }}'}",
        7,
        "'city'",
    ),
    (
        Code.TEMPLATE_IN_CODE,
        "workflow:\n- step: a\n  tool:\n    kind: python\n    code: |\n      x = 1\n      y = '{{ a.b }}'\n",
        10,
        "input:",
    ),
    (
        Code.TEMPLATE_IN_CODE,
        "workflow:\n- step: a\n  tool:\n    kind: duckdb\n    params: {n: 1}\n    command: |\n      "
        "select 1\n"
        "      from {{ a.b }} where n = :n\n",
        11,
        "bind it in params:",
    ),
    (
        Code.TEMPLATE_IN_CODE,
        "workflow:\n- step: a\n  loop:\n    iterator: row\n    cursor:\n      kind: duckdb\n      "
        "params: {n: 1}\n"
        "      claim: delete from {{ a.b }} where n = :n returning n\n  tool: {kind: noop}\n",
        11,
        "bind it in params:",
    ),
    (
        Code.UNDEFINED_IN_CODE,
        "workflow:\n- step: a\n  tool:\n    kind: python\n    input: {price: 1}\n    code: |\n      n = "
        "1\n      result = prize * n\n",
        11,
        "price",
    ),
    (
        Code.SQL_INTERPOLATION,
        "workload: {n: 1}\nworkflow:\n- step: a\n  tool:\n    kind: postgres\n    command: |\n      "
        "select 1\n"
        "      where a = '{{ n }}'\n",
        11,
        "params",
    ),
    (
        Code.GUARD_IS_TEXT,
        'workload: {n: 1}\nworkflow:\n- step: a\n  next:\n    arcs:\n    - step: b\n      when: "{{ n }} '
        '== 1"\n'
        "- step: b\n  tool: {kind: noop}\n",
        10,
        "inside",
    ),
    (
        Code.CIRCLE,
        "workload:\n  a: '{{ b }}'\n  b: '{{ a }}'\nworkflow: [{step: start}]\n",
        5,
        "write one of them out",
    ),
    (
        Code.LOOP_OVER_NAME,
        "workload: {rows: [1]}\nworkflow:\n- step: start\n  loop: {in: rows, iterator: row}\n  tool: "
        "{kind: noop}\n",
        7,
        'write in: "{{ rows }}"',
    ),
    (
        Code.UNNAMED_RESULT,
        "workflow:\n- step: a\n  tool: {kind: noop, spec: {policy: {rules: [{else: {set: {ctx.n: '{{ a.n "
        "}}'}}}]}}}\n",
        6,
        "write output.data.n",
    ),
    (
        Code.NO_PREVIOUS,
        "workflow:\n- step: a\n  tool: {kind: noop, spec: {policy: {rules: [{else: {do: jump, to: "
        "previous}}]}}}",
        6,
        "first",
    ),
    (Code.UNREACHABLE, f"workflow:\n- {{step: a, {_TOOL}}}\n- {{step: b, {_TOOL}}}", 6, "'b'"),
    (Code.SELF_LOOP, "workflow:\n- {step: a, next: a}", 5, "itself"),
    (Code.ENDLESS, "workflow:\n- {step: a, next: b}\n- {step: b, next: a}", 5, "a, b"),
    (
        Code.CHANGED,
        "workflow:\n- step: a\n  tool: {kind: noop, spec: {policy: {rules: [{when: '{{ result.x }}', "
        "then: {do: break}}]}}}",
        6,
        "else",
    ),
    (
        Code.JOIN_COUNT,
        f"workflow:\n- {{step: a, spec: {{join: {{count: 3}}}}, {_TOOL}}}",
        5,
        "3 tokens, but 1",
    ),
]
#: Warnings of names and of the flow; `test_diagnostics` has their samples.
ELSEWHERE = {
    *(Code.UNKNOWN_RESULT, Code.OUTSIDE_OF_LOOP, Code.NOTHING_BEFORE, Code.TOO_EARLY, Code.UNREADABLE),
    *(Code.BUILT_IN, Code.SHADOWED_ARC, Code.JOIN_UNFILLED, Code.ENDLESS_JUMP, Code.RETRY_ONCE),
    *(Code.EVENT_NAME, Code.NO_RESULT, Code.UNDECLARED),
}
#: Codes of texts that are no document; `test_source` has their samples, too.
TEXTS = {
    Code.SYNTAX: "a: [",
    Code.ENCODING: b"\xff",
    Code.CHARACTER: "a: \0",
    Code.TOO_LARGE: " " * 300_000,
    Code.TOO_DEEP: "[" * 70,
    Code.TOO_MANY_NODES: "a: [" + "1," * 50_000 + "]",
    Code.ALIAS: "a: *b",
    Code.DUPLICATE_KEY: "a: 1\na: 1",
    Code.KEY_TYPE: "~: 1",
    Code.TAG: "a: !x 1",
    Code.NUMBER: "a: .nan",
    Code.ROOT: "[]",
    Code.MERGE: "a: {<<: 1}",
    Code.HEADER: "workflow: [{step: start}]",
}


@pytest.mark.parametrize(("code", "text", "line", "word"), SAMPLES, ids=lambda value: str(value)[:40])
def test_a_fault_is_named_at_its_line_with_a_way_out(
    body: Compile, code: Code, text: str, line: int, word: str
) -> None:
    found = [problem for problem in body(text).problems if problem.code == code]
    assert found, body(text).problems
    assert found[0].line == line
    assert word in f"{found[0].message} {found[0].hint}"


@pytest.mark.parametrize(("code", "text", "line", "word"), SAMPLES, ids=lambda value: str(value)[:40])
def test_one_fault_is_one_problem_of_its_severity(
    body: Compile, code: Code, text: str, line: int, word: str
) -> None:
    result = body(text)
    errors = {problem.code for problem in result.errors}
    assert errors == ({code} if severity_of(code) == "error" else set())
    assert (result.net is None) == bool(errors)


def test_every_code_is_unique_has_a_meaning_and_a_sample(compiled: Compile) -> None:
    # What a text can be guilty of; that its file is missing is found before there is one.
    # SQL is parsed by the tools (tests/integration/test_sql_syntax.py).
    produced = {Code.FILE, Code.SQL_SYNTAX, *ELSEWHERE} | {code for code, *_ in SAMPLES}
    for code, text in TEXTS.items():
        assert code in {problem.code for problem in compiled(text).problems}
        produced.add(code)
    assert produced == set(Code) == set(MEANING)
    assert len({code.value for code in Code}) == len(Code.__members__)


def test_all_faults_are_reported_together_in_the_order_of_the_text(body: Compile) -> None:
    text = (
        "workflow:\n- step: a\n  tool: {kind: pyton}\n  next: nowhere\n- step: 5\n  tool: 7\n"
        "- step: c\n  loop: {in: [1]}\n  tool: {kind: http}\n"
    )
    problems = body(text).problems
    assert [(problem.line, problem.code) for problem in problems] == [
        (6, Code.UNKNOWN_KIND),
        (7, Code.UNKNOWN_STEP),
        (8, Code.TYPE),
        (9, Code.TYPE),
        (11, Code.MISSING),
        (12, Code.MISSING),
    ]
    assert problems[0].path == "workflow[0].tool.kind"


@pytest.mark.parametrize(
    "shared",
    [
        "executor: {spec: {policy: {rules: ["
        + "{when: '{{ error }}', then: {do: continue}}," * 200
        + "]}}}\nworkflow:\n"
        + "".join(f"- {{step: s{i}, tool: {{kind: noop}}}}\n" for i in range(200)),
        "workbook: {big: {kind: shell, command: "
        + "x" * 100_000
        + "}}\nworkflow:\n"
        + "".join(f"- {{step: s{i}, tool: big}}\n" for i in range(200)),
    ],
    ids=["spec", "workbook"],
)
def test_what_tasks_share_stays_small(body: Compile, shared: str) -> None:
    assert [problem.code for problem in body(shared).errors] == [Code.TOO_LARGE]


@pytest.mark.full("2 s: long playbooks")
def test_each_of_very_many_unknown_names_is_as_much_work(body: Compile) -> None:
    def document(number: int) -> str:
        names = [f"{i:04}" * 25 for i in range(number)]
        return "workflow:\n" + "".join(f"- {{step: s{name}, next: t{name}}}\n" for name in names)

    assert len(body(document(1_000)).errors) == 1_000
    assert calls(lambda: body(document(900))) < 1.6 * calls(lambda: body(document(600)))


def test_strict_makes_warnings_errors(compiled: Compile) -> None:
    text = "apiVersion: noetl.io/v2\nkind: Playbook\nworkflow:\n- {step: start}\n- {step: end}\n"
    assert compiled(text).net is not None
    assert {problem.severity for problem in compiled(text).problems} == {"warning"}
    assert compiled(text, strict=True).net is None
    assert {problem.severity for problem in compiled(text, strict=True).problems} == {"error"}


def test_strict_leaves_notes_alone(compiled: Compile) -> None:
    rules = "[{when: '{{ error.retryable }}', then: {do: retry}}]"
    start = f"{{step: start, tool: {{kind: noop, spec: {{policy: {{rules: {rules}}}}}}}}}"
    head = "apiVersion: noetl.io/v2\nkind: Playbook\n"
    for strict in (False, True):
        found = compiled(f"{head}workflow:\n- {start}\n", strict=strict)
        assert [(one.code, one.severity) for one in found.problems] == [(Code.CHANGED, "note")]
        assert (found.errors, found.warnings, found.notes) == ((), (), found.problems)
        assert found.net is not None


def test_known_names_of_every_scope_are_not_warned_of(body: Compile) -> None:
    text = """\
keychain: {x: {credential: c}}
workload: {base: 'http://x', later: '{{ base }}/{{ execution_id }}/{{ env.HOME }}'}
workflow:
- step: start
  input: {given: 1}
  loop: {in: '{{ base }}', iterator: item}
  tool:
  - {name: first, kind: http, url: '{{ base }}{{ item }}{{ given }}{{ loop_index }}{{ iter.index }}'}
  - name: second
    kind: shell
    input: {own: '{{ first.data }}'}
    command: '{{ own }} {{ _prev }} {{ kept }} {% for x in first %}{{ x }}{% endfor %} {{ maybe | default(1) }}'
    set: {kept: '{{ result }}', ctx.total: 1}
  next: [{step: end, args: {handed: 1}, when: '{{ event.name and other is defined }}'}]
- step: end
  tool: {kind: shell, command: '{{ handed }} {{ total }} {{ start.results }} {{ ctx.any }} {{ keychain.x }}'}
"""
    assert body(text).problems == ()


@pytest.mark.parametrize(
    "sql",
    [
        "'{{ whole }}'",
        "select * from {{ whole }}",
        "select a = {{ whole | int }}",
        """insert into t values ('{{ whole | tojson | replace("'", "''") }}')""",
        "select a from t where run = {{ execution_id }} or run = '{{ job.uuid }}' or run in ({{ "
        "job.execution_id | string }})",
    ],
)
def test_sql_in_which_templates_are_no_values_is_not_warned_of(body: Compile, sql: str) -> None:
    text = f"workload: {{whole: 1}}\nworkflow:\n- step: a\n  tool:\n    kind: postgres\n    command: {sql}\n"
    assert [p.code for p in body(text).problems] == []


@pytest.mark.parametrize(
    "code",
    [
        "return {'a': 1}",
        "def main(x):\n  return x",
        "x = f'{{{1}}}'\nresult = '{{}}'.format(1)",
        "result = '\\d'",
    ],
)
def test_python_as_people_write_it_has_no_problems(body: Compile, code: str) -> None:
    block = "\n".join(f"      {line}" for line in code.splitlines())
    text = f"workflow:\n- step: a\n  tool:\n    kind: python\n    code: |\n{block}\n"
    assert body(text).problems == ()


def test_emoji_are_allowed_in_names(body: Compile) -> None:
    assert body("workflow:\n- {step: 🚀 launch, tool: {kind: noop}}\n").problems == ()


#: Code → its number, for ever. Codes are added, and never given another meaning.
NUMBERS = {
    "SYNTAX": 101, "ENCODING": 102, "CHARACTER": 103, "TOO_LARGE": 104, "TOO_DEEP": 105, "TOO_MANY_NODES": 106,
    "ALIAS": 107, "DUPLICATE_KEY": 108, "KEY_TYPE": 109, "TAG": 110, "NUMBER": 111, "ROOT": 112, "MERGE": 113,
    "FILE": 114, "YAML_1_1": 150, "TYPE": 201, "MISSING": 202, "VALUE": 203, "NAME": 204, "DUPLICATE_NAME": 205,
    "TOO_MANY_STEPS": 206, "UNSUPPORTED": 208, "MISPLACED": 209, "SCOPE": 210, "UNREDUCED": 211, "MISSPELT_KEY": 212, "NO_CLOCK": 213,
    "INPUT": 216, "REGION": 217, "HANDLER": 218,
    "UNKNOWN_KEY": 250, "IGNORED": 251, "HEADER": 252, "IN_PLAIN_TEXT": 253, "DEPRECATED": 254,
    "UNKNOWN_STEP": 301, "UNKNOWN_KIND": 302, "UNKNOWN_TASK": 303, "UNKNOWN_KEYCHAIN": 304, "UNKNOWN_RESULT": 350,
    "TEMPLATE": 401, "PYTHON": 402, "UNDECLARED": 420, "UNDEFINED": 450, "TEMPLATE_IN_CODE": 451, "SQL_INTERPOLATION": 452,
    "GUARD_IS_TEXT": 453, "OUTSIDE_OF_LOOP": 454, "NOTHING_BEFORE": 455, "TOO_EARLY": 456, "UNREADABLE": 457,
    "BUILT_IN": 458, "CIRCLE": 459, "LOOP_OVER_NAME": 460, "UNDEFINED_IN_CODE": 465, "SQL_SYNTAX": 466, "UNNAMED_RESULT": 469, "EVENT_NAME": 470, "NO_RESULT": 471, "NO_PREVIOUS": 501, "UNREACHABLE": 550, "SELF_LOOP": 551, "ENDLESS": 552,
    "JOIN_COUNT": 554, "SHADOWED_ARC": 555, "JOIN_UNFILLED": 556, "ENDLESS_JUMP": 557,
    "RETRY_ONCE": 558, "CLAIM": 559, "UNSOUND": 560, "CHANGED": 590,
}  # fmt: skip


def test_codes_keep_their_numbers() -> None:
    assert {code.name: code.value for code in Code} == {name: f"NOETL{n}" for name, n in NUMBERS.items()}


def test_the_text_form_shows_place_code_message_hint_and_the_line() -> None:
    problem = Problem(Code.TYPE, "error", "a.yaml", 2, 3, "b", "`b` must be text", 'quote it: "5"')
    first = 'a.yaml:2:3: error[NOETL201]: `b` must be text (quote it: "5")'
    assert render(problem) == str(problem) == first
    assert render(problem, "a:\n  b: 5\n").splitlines() == [first, "      b: 5", "      ^"]
    assert json.loads(json.dumps(problem.as_json()))["code"] == "NOETL201"


@pytest.mark.parametrize(
    ("line", "column", "shown", "caret"),
    [
        ("a:\t5", 4, "a: 5", 3),
        ("名前: 値, b: 5", 8, "名前: 値, b: 5", 10),
        ("🚀: x", 4, "🚀: x", 4),
        ("é: x", 4, "é: x", 3),
        ("x" * 200 + "!", 201, "x" * 79 + "!", 79),
    ],
)
def test_the_caret_stands_below_the_column_whatever_stands_before_it(
    line: str, column: int, shown: str, caret: int
) -> None:
    problem = Problem(Code.TYPE, "error", "a.yaml", 1, column, "", "x")
    assert render(problem, line).splitlines()[1:] == [f"    {shown}", " " * (4 + caret) + "^"]


def test_of_many_problems_of_one_code_the_text_shows_the_first_and_counts_the_rest() -> None:
    many = [Problem(Code.UNKNOWN_KEY, "warning", "a.yaml", n, 1, "", "x") for n in range(1, 58)]
    other = Problem(Code.TYPE, "error", "a.yaml", 99, 1, "", "y")
    lines = list(render_problems([*many, other]))
    assert lines[:21] == [*map(str, many[:20]), str(other)]
    assert lines[21:] == ["a.yaml: and 37 more of NOETL250"]


def test_paths_are_dotted() -> None:
    assert format_path(("workflow", 2, "tool", "kind")) == "workflow[2].tool.kind"
    assert format_path(()) == ""


def test_load_raises_with_all_problems(kinds: Mapping[str, KindInfo]) -> None:
    with pytest.raises(PlaybookInvalid, match=r"x\.yaml:1:1: error\[NOETL202\]") as caught:
        load_playbook("apiVersion: noetl.io/v9\n", file="x.yaml", kinds=kinds)
    assert {problem.code for problem in caught.value.problems} == {Code.VALUE, Code.MISSING, Code.HEADER}


def test_load_gives_the_net(kinds: Mapping[str, KindInfo]) -> None:
    assert load_playbook("workflow: [{step: start}]", file="dir/x.yaml", kinds=kinds).name == "x.yaml"


def test_the_schema_names_every_key_that_the_reader_knows() -> None:
    schema = json_schema({})
    assert {"apiVersion", "workflow", "tasks"} <= schema["properties"].keys()
    step = schema["$defs"]["Step"]
    assert {"step", "tool", "next", "loop", "case"} <= step["properties"].keys()
    assert step["properties"]["case"]["deprecated"] is True
    assert step["required"] == ["step"]
    assert {"in", "iterator"} <= schema["$defs"]["Loop"]["properties"].keys()
    json.dumps(schema)


def test_twice_as_many_steps_are_compiled_in_twice_the_work(kinds: Mapping[str, KindInfo]) -> None:
    def work(number: int) -> int:
        steps = "".join(
            f"- step: s{i}\n  tool: {{kind: python, code: 'result = {i}'}}\n"
            f"  next: {{arcs: [{{step: s{min(i + 1, number - 1)}, when: '{{{{ output.status }}}}'}}]}}\n"
            for i in range(number)
        )
        text = f"workflow:\n{steps}"
        # From the second time on templates are parsed already.
        assert compile_playbook(text, file="x", kinds=kinds).errors == ()
        return calls(lambda: compile_playbook(text, file="x", kinds=kinds))

    assert work(100) < 2.2 * work(50)
