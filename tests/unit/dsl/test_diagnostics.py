"""What is warned of, and what looks like it and is sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.explain.rendering import render
from noetl.net.model import KindInfo
from tests.effort import calls

Compile = Callable[[str], Compiled]

_ROUTER = "- step: start\n  tool: {kind: noop}\n  next:\n    spec: {mode: MODE}\n    arcs:\n"
_FORK = "- step: start\n  next: [a, b]\n- step: a\n  next: j\n- step: b\n  next: j\n"
_CHOICE = (
    "- step: start\n  next:\n    arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]\n"
    "- step: a\n  next: j\n- step: b\n  next: j\n"
)
_JOIN = "- step: j\n  spec: {join: JOIN}\n  tool: {kind: noop}\n"


def _join(steps: str, join: str = "all") -> str:
    return steps + _JOIN.replace("JOIN", join)


def _arcs(*arcs: str, mode: str = "exclusive") -> str:
    ends = "- {step: a, tool: {kind: noop}}\n- {step: b, tool: {kind: noop}}\n"
    return _ROUTER.replace("MODE", mode) + "".join(f"    - {arc}\n" for arc in arcs) + ends


def _tasks(first: str, second: str) -> str:
    return (
        f"- step: start\n  tool:\n  - {{name: one, kind: noop, spec: {{policy: {{rules: [{first}]}}}}}}\n"
        f"  - {{name: two, kind: noop, spec: {{policy: {{rules: [{second}]}}}}}}\n"
    )


def _input(template: str, *, more: str = "") -> str:
    return f"- step: start\n  tool: {{kind: noop, input: {{x: '{template}'}}}}\n  next: load\n{more}"


def _loop(template: str, more: str = "") -> str:
    return (
        "- step: start\n  loop: {in: [1], iterator: n}\n  tool:\n  - {name: first, kind: noop, set: "
        "{iter.size.b: 1}}\n"
        f"  - {{name: last, kind: noop, input: {{x: '{template}'}}{more}}}\n"
    )


_LOAD = "- step: load\n  tool: [{name: users, kind: noop}, {name: kept, kind: noop}]\n"
_KEEP = "- {when: '{{ error }}', then: {do: fail}}"

#: (code, steps, words of the text at which the problem points)
BAD = [
    (Code.SHADOWED_ARC, _arcs("{step: a}", "{step: b, when: '{{ ctx.x }}'}"), "{step: b, when"),
    (Code.SHADOWED_ARC, _arcs("{step: a, when: true}", "{step: b}"), "{step: b}"),
    (Code.SHADOWED_ARC, _arcs("{step: a, when: '{{ 1 == 1 }}'}", "{step: b}"), "{step: b}"),
    (Code.JOIN_UNFILLED, _join(_CHOICE), "j\n  spec"),
    (Code.JOIN_UNFILLED, _join(_CHOICE, "{count: 2}"), "j\n  spec"),
    (
        Code.JOIN_UNFILLED,
        _join(_CHOICE.replace("- step: a\n  next: j", "- step: a\n  next: aa\n- step: aa\n  next: j")),
        "j\n  spec",
    ),
    (Code.JOIN_UNFILLED, "- step: start\n  next: j\n" + _JOIN.replace("JOIN", "all") + "  next: c\n"
     "- step: c\n  next:\n    arcs: [{step: j, when: '{{ ctx.x }}'}]\n", "j\n  spec"),
    (Code.SELF_LOOP, "- step: start\n  tool: {kind: noop}\n  next: {step: start, when: '{{ true "
                     "}}'}\n", "start\n"),
    (Code.SELF_LOOP, _arcs("{step: start}", "{step: a}", "{step: b}", mode="inclusive"), "start\n"),
    (Code.ENDLESS, "- step: start\n  next: {step: c, when: 'true'}\n- step: c\n  next: start\n", "start\n"),
    (Code.ENDLESS_JUMP, _tasks("{else: {do: continue}}", "{else: {do: jump, to: one}}"), "{name: two"),
    (Code.ENDLESS_JUMP, _tasks("{else: {do: continue}}", "{when: true, then: {do: jump, to: "
                                                         "two}}"), "{name: two"),
    (Code.RETRY_ONCE, _tasks("{else: {do: retry, attempts: 1}}", "{else: {do: fail}}"), "1}}"),
    (Code.OUTSIDE_OF_LOOP, _input("{{ iter.n }}", more=_LOAD), "iter.n"),
    (Code.OUTSIDE_OF_LOOP, _input("{{ loop_index }}", more=_LOAD), "loop_index"),
    (Code.NOTHING_BEFORE, _input("{{ _prev.n }}", more=_LOAD), "_prev"),
    (Code.TOO_EARLY, _input("{{ load.n }}", more=_LOAD), "load.n"),
    # A way that only assigns leads nowhere (found by the fuzz test).
    (
        Code.TOO_EARLY,
        "- step: start\n  tool: {kind: noop, input: {x: '{{ a.n }}'}}\n  next: a\n"
        "- step: a\n  tool: {kind: noop}\n  next: {arcs: [{set: {last: 1}}]}\n",
        "a.n",
    ),
    (
        Code.UNKNOWN_RESULT,
        "- step: start\n  next: load\n" + _LOAD + "  next: e\n"
        "- step: e\n  tool: {kind: noop, input: {x: '{{ load.results.user }}'}}\n",
        "load.results.user",
    ),
    (
        Code.UNREADABLE,
        "- step: get-it\n  tool: {kind: noop}\n  next: e\n- step: e\n  tool: {kind: noop, input: {x: '{{ "
        "get-it.n }}'}}\n",
        "get-it.n",
    ),
    (
        Code.BUILT_IN,
        "- step: start\n  loop: {in: [1], iterator: job}\n  tool: {kind: noop, input: {x: '{{ job.id }}'}}\n",
        "job}",
    ),
    *(
        (Code.BUILT_IN, steps, "job: {id")
        for steps in (
            "- step: start\n  next: {step: poll, args: {job: {id: 7}}}\n"
            "- step: poll\n  tool: {kind: noop, input: {x: '{{ job.id }}'}}\n",
            "- step: start\n  input: {job: {id: 7}}\n  tool: {kind: noop, set: {ctx.x: '{{ job.id }}'}}\n",
            "- step: start\n  tool: {kind: noop, input: {job: {id: 7}}, set: {ctx.x: '{{ job.id }}'}}\n",
        )
    ),
    (Code.BUILT_IN, "- step: start\n  next: ctx\n- step: ctx\n  tool: {kind: noop}\n", "ctx\n  tool"),
    (Code.EVENT_NAME, _arcs("{step: a, when: \"{{ event.name == 'step.exti' }}\"}", "{step: b}"), "step.exti"),
    (Code.EVENT_NAME, _arcs("{step: a, when: \"event.name in ['step.enter']\"}", "{step: b}"), "step.enter"),
    (Code.EVENT_NAME, _arcs("{step: a, args: {x: \"{{ 'task.done' != event.name }}\"}}", "{step: b}", mode="inclusive"), "task.done"),
    (Code.UNDEFINED, "- step: start\n  tool: {kind: noop, spec: {queue: '{{ poll }}'}}\n", "poll }}"),
    *(
        (Code.NO_RESULT, "- step: start\n  tool: {kind: python, code: y = 1}\n" + more, "y = 1")
        for more in (
            "",
            "  set: {ctx.x: '{{ result }}'}\n  next: a\n- {step: a, tool: {kind: noop}}\n",
            "  next: a\n- {step: a, tool: {kind: noop, input: {x: '{{ start }}'}}}\n",
        )
    ),
    (
        Code.NO_RESULT,
        "- step: start\n  tool: [{name: one, kind: python, code: y = 1}, {kind: noop, input: {x: '{{ one }}'}}]\n",
        "y = 1",
    ),
    (Code.UNDEFINED, _loop("{{ iter.m }}"), "iter.m"),
    (Code.UNDEFINED, _loop("{{ 1 }}", ", spec: {policy: {rules: [{when: '{{ iter.m }}', then: {do: "
                                      "fail}}, {else: {do: fail}}]}}"), "iter.m"),
    (Code.UNDEFINED, _input("a {% if b %}{{ x }}{% endif %}", more=_LOAD), "b %}"),
]  # fmt: skip

#: Steps that are sound, each close to one of the above.
GOOD = [
    *(
        f"- step: start\n  tool:\n    kind: python\n    code: '{code}'\n  set: {{ctx.x: '{{{{ result }}}}'}}\n"
        for code in (
            "def main(): pass",
            "return 1",
            "for result in [1]: pass",
            "import sys as result",
            "exec(str())",
        )
    ),
    "- step: start\n  tool: {kind: python, code: print(1)}\n",
    "- step: start\n  tool: {kind: python, code: y = 1}\n  next: a\n- {step: a, tool: {kind: noop}}\n",
    *(
        f"- step: start\n  next: {{step: poll, args: {given}}}\n"
        f"- step: poll\n  tool: {{kind: noop, input: {{x: '{{{{ {read} }}}}'}}}}\n"
        for given, read in (
            ("{job: {id: 7}}", "args.job.id"),
            ("{job: {id: 7}}", "job.uuid"),
            ("{env: prod}", "env.HOME"),
            ("{execution_id: '{{ execution_id }}'}", "execution_id"),
        )
    ),
    *(
        _arcs(
            f"{{step: a, args: {{x: \"{{{{ event.name == '{name}' }}}}\"}}}}", "{step: b}", mode="inclusive"
        )
        for name in ("step.finished", "tool.finished", "loop.done", "step.timed_out", "step.cancelled")
    ),
    _arcs("{step: a, args: {event: {name: order}}}", "{step: b}", mode="inclusive").replace(
        "{step: a, tool: {kind: noop}",
        "{step: a, tool: {kind: noop, input: {x: \"{{ event.name == 'order' }}\"}}",
    ),
    _arcs("{step: a}", "{step: b, when: \"{{ outcome.status == 'error' }}\"}"),
    _arcs("{step: a}", "{step: b}", mode="inclusive"),
    _arcs("{step: a, when: false}", "{step: b}", "{step: a, when: '{{ error }}'}"),
    _arcs("{step: a, when: '{{ ctx.x }}'}", "{step: start, when: '{{ ctx.y }}'}", "{step: b}"),
    _arcs("{step: a, when: '{{ ctx.x }}'}", "{step: b, when: '{{ ctx.y }}'}", "{step: start}"),
    _join(_FORK),
    _join(_FORK, "{count: 2}"),
    _join(_CHOICE, "auto"),
    _join(_CHOICE, "{count: 1}"),
    # Behind each arc of one choice stand both branches.
    _join(
        "- step: start\n  next:\n    arcs: [{step: x, when: '{{ ctx.x }}'}, {step: y}]\n- step: x\n  "
        "next: [a, b]\n"
        "- step: y\n  next: [a, b]\n- step: a\n  next: j\n- step: b\n  next: j\n"
    ),
    _tasks(
        "{else: {do: continue}}", "{when: '{{ result.x }}', then: {do: jump, to: one}}, {else: {do: fail}}"
    ),
    _tasks("{when: '{{ result.x }}', then: {do: break}}, {else: {do: fail}}", "{else: {do: jump, to: one}}"),
    _tasks("{else: {do: jump, to: two}}", "{else: {do: fail}}"),
    _tasks("{else: {do: retry, attempts: 2}}", "{else: {do: retry, attempts: '{{ ctx.n }}'}}"),
    _input("{{ iter.parent.index }}{{ iter.n | default(1) }}", more=_LOAD),
    "- step: start\n  loop: {in: [1], iterator: n}\n  tool: {kind: noop, input: {x: '{{ iter.n }}{{ "
    "loop_index }}'}}\n",
    _loop("{{ iter.n }}{{ iter.index }}{{ iter.parent.n }}{{ iter.size.b }}{{ iter.m | default(1) }}"),
    _loop("{{ iter.m }}{{ iter.parent.n }}", ", loop: {in: [2], iterator: m}"),
    _loop("{{ iter.t }}", ", spec: {policy: {rules: [{else: {do: continue, set: {iter.t: 1}}}]}}"),
    _input("{{ _prev is defined }}", more=_LOAD),
    # The first task is also the one after the last: something jumps there.
    "- step: start\n  tool:\n  - {name: one, kind: noop, input: {x: '{{ _prev }}'}}\n"
    "  - {name: two, kind: noop, input: {x: '{{ _prev }}'}, spec: {policy: {rules: "
    "[{when: '{{ error }}', then: {do: jump, to: one}}, {else: {do: fail}}]}}}\n",
    _input("{{ load.n | default(0) }}", more=_LOAD),
    # Here it may have run: the steps form a cycle, or stand side by side.
    _input("{{ load.n }}", more=_LOAD + "  next: {step: start, when: '{{ ctx.x }}'}\n"),
    "- step: start\n  next: [a, load]\n- step: a\n  tool: {kind: noop, input: {x: '{{ load.n }}'}}\n" + _LOAD,
    # The step's result may have a key `results` of its own.
    "- step: start\n  next: load\n" + _LOAD + "  next: e\n"
    "- step: e\n  tool: {kind: noop, input: {x: '{{ load.results.total }}{{ load.results.kept }}'}}\n",
    "- step: get-it\n  tool: {kind: noop, input: {x: 'get-it'}}\n",
    # Steps that handle errors are called so.
    "- step: start\n  next: error\n- step: error\n  tool: {kind: noop}\n",
    _input("{% set b = 1 %}{% for a in [1] %}{{ a + b + loop.index }}{% endfor %}", more=_LOAD),
    _input("{{ b.c | default(1) }}{% if d is defined %}{{ d }}{% endif %}{{ e == none }}", more=_LOAD),
]

#: Joins that fill by some choices, and wait for ever by others.
MAY_WAIT = [
    # The router runs once for each of two tokens, and may take another arc each time.
    _join(
        "- step: start\n  next: [p, q]\n- step: p\n  next: r\n- step: q\n  next: r\n- step: r\n  spec: "
        "{join: any}\n"
        "  next:\n    arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]\n- step: a\n  next: j\n- step: "
        "b\n  next: j\n"
    ),
    # In a cycle, too.
    _join(
        "- step: start\n  next:\n    arcs: [{step: a, when: '{{ ctx.x }}'}, {step: b}]\n"
        "- step: a\n  next: [j, back]\n- step: b\n  next: j\n- step: back\n  next: {step: start, when: "
        "'{{ ctx.y }}'}\n"
    ),
]


def _text(steps: str) -> str:
    return f"workflow:\n{steps}"


@pytest.mark.parametrize(("code", "steps", "words"), BAD)
def test_what_goes_wrong_is_reported_at_its_place(body: Compile, code: Code, steps: str, words: str) -> None:
    result = body(_text(steps))
    found = [problem for problem in result.problems if problem.code is code]
    assert found, result.problems
    whole = result.source.text
    places = [at for at in range(len(whole)) if whole.startswith(words, at)]
    lines = [(whole.count("\n", 0, at) + 1, at - whole.rfind("\n", 0, at)) for at in places]
    assert (found[0].line, found[0].column) in lines
    assert {problem.code for problem in result.problems} <= {code, Code.UNDEFINED}


def test_what_only_the_start_knows_hides_no_value_that_steps_read(body: Compile) -> None:
    text = (
        "workload: {payload: 1}\nworkflow:\n- step: payload\n  tool: {kind: noop}\n  next: each\n"
        "- step: each\n  loop: {in: [1], iterator: payload}\n  tool: {kind: noop, input: {x: '{{ payload "
        "}}'}}\n"
    )
    assert [problem for problem in body(text).problems if problem.code is Code.BUILT_IN] == []


@pytest.mark.parametrize("steps", GOOD)
def test_what_is_sound_is_not_warned_of(body: Compile, steps: str) -> None:
    assert [str(problem) for problem in body(_text(steps)).problems] == []


@pytest.mark.parametrize("steps", MAY_WAIT)
def test_a_join_that_only_some_choices_leave_waiting_may_wait_for_ever(body: Compile, steps: str) -> None:
    assert [problem.code for problem in body(_text(steps)).problems] == [Code.UNSOUND]


@pytest.mark.parametrize(
    ("workload", "template", "warned"),
    [
        ("{env: test}", "{{ env }}", True),
        ("{args: {n: 1}}", "{{ args.n }}", True),
        ("{args: {n: 1}}", "{{ args.m }}", False),
        ("{env: test}", "{{ workload.env }}", False),
        ("{env: test}", "{{ env.HOME }}", False),
        ("{env: test}", "none", False),
        ("{result: 1}", "{{ workload.result }}", False),
        ("{payload: {n: 1}}", "{{ payload.n }}", False),
        ('{payload: {n: 1}, twice: "{{ payload.n }}"}', "none", True),
        ('{payload: {n: 1}, twice: "{{ workload.payload.n }}"}', "{{ payload.n }}", False),
    ],
)
def test_a_workload_value_that_a_built_in_hides_is_warned_of_where_it_is_read(
    body: Compile, workload: str, template: str, warned: bool
) -> None:
    text = (
        f"workload: {workload}\nworkflow: [{{step: a, tool: {{kind: noop, input: {{x: '{template}'}}}}}}]\n"
    )
    assert (Code.BUILT_IN in {problem.code for problem in body(text).problems}) == warned


# --- secrets -------------------------------------------------------------------------------------

SECRETS = [
    "auth: {password: hunter2!}",
    "auth: {client_secret: 'abcd-1234'}",
    "headers: {Authorization: Bearer abc.def.ghi}",
    "headers: {authorization: abcdefghi}",
    "headers: {X-Api-Key: abcdefghi}",
    "url: 'https://me:s3cretive@example.com/'",
    "input: {token: abcdefghi}",
    "input: {db_password: 12345678}",
]
NO_SECRETS = [
    "auth: pg_main",
    "auth: {password: '{{ keychain.k.password }}'}",
    "auth: {password: ''}",
    "auth: {password: null}",
    "auth: {password: '***'}",
    "auth: {password: changeme}",
    "auth: {password: '<your password>'}",
    "auth: {password: '$PASSWORD'}",
    "auth: {token: your-token-here}",
    "headers: {Authorization: 'Bearer {{ keychain.k.token }}'}",
    "headers: {Authorization: 'Bearer xxxx'}",
    "headers: {Authorization: 'Bearer <token>'}",
    "url: 'https://me:{{ keychain.k.password }}@example.com/'",
    "url: 'https://example.com:8080/a:b@c'",
    "input: {page_token: abcdefghi, token_name: abcdefghi, max_tokens: 1000, password_file: /run/x}",
    "input: {token: 0}",
]


def _http(config: str) -> str:
    url = "" if config.startswith("url") else "\n    url: u"
    return (
        "keychain: {k: {credential: c}}\nworkflow:\n- step: a\n  tool:\n    kind: http"
        f"{url}\n    {config}\n"
    )


@pytest.mark.parametrize("config", SECRETS)
def test_a_secret_in_plain_text_is_warned_of_and_shown_nowhere(body: Compile, config: str) -> None:
    result = body(_http(config))
    (problem,) = result.problems
    assert problem.code is Code.IN_PLAIN_TEXT
    shown = render(problem, result.shown)
    for secret in ("hunter2!", "abcd-1234", "abc.def.ghi", "abcdefghi", "s3cretive", "12345678"):
        assert secret not in shown
    assert config.partition(":")[0] in shown


@pytest.mark.parametrize("config", NO_SECRETS)
def test_references_and_placeholders_are_no_secrets(body: Compile, config: str) -> None:
    assert [str(problem) for problem in body(_http(config)).problems] == []


def test_a_secret_is_hidden_in_the_line_of_another_problem_too(body: Compile) -> None:
    result = body(
        "workload: {api_key: abcdefghi, city: 1}\nworkflow:\n"
        "- step: a\n  tool: {kind: http, url: '{{ cty }}', auth: {token: \"ab\\\n    cdefghi\"}, metod: x}\n"
    )
    assert {problem.code for problem in result.problems} == {
        *(Code.IN_PLAIN_TEXT, Code.UNDEFINED, Code.MISSPELT_KEY)
    }
    for problem in result.problems:
        assert "cdef" not in render(problem, result.shown)
    assert len(result.shown) == len(result.source.text)


def test_a_secret_of_the_keychain_is_not_shown(body: Compile) -> None:
    result = body("keychain: [{name: k, kind: static, value: abcdefghi}]\nworkflow: [{step: start}]\n")
    assert "abcdefghi" not in render(result.problems[0], result.shown)
    assert "name: k, kind: static" in render(result.problems[0], result.shown)


# --- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scalar",
    [
        "'{{ cty }}'",
        '"\\t\\u00e9 \\x41 {{ cty }}"',
        "'it''s {{ cty }}'",
        "a {{ cty }}",
        "a\n      b {{\n      cty }}",
        "'a\n\n      b {{ cty }}'",
        '"a \\\n      b {{ cty }}"',
        "|\n      a\n        b {{ cty }}\n",
        "|1-\n       a\n      b {{ cty }}\n",
        ">-\n      a\n      b\n\n      c {{ cty }}\n",
        "&x !!str 'a {{ cty }}'",
        "[a, {b: 'c {{ cty }}'}]",
    ],
)
def test_a_name_is_pointed_at_in_every_form_of_a_text(body: Compile, scalar: str) -> None:
    text = f"workflow:\n- step: a\n  tool:\n    kind: shell\n    command: {scalar}\n"
    result = body(text.replace("shell\n    command", "noop\n    input:\n     x"))
    (problem,) = [one for one in result.problems if one.code is Code.UNDEFINED]
    at = result.source.text.index("cty")
    before = result.source.text[:at]
    assert (problem.line, problem.column) == (before.count("\n") + 1, at - before.rfind("\n"))


@pytest.mark.parametrize(
    ("code", "column"),
    [("x = 1\n      y = +", 11), ("x = (", 11), ("def f(:", 13)],
)
def test_python_is_pointed_at_where_it_cannot_be_read(body: Compile, code: str, column: int) -> None:
    result = body(f"workflow:\n- step: a\n  tool:\n    kind: python\n    code: |\n      {code}\n")
    (problem,) = result.problems
    assert (problem.code, problem.column) == (Code.PYTHON, column)


# --- how much work it is --------------------------------------------------------------------------


def _joins(number: int) -> str:
    last = number - 1
    return "workflow:\n" + "".join(
        f"- step: s{n}\n  spec: {{join: all}}\n"
        f"  tool: {{kind: noop, input: {{x: '{{{{ s{max(n - 1, 0)}.y }}}}'}}}}\n"
        f"  next: {{arcs: [{{step: s{min(n + 1, last)}, when: '{{{{ ctx.x }}}}'}}, "
        f"{{step: s{min(n + 2, last)}}}]}}\n"
        for n in range(number)
    )


def _cycles(number: int) -> str:
    last = number - 1
    return "workflow:\n" + "".join(
        f"- step: s{n}\n  tool: {{kind: noop, input: {{x: '{{{{ s{last - n}.y }}}}'}}}}\n"
        f"  next: {{arcs: [{{step: s{min(n + 1, last)}, when: '{{{{ ctx.x }}}}'}}, {{step: s{n // 2}}}]}}\n"
        for n in range(number)
    )


def _placeholder(number: int) -> str:
    return "workflow:\n- step: a\n  tool: {kind: noop, input: {password: '" + "x!" * 80 * number + "a'}}\n"


def _aliases(number: int) -> str:
    return (
        'workload:\n  a: &a "' + "\\t" * 100 * number + '{{ b }} {{ c }} {{ d }}"\n'
        "  b: [" + "*a, " * 4 * number + "]\nworkflow: [{step: start}]\n"
    )


@pytest.mark.parametrize("text", [_joins, _cycles, _placeholder, _aliases])
def test_checks_of_large_documents_are_no_work_that_grows_with_the_square(
    kinds: Mapping[str, KindInfo], text: Callable[[int], str]
) -> None:
    def work(number: int) -> int:
        compile_playbook(text(number), file="x", kinds=kinds)
        # From the second time on templates are parsed already.
        return calls(lambda: compile_playbook(text(number), file="x", kinds=kinds))

    assert work(120) < 6 * work(30)


@pytest.mark.parametrize("word", ["a.b.c-d+", "x!", "//", "a@", "eyJ.", "-"])
def test_long_texts_are_looked_through_without_trying_ways(kinds: Mapping[str, KindInfo], word: str) -> None:
    """What tries them does not end."""
    text = word * (200_000 // len(word))
    compile_playbook(
        f"workflow:\n- step: a\n  tool: {{kind: noop, input: {{password: '{text}'}}}}\n",
        file="x",
        kinds=kinds,
    )


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            _join(_FORK.replace("- step: a\n  next: j", "- step: a\n  next: {step: j, when: '{{ ctx.x }}'}")),
            "the join of 'j' can wait for ever: start → a, b; a → nothing; b → j",
        ),
        (
            _join(
                "- step: start\n  next: [a, b]\n- step: a\n  tool: {kind: noop}\n  next: [{step: h, when: "
                "\"{{ outcome.status == 'error' }}\"}, j]\n- step: b\n  next: j\n- step: h\n  tool: {kind: "
                "noop}\n"
            ),
            "the join of 'j' can wait for ever: start → a, b; a fails → h; b → j; h → nothing",
        ),
        (
            "- step: start\n  tool: {kind: noop}\n  next: [{step: start, when: '{{ ctx.x }}'}, b]\n"
            "- step: b\n  tool: {kind: noop}\n",
            "tokens can pile up before 'b' without a bound: start → start, b",
        ),
        (
            _arcs("{step: a, when: '{{ ctx.x }}'}", "{step: b, when: '{{ ctx.x }}'}"),
            "step 'b' never runs, though an arc leads to it",
        ),
    ],
    ids=["waits", "waits after a failure", "piles up", "dead"],
)
def test_a_run_without_a_proper_end_is_told_step_by_step(body: Compile, steps: str, message: str) -> None:
    assert [(one.code, one.message) for one in body(_text(steps)).problems] == [(Code.UNSOUND, message)]


def test_guards_that_exclude_each_other_take_one_arc(body: Compile) -> None:
    text = _text(
        "- step: start\n  tool: {kind: noop}\n  next: [{step: start, when: '{{ ctx.n < 3 }}'}, "
        "{step: b, when: '{{ ctx.n >= 3 }}'}]\n- step: b\n  tool: {kind: noop}\n"
    )
    assert body(text).problems == ()


def test_what_another_check_explains_is_said_once(body: Compile) -> None:
    endless = "- step: start\n  next: c\n- step: c\n  next: start\n"
    assert [one.code for one in body(_text(endless)).problems] == [Code.ENDLESS]
    assert [one.code for one in body(_text(_join(_CHOICE))).problems] == [Code.JOIN_UNFILLED]
