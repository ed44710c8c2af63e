"""Every way of writing the same thing, and what it means in the net."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.expressions import evaluate
from noetl.net.codec import same_net
from noetl.net.model import Assignment, Failure, Join, Net
from noetl.tools.kit.registry import kinds

NetOf = Callable[[str], Net]


def _names(net: Net, step: str = "a") -> list[tuple[str, str]]:
    return [(task.name, task.kind) for task in net.steps[step].tasks]


def _with_all_kinds(rest: str) -> Compiled:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: e, path: tests/e}\n"
    return compile_playbook(head + rest, file="sample.yaml", kinds=kinds())


@pytest.mark.parametrize(
    ("tool", "effects"),
    [
        ("{kind: noop}", ["none"]),
        ("{kind: python, code: 'result = 1'}", ["external"]),
        ("{kind: python, code: 'result = 1', effects: none}", ["none"]),
        ("[{kind: noop, effects: external}, {kind: noop, effects: idempotent}]", ["external", "idempotent"]),
        ("read", ["idempotent"]),
        ("{kind: workbook, name: read}", ["idempotent"]),
        ("{kind: workbook, name: read, effects: none}", ["none"]),
    ],
)
def test_what_a_task_says_of_its_effects_holds(tool: str, effects: list[str]) -> None:
    made = _with_all_kinds(
        "workbook: {read: {kind: shell, command: ls, effects: idempotent}}\n"
        f"workflow:\n- step: a\n  tool: {tool}\n"
    )
    net = made.net
    assert net is not None
    assert [task.effects for task in net.steps["a"].tasks] == effects


def test_effects_that_are_no_word_are_reported_where_they_stand() -> None:
    made = _with_all_kinds("workflow:\n- step: a\n  tool:\n    kind: noop\n    effects: idempotant\n")
    (problem,) = made.problems
    assert (problem.code, problem.line, problem.path) == (Code.VALUE, 8, "workflow[0].tool.effects")
    assert "none, idempotent, external" in problem.message
    assert problem.hint == "did you mean 'idempotent'?"


def test_effects_that_are_misspelt_are_reported_where_they_stand() -> None:
    made = _with_all_kinds("workflow:\n- step: a\n  tool:\n    kind: noop\n    efects: none\n")
    (problem,) = made.problems
    assert (problem.severity, problem.line) == ("error", 8)
    assert "effects" in problem.hint


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("{kind: noop}", [("task_0", "noop")]),
        ("{kind: noop, name: x}", [("x", "noop")]),
        ("{kind: noop, label: x}", [("x", "noop")]),
        ("[{name: x, kind: noop}, {kind: shell, command: ls}]", [("x", "noop"), ("task_1", "shell")]),
        ("[{kind: noop}, {kind: noop}]", [("task_0", "noop"), ("task_1", "noop")]),
        ("[{x: {kind: noop}}, {y: {kind: shell, command: ls}}]", [("x", "noop"), ("y", "shell")]),
        ("greet", [("greet", "python")]),
        ("[greet, {kind: noop}]", [("greet", "python"), ("task_1", "noop")]),
        ("{kind: workbook, name: greet}", [("greet", "python")]),
        ("{kind: workbook, task: greet}", [("greet", "python")]),
        ("{kind: workbook, task: greet, name: hi}", [("hi", "python")]),
        ("[{hi: {kind: workbook, name: greet}}]", [("hi", "python")]),
    ],
)
@pytest.mark.parametrize(
    "workbook",
    [
        "{greet: {kind: python, code: 'result = who', input: {who: you, to: me}}}",
        "[{name: greet, tool: {kind: python, code: 'result = who', input: {who: you, to: me}}}]",
        "[{name: greet, kind: python, code: 'result = who', input: {who: you, to: me}}]",
    ],
)
def test_all_forms_of_tool(net_of: NetOf, workbook: str, tool: str, names: list[tuple[str, str]]) -> None:
    net = net_of(f"workbook: {workbook}\nworkflow:\n- step: a\n  tool: {tool}\n")
    assert _names(net) == names


def test_a_call_of_the_workbook_overlays_its_inputs(net_of: NetOf) -> None:
    net = net_of(
        "workbook: {greet: {kind: python, code: 'result = 1', input: {who: you, to: me}}}\n"
        "workflow:\n- step: a\n  tool: {kind: workbook, name: greet, args: {who: all}}\n"
    )
    assert net.steps["a"].tasks[0].args == {"who": "all", "to": "me"}
    assert net.workbook["greet"].args == {"who": "you", "to": "me"}


def test_input_args_and_with_are_synonyms(net_of: NetOf) -> None:
    nets = [
        net_of(f"workflow:\n- step: a\n  tool: {{kind: noop, {key}: {{x: 1}}}}\n")
        for key in ("input", "args", "with")
    ]
    assert same_net(nets[0], nets[1])
    assert same_net(nets[0], nets[2])
    assert nets[0].steps["a"].tasks[0].args == {"x": 1}


def test_what_a_tool_does_not_share_is_its_configuration(net_of: NetOf) -> None:
    task = (
        net_of(
            "workflow:\n- step: a\n  tool:\n    kind: shell\n    desc: d\n    command: ls\n    env: {A: "
            "'1'}\n"
            "    input: {x: 1}\n    set: {y: 2}\n    spec: {timeout: 5}\n"
        )
        .steps["a"]
        .tasks[0]
    )
    assert task.config == {"command": "ls", "env": {"A": "1"}}
    assert task.spec == {"timeout": 5}
    assert task.set == (Assignment("local", "y", 2),)
    assert task.line == 6
    assert task.lines == {"command": 9, "env": 10, "input.x": 11}


def test_configuration_may_stand_under_spec(net_of: NetOf) -> None:
    task = (
        net_of(
            "workflow:\n- step: a\n  tool: {kind: http, spec: {url: 'http://x', timeout: 3, pool: 1}, "
            "method: GET}\n"
        )
        .steps["a"]
        .tasks[0]
    )
    assert task.config == {"url": "http://x", "timeout": 3, "method": "GET"}
    assert task.spec == {"retries": {"max": 1}, "timeout": 3, "pool": 1}


@pytest.mark.parametrize(
    ("step", "task"),
    [
        ("", ", spec: {timeout: {connect: 5, read: 15}}"),
        ("  spec: {timeout: {connect: 5, read: 15}}\n", ""),
        ("  spec: {timeout: {connect: 1}}\n", ", spec: {timeout: {connect: 5, read: 15}}"),
        ("  spec: {timeout: 9}\n", ", spec: {timeout: {connect: 5, read: 15}}"),
    ],
)
def test_the_parts_of_a_timeout_under_spec_are_the_tools(net_of: NetOf, step: str, task: str) -> None:
    net = net_of(f"workflow:\n- step: a\n{step}  tool: {{kind: http, url: 'http://x'{task}}}\n")
    found = net.steps["a"].tasks[0]
    assert found.config["timeout"] == {"connect": 5, "read": 15}
    assert found.spec.get("timeout") == (9 if "9" in step else None)


def test_a_timeout_around_tasks_has_parts_only_for_tools_that_take_them(net_of: NetOf) -> None:
    net = net_of(
        "executor: {spec: {timeout: {connect: 5}}}\n"
        "workflow:\n- step: a\n  tool: [{kind: noop}, {kind: http, url: 'http://x', spec: {timeout: 3}}]\n"
    )
    waits, calls = net.steps["a"].tasks
    assert "timeout" not in waits.config
    assert "timeout" not in waits.spec
    assert (calls.config["timeout"], calls.spec["timeout"]) == (3, 3)


def test_specs_merge_from_the_kind_inwards(net_of: NetOf) -> None:
    net = net_of(
        "executor: {spec: {a: 1, b: 1, c: 1, d: 1, retries: {wait: 2}, list: [1, 2]}}\n"
        "workflow:\n- step: a\n  spec: {b: 2, c: 2, d: 2, queue: q}\n"
        "  loop: {in: [1], iterator: i, spec: {c: 3, d: 3, mode: sequential}}\n"
        "  tool: {kind: http, url: u, spec: {d: 4, list: [3]}}\n"
    )
    assert net.steps["a"].tasks[0].spec == {
        "a": 1,
        "b": 2,
        "c": 3,
        "d": 4,
        "retries": {"max": 1, "wait": 2},
        "list": [3],
    }


def test_rules_of_a_step_apply_to_tasks_without_rules_of_their_own(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  spec: {policy: {rules: [{else: {do: fail}}]}}\n"
        "  tool:\n  - {kind: noop}\n  - {kind: noop, spec: {policy: {rules: [{else: {do: break}}]}}}\n"
    )
    assert [task.rules[0].then.do for task in net.steps["a"].tasks if task.rules] == ["fail", "break"]


def test_a_task_without_any_policy_has_no_rules(net_of: NetOf) -> None:
    assert net_of("workflow:\n- step: a\n  tool: {kind: noop}\n").steps["a"].tasks[0].rules is None


@pytest.mark.parametrize(
    ("form", "mode", "arcs"),
    [
        ("b", "exclusive", ["a->b"]),
        ("{step: b}", "exclusive", ["a->b"]),
        ("[b, c]", "inclusive", ["a->b", "a->c"]),
        ("[{step: b, when: '{{ x }}'}, c]", "inclusive", ["a->b", "a->c"]),
        ("{arcs: [{step: b}]}", "exclusive", ["a->b"]),
        (
            "{spec: {mode: inclusive}, arcs: [{step: b}, {step: c}, {step: b}]}",
            "inclusive",
            ["a->b", "a->c", "a->b#2"],
        ),
        ("{spec: {mode: exclusive}, arcs: [b, b, b]}", "exclusive", ["a->b", "a->b#2", "a->b#3"]),
    ],
)
def test_all_forms_of_next(net_of: NetOf, form: str, mode: str, arcs: list[str]) -> None:
    net = net_of(
        f"workload: {{x: 1}}\nworkflow:\n- {{step: a, next: {form}}}\n"
        "- {step: b, tool: {kind: noop}, next: c}\n- {step: c, tool: {kind: noop}}\n"
    )
    assert net.steps["a"].router == mode
    assert [arc.id for arc in net.steps["a"].arcs] == arcs


@pytest.mark.parametrize(
    ("spec", "strict"),
    [
        ("{mode: exclusive}", None),
        ("{no_next_is_error: true}", True),
        ("{on_no_match: quiet}", False),
        ("{on_no_match: error}", True),
        ("{on_no_match: quiet, no_next_is_error: true}", True),
    ],
)
def test_what_a_router_does_when_no_arc_matches(net_of: NetOf, spec: str, strict: bool | None) -> None:
    net = net_of(f"workflow:\n- step: start\n  next: {{spec: {spec}, arcs: [end]}}\n- step: end\n")
    assert net.steps["start"].no_next_is_error is strict


@pytest.mark.parametrize(
    ("when", "boundary"),
    [
        ("'{{ event.name == \"call.error\" }}'", True),
        ("'{{ outcome.status == \"ok\" }}'", True),
        ("'{{ output.x }}'", True),
        ("'{{ error }}'", True),
        ("'{{ ctx.error }}'", False),
        ("'{{ result.x }}'", False),
        ("true", False),
    ],
)
def test_guards_that_mention_the_boundary_are_marked(net_of: NetOf, when: str, boundary: bool) -> None:
    net = net_of(f"workflow:\n- {{step: start, next: [{{step: end, when: {when}}}]}}\n- step: end\n")
    assert net.steps["start"].arcs[0].boundary is boundary


def test_arcs_carry_args_and_assignments(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: start\n  next:\n    arcs:\n"
        "    - {step: end, args: {x: 1, y: 1}, input: {y: 2}, set: {n: 3, ctx.m: 4, step.k: 5}}\n- step: "
        "end\n"
    )
    [arc] = net.steps["start"].arcs
    assert arc.args == {"x": 1, "y": 2}
    assert arc.set == (Assignment("ctx", "n", 3), Assignment("ctx", "m", 4), Assignment("step", "k", 5))
    assert arc.line == 8


def test_names_without_a_scope_are_local_to_tasks_and_ctx_on_steps(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  loop: {in: [1], iterator: i}\n  set: {x: 1, vars.y: 2}\n  tool:\n    "
        "kind: noop\n"
        "    set: {x: 1, ctx.y: 2, iter.z: 3, step.s: 4, vars.v: 5}\n    set_ctx: {m: 6}\n    set_iter: "
        "{n: 7}\n"
    )
    step = net.steps["a"]
    assert step.set == (Assignment("ctx", "x", 1), Assignment("ctx", "y", 2))
    assert step.tasks[0].set == (
        Assignment("local", "x", 1),
        Assignment("ctx", "y", 2),
        Assignment("iter", "z", 3),
        Assignment("step", "s", 4),
        Assignment("ctx", "v", 5),
        Assignment("ctx", "m", 6),
        Assignment("iter", "n", 7),
    )


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("{in: [1], iterator: i}", ("sequential", None, Failure())),
        ("{in: [1], iterator: i, mode: parallel}", ("parallel", None, Failure())),
        ("{in: [1], iterator: i, spec: {mode: parallel, max_in_flight: 3}}", ("parallel", 3, Failure())),
        (
            "{in: [1], iterator: i, spec: {max_in_flight: '{{ workload.n }}'}}",
            ("sequential", "{{ workload.n }}", Failure()),
        ),
        (
            "{in: [1], iterator: i, spec: {policy: {failure: {mode: best_effort}}}}",
            ("sequential", None, Failure("best_effort")),
        ),
        (
            "{in: [1], iterator: i, spec: {policy: {failure: {tolerate: {count: 2, percent: 10}}}}}",
            ("sequential", None, Failure("run_all", 2, 10.0)),
        ),
        (
            "{in: [1], iterator: i, spec: {policy: {failure: {mode: fail_fast, tolerate: {count: 2}}}}}",
            ("sequential", None, Failure("best_effort", 2)),
        ),
        (
            "{in: [1], iterator: i, spec: {policy: {failure: {mode: run_all}}}}",
            ("sequential", None, Failure("run_all")),
        ),
    ],
)
def test_all_forms_of_loop(net_of: NetOf, loop: str, expected: tuple[str, object, Failure]) -> None:
    made = net_of(f"workflow:\n- {{step: a, loop: {loop}, tool: {{kind: noop}}}}\n").steps["a"].loop
    assert made is not None
    assert (made.mode, made.max_in_flight, made.failure) == expected
    assert (made.collection, made.iterator) == ([1], "i")


def test_a_loop_over_null_is_a_loop(net_of: NetOf) -> None:
    made = (
        net_of("workflow:\n- {step: a, loop: {in: null, iterator: i}, tool: {kind: noop}}\n").steps["a"].loop
    )
    assert made is not None
    assert made.collection is None


def test_reducers_are_named_without_their_scope(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  loop: {in: [1], iterator: i, spec: {mode: parallel, commit: each, "
        "reduce: {ctx.t: sum}}}\n"
        "  tool: {kind: noop, set: {ctx.t: 1}}\n"
    )
    made = net.steps["a"].loop
    assert made is not None
    assert (made.reduce, made.commit) == ({"t": "sum"}, "each")


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("auto", Join()),
        ("all", Join("all")),
        ("first", Join("first")),
        ("{count: 2}", Join("count", 2)),
        ("{mode: first, cancel_rest: true}", Join("first", 0, True)),
        ("{mode: count, count: 1, cancel_rest: true}", Join("count", 1, True)),
    ],
)
def test_all_forms_of_join(net_of: NetOf, join: str, expected: Join) -> None:
    net = net_of(
        "workflow:\n- {step: start, next: [b, c]}\n- {step: b, next: end}\n- {step: c, next: end}\n"
        f"- {{step: end, spec: {{join: {join}}}}}\n"
    )
    assert net.steps["end"].join == expected


def test_admission_takes_the_forms_of_rules(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: end\n  spec:\n    policy:\n      admit:\n        on_deny: skip\n        rules:\n"
        "        - {when: '{{ ctx.x }}', then: {allow: true}}\n        - {else: {then: {allow: false}}}\n"
    )
    admit = net.steps["end"].admit
    assert admit is not None
    assert admit.on_deny == "skip"
    assert [(rule.when, rule.allow) for rule in admit.rules] == [("{{ ctx.x }}", True), (None, False)]


def test_a_list_among_the_arcs_is_one_choice_and_an_arc_without_a_step_only_assigns(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  next:\n    spec: {mode: first}\n    arcs:\n    - b\n    - [{set: {x: "
        "1}}, b, {step: c, when: true}]\n"
        "    - {set: {x: 2}}\n- {step: b, tool: {kind: noop}}\n- {step: c, tool: {kind: noop}}\n"
    )
    made = net.steps["a"]
    assert made.router == "first"
    assert [(arc.id, arc.step, arc.also) for arc in made.arcs] == [
        ("a->b", "b", False),
        ("a->", "", False),
        ("a->b#2", "b", True),
        ("a->c", "c", True),
        ("a->#2", "", False),
    ]
    assert [arc.id for arc in net.arcs.values()] == ["a->b", "a->b#2", "a->c"]


def test_ctx_is_part_of_the_net_and_its_names_are_known_to_steps(body: Callable[[str], Compiled]) -> None:
    found = body(
        "ctx: {n: 1, m: '{{ nowhere }}'}\nworkflow:\n- {step: a, tool: {kind: noop, input: {x: '{{ n + m "
        "}}'}}}\n"
    )
    assert [(problem.code, problem.path) for problem in found.problems] == [(Code.UNDEFINED, "ctx.m")]
    assert found.net is not None
    assert found.net.ctx == {"n": 1, "m": "{{ nowhere }}"}


@pytest.mark.parametrize(
    ("after", "expected"), [("true", True), ("false", None), ("'{{ x }}'", "{{ x }}"), ("x > 1", "x > 1")]
)
def test_after_is_said_of_a_task_and_is_none_of_its_tool_s_keys(
    net_of: NetOf, after: str, expected: object
) -> None:
    net = net_of(
        "workload: {x: 1}\nworkflow:\n- step: a\n  tool:\n  - {name: t, kind: noop}\n"
        f"  - {{name: z, kind: noop, spec: {{after: {after}, timeout: 5}}}}\n"
    )
    first, last = net.steps["a"].tasks
    assert (first.after, last.after) == (None, expected)
    assert last.spec == {"timeout": 5}


@pytest.mark.parametrize(
    ("executor", "entry"),
    [("", "start"), ("executor: {spec: {entry_step: b}}\n", "b")],
)
def test_the_entry_is_named_or_called_start(net_of: NetOf, executor: str, entry: str) -> None:
    text = "workflow:\n- {step: a, next: start}\n- {step: start, next: b}\n- {step: b, next: a}\n"
    assert net_of(executor + text).entry == entry


def test_without_a_step_called_start_the_first_is_the_entry(net_of: NetOf) -> None:
    assert net_of("workflow:\n- {step: x, next: y}\n- {step: y, tool: {kind: noop}}\n").entry == "x"


def test_the_executor_names_the_final_step_and_what_failure_means(net_of: NetOf) -> None:
    net = net_of(
        "executor: {spec: {final_step: end, no_next_is_error: true, policy: {failure: {mode: "
        "best_effort}}}}\n"
        "workflow:\n- {step: start, tool: {kind: noop}}\n- step: end\n"
        "- {step: x, tool: {kind: noop}, spec: {policy: {failure: {mode: fail_fast}}}}\n"
    )
    assert (net.final_step, net.no_next_is_error, net.failure.mode) == ("end", True, "best_effort")
    assert [step.failure.mode for step in net.transitions] == ["best_effort", "best_effort", "fail_fast"]


@pytest.mark.parametrize(
    ("step", "queue"),
    [
        ("tool: {kind: shell, command: ls}", "shell"),
        ("tool: [{kind: noop}, {kind: http, url: u}]", "http"),
        ("tool: [{kind: noop}]", "noop"),
        ("next: end", "default"),
        ("spec: {queue: mine}, tool: {kind: noop}", "mine"),
        ("tool: {kind: shell, command: ls, spec: {queue: his}}", "his"),
    ],
)
def test_a_pipeline_goes_to_the_queue_of_its_first_task_that_does_something(
    net_of: NetOf, step: str, queue: str
) -> None:
    net = net_of(f"workflow:\n- {{step: a, {step}}}\n- step: end\n")
    assert net.steps["a"].queue == queue


def test_code_is_verbatim_unless_it_is_to_be_rendered(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  tool:\n  - {kind: python, code: 'result = context'}\n"
        "  - {kind: python, code: 'result = {{ 1 }}', spec: {render: true}}\n"
        "  - {kind: postgres, command: select 1, params: {x: 1}}\n  - {kind: postgres, command: select 1}\n"
        "  - {kind: python, code: 'result = contexts'}\n"
        "  - {kind: postgres, command: select 1, params: {x: 1}, spec: {render: true}}\n"
    )
    tasks = net.steps["a"].tasks
    assert [task.verbatim for task in tasks] == [("code",), (), ("command",), (), ("code",), ()]
    assert [task.wants_context for task in tasks] == [True, False, False, False, False, False]


def test_a_task_of_the_workbook_may_call_another_one(net_of: NetOf) -> None:
    net = net_of(
        "workbook: {inner: {kind: python, code: 'result = 1', input: {a: 1, b: 1, c: 1}},"
        " outer: {kind: workbook, name: inner, input: {b: 2, c: 2}}}\n"
        "workflow:\n- step: a\n  tool: {kind: workbook, task: outer, name: mine, input: {c: 3}}\n"
        "- step: b\n  tool: outer\n"
    )
    (mine,), (plain,) = net.steps["a"].tasks, net.steps["b"].tasks
    assert (mine.name, mine.kind, mine.args) == ("mine", "python", {"a": 1, "b": 2, "c": 3})
    assert (plain.name, plain.args) == ("outer", {"a": 1, "b": 2, "c": 2})
    assert net.workbook["outer"].kind == "python"


def test_values_in_commands_are_quoted_unless_the_spec_says_otherwise(net_of: NetOf) -> None:
    net = net_of(
        "workflow:\n- step: a\n  tool:\n  - {kind: shell, command: 'echo {{ 1 }}'}\n"
        "  - {kind: shell, command: 'echo {{ 1 }}', spec: {quote: false}}\n"
        "  - {kind: shell, commands: ['echo {{ 1 }}']}\n  - {kind: shell, argv: [echo]}\n"
    )
    assert [task.quoted for task in net.steps["a"].tasks] == [("command",), (), ("commands",), ()]


@pytest.mark.parametrize(
    ("command", "rendered"),
    [
        ('A=(x y); echo "n=${#A[@]}"', 'A=(x y); echo "n=${#A[@]}"'),
        ("echo ${#A[@]} && echo keep-me && echo ${L//#}", "echo ${#A[@]} && echo keep-me && echo ${L//#}"),
        ("echo ${#A} {{ n }} {# a note #}.", "echo ${#A} 3 ."),
        ("{% raw %}${#A}{% endraw %} {{ '${#B}' }}", "${#A} ${#B}"),
    ],
)
def test_what_bash_counts_with_begins_no_comment(net_of: NetOf, command: str, rendered: str) -> None:
    text = json.dumps(command)
    net = net_of(
        f"workflow:\n- step: a\n  tool:\n  - {{kind: shell, command: {text}}}\n"
        f"  - {{kind: shell, commands: [{text}, [echo, a]]}}\n  - {{kind: noop, input: {{x: 'b {{# c #}}'}}}}\n"
    )
    one, several, other = net.steps["a"].tasks
    assert evaluate(one.config["command"], {"n": 3}) == rendered
    assert evaluate(several.config["commands"], {"n": 3}) == [rendered, ["echo", "a"]]
    assert other.args == {"x": "b {# c #}"}


def test_workload_keychain_and_metadata_are_kept(net_of: NetOf) -> None:
    net = net_of(
        "keychain: {api: {kind: token, auth: idp}}\nworkload: {a: 1, b: '{{ a }}'}\nworkflow: [{step: "
        "start}]\n"
    )
    assert net.workload == {"a": 1, "b": "{{ a }}"}
    assert net.keychain == ({"name": "api", "kind": "token", "auth": "idp"},)
    assert (net.name, net.path, net.file) == ("sample", "sample", "sample.yaml")
