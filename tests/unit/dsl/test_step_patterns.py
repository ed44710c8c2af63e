"""Keys that concern more than one run: what they may say, and where a wrong word is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest

from noetl.dsl import Code, Compiled, compile_playbook
from noetl.dsl.document.arcs import ArcSignal, ArcWait
from noetl.dsl.document.base import canonical_keys
from noetl.net.codec import digest, from_json, to_json
from noetl.net.model import Arc, Join, Milestone, Net, Transition
from noetl.testing import KINDS
from noetl.tools.wait import Branch, SignalConfig

NetOf = Callable[[str], Net]
Compile = Callable[[str], Compiled]


def _workflow(start: str) -> str:
    """The step `start` with what is said of it, and the steps `a` and `b`, to which it may lead."""
    ends = "- {step: a, tool: {kind: noop}}\n- {step: b, tool: {kind: noop}}\n"
    return f"workflow:\n- {{step: start, tool: {{kind: noop}}, {start}}}\n{ends}"


def _faults(compiled: Compiled) -> list[tuple[str, int, str]]:
    return [(one.code, one.column, one.message) for one in compiled.errors]


# --- what they mean ---


def test_what_is_said_stands_in_the_net(net_of: NetOf) -> None:
    net = net_of(
        _workflow("spec: {completes: [b, a, b]}, next: [{step: a, times: 3}, {step: b, times: '4'}]")
    )
    assert net.steps["start"].completes == ("b", "a")
    assert [arc.times for arc in net.steps["start"].arcs] == [3, 4]
    net = net_of(
        _workflow("terminate: failed, spec: {milestone: {before: a}, join: {tokens: 2}}, next: [a, b]")
    )
    start = net.steps["start"]
    assert (start.terminate, start.milestone, start.join) == ("failed", Milestone("", "a"), Join("tokens", 2))


def test_nets_survive_and_those_that_say_nothing_of_it_keep_their_digest(net_of: NetOf) -> None:
    plain = net_of(_workflow("next: [a, b]"))
    said = net_of(
        _workflow("terminate: failed, spec: {milestone: {after: b}}, next: [{step: a, times: 2}, b]")
    )
    for net in (plain, said):
        assert from_json(to_json(net)) == net
    assert digest(plain) != digest(said)
    body = to_json(plain)
    steps, arcs = body["transitions"], [arc for step in body["transitions"] for arc in step["arcs"]]
    assert not {"terminate", "completes", "milestone"} & {key for step in steps for key in step}
    assert not any("times" in arc for arc in arcs)


def test_what_is_left_out_of_a_stored_net_is_what_it_has_by_default() -> None:
    """Fields with which a net says no more than one of before are not stored."""
    body = to_json(Net("n", "n", "a", (Transition("a", arcs=(Arc("a->a", "a", "a"),)),)))
    left_out = {one.name for one in fields(Transition)} - set(body["transitions"][0])
    ends = {"terminate", "completes", "milestone", "compensate", "cleanup"}
    assert left_out == {*ends, "limits"}
    assert {one.name for one in fields(Arc)} - set(body["transitions"][0]["arcs"][0]) == {"times"}


def test_a_step_that_only_ends_the_execution_needs_no_tool_and_leads_nowhere(body: Compile) -> None:
    assert not body("workflow: [{step: first, next: last}, {step: last, terminate: completed}]").problems


# --- what is wrong ---


@pytest.mark.parametrize(
    ("start", "code", "message"),
    [
        (
            "terminate: complete",
            Code.VALUE,
            "`terminate` is 'complete', not one of completed, failed, cancelled",
        ),
        ("terminates: failed", Code.MISSPELT_KEY, "the key 'terminates' means nothing here"),
        ("spec: {completes: [bb]}, next: [a, b]", Code.UNKNOWN_STEP, "there is no step 'bb'"),
        ("spec: {completes: b}, next: [a, b]", Code.TYPE, "`completes` must be a list, not 'b'"),
        ("spec: {milestone: {after: aa}}, next: [a, b]", Code.UNKNOWN_STEP, "there is no step 'aa'"),
        ("spec: {milestone: {}}, next: [a, b]", Code.MISSING, "the milestone names no step"),
        ("spec: {milestone: {before: start}}", Code.VALUE, "the milestone of 'start' names that step itself"),
        (
            "spec: {milestone: {after: a, before: a}}",
            Code.VALUE,
            "the step could only begin between the end of 'a' and its beginning",
        ),
        ("spec: {join: {tokens: 0}}", Code.VALUE, "the join's tokens are 0"),
        (
            "spec: {join: {tokens: 2, cancel_rest: true}}",
            Code.MISPLACED,
            "cancel_rest stands beside tokens, which counts tokens whichever arcs they came over",
        ),
        ("next: [{step: a, times: 0}, b]", Code.VALUE, "times is 0"),
        ("next: [{step: a, times: 1001}, b]", Code.VALUE, "times is 1,001"),
        (
            "next: [{set: {ctx.x: 1}, times: 2}]",
            Code.MISPLACED,
            "the arc leads to no step, so it puts down no token",
        ),
    ],
)
def test_what_they_cannot_say_is_found_where_it_stands(
    body: Compile, start: str, code: Code, message: str
) -> None:
    found = body(_workflow(start))
    assert (code, message) in [(one.code, one.message) for one in found.errors]
    (first,) = [one for one in found.errors if one.message == message]
    assert first.line == 5
    assert first.column > len("- {step: start, tool: {kind: noop}, ")


@pytest.mark.parametrize(
    "said", ["terminate: failed", "spec: {completes: [start]}", "spec: {milestone: {after: start}}"]
)
def test_the_final_step_ends_nothing_and_waits_for_all(body: Compile, said: str) -> None:
    text = "executor: {spec: {final_step: z}}\nworkflow: [{step: start, tool: {kind: noop}}, "
    found = body(f"{text}{{step: z, tool: {{kind: noop}}, {said}}}]")
    assert [one.code for one in found.errors] == [Code.MISPLACED]


@pytest.mark.parametrize("said", ["completes: [z]", "milestone: {after: z}", "milestone: {before: z}"])
def test_nothing_is_said_of_the_final_step(body: Compile, said: str) -> None:
    text = "executor: {spec: {final_step: z}}\nworkflow: [{step: z, tool: {kind: noop}}, "
    found = body(f"{text}{{step: start, tool: {{kind: noop}}, spec: {{{said}}}}}]")
    assert [(one.code, one.message[:24]) for one in found.errors] == [
        (Code.VALUE, "step 'z' is the final st")
    ]


def test_arcs_that_are_never_taken_because_the_execution_ends_are_told_of(body: Compile) -> None:
    arcs = "next: [a, {step: b, when: '{{ error is defined }}'}, {set: {ctx.x: 1}}]"
    found = body(_workflow(f"terminate: completed, {arcs}"))
    assert [(one.code, one.column) for one in found.warnings] == [(Code.IGNORED, 66), (Code.IGNORED, 112)]
    skipped = "spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}], on_deny: pass}}}"
    assert not body(_workflow(f"terminate: completed, {skipped}, next: [a, b]")).problems


# --- arcs that wait ---


def _compile(arcs: str, more: str = "") -> Compiled:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: sample}\n"
    return compile_playbook(
        f"{head}{_workflow(f'next: {{{more}arcs: [{arcs}]}}')}", file="sample.yaml", kinds=KINDS
    )


def test_arcs_wait_for_what_the_tool_waits_for() -> None:
    # Who is to call the address of a task is handed it by one before it, which arcs have not.
    assert set(canonical_keys(ArcWait)) == set(Branch.model_fields) - {"callback"}
    assert set(canonical_keys(ArcSignal)) == set(SignalConfig.model_fields)


def test_arcs_that_wait_are_those_of_a_step_behind() -> None:
    found = _compile(
        "{step: a, wait: {timer: 1h}, times: 2}, {step: b, wait: {signal: x}}, {step: a, wait: {until: x}}"
    )
    assert found.net is not None
    assert [step.name for step in found.net.transitions] == ["start", "start.choice", "a", "b"]
    choice = found.net.steps["start.choice"]
    assert [arc.step for arc in found.net.steps["start"].arcs] == ["start.choice"]
    assert list(choice.tasks[0].config["any"]) == ["a", "b", "a.2"]
    assert [arc.when for arc in choice.arcs] == [
        '{{ result.name == "a" }}',
        '{{ result.name == "b" }}',
        '{{ result.name == "a.2" }}',
    ]
    assert [arc.times for arc in choice.arcs] == [2, 1, 1]
    assert choice.line == 5


def test_the_step_behind_takes_no_name_that_another_one_has() -> None:
    text = (
        _workflow("next: {arcs: [{step: start.choice, wait: {timer: 1h}}]}")
        + "- {step: start.choice, tool: {kind: noop}}\n"
    )
    found = compile_playbook(
        f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: s}}\n{text}", file="s.yaml", kinds=KINDS
    )
    assert found.net is not None
    assert [arc.step for arc in found.net.steps["start"].arcs] == ["start.choice.2"]


def test_the_step_behind_belongs_to_the_same_iteration() -> None:
    found = _compile(
        "{step: a, wait: {timer: 1h}}, {step: b, wait: {timer: 2h}}]}, iteration: ctx.i, x: {y: [1"
    )
    assert found.net is not None
    assert [step.iteration for step in found.net.transitions] == ["i", "i", "", ""]


def test_the_canonical_form_keeps_arcs_as_they_were_written() -> None:
    assert _compile("{step: a, wait: {timer: 1h}}, {step: b, wait: {signal: x}}").source.origins == ()


@pytest.mark.parametrize(
    ("arcs", "code", "message", "at"),
    [
        ("{step: a, wait: {timer: 1h}}, {step: b}", Code.MISPLACED, "the arc does not wait", "{step: b}"),
        ("{step: a, wait: {timer: 1h}}, b", Code.MISPLACED, "the arc does not wait", "b]"),
        ("{step: a, wait: {timer: 1h}, when: true}", Code.MISPLACED, "when stands beside wait", "true}"),
        (
            "[{step: a, wait: {timer: 1h}}, {step: b, wait: {timer: 1h}}]",
            Code.MISPLACED,
            "an arc that waits",
            "wait",
        ),
        (
            "{wait: {timer: 1h}, set: {ctx.x: 1}}",
            Code.MISPLACED,
            "the arc waits and leads to no step",
            "wait",
        ),
        (
            "{step: a, wait: soon}, {step: b, wait: {timer: 1}}",
            Code.TYPE,
            "`wait` must be a mapping, not 'soon'",
            "soon",
        ),
        (
            "{step: a, wait: [3]}, {step: b, wait: {timer: 1}}",
            Code.TYPE,
            "`wait` must be a mapping, not a list",
            "wait: [3]",
        ),
        ("{step: a, wait: {}}", Code.MISPLACED, "the arc waits for nothing", "wait"),
        (
            "{step: a, wait: {timer: 1, signal: x}}",
            Code.MISPLACED,
            "the arc waits for timer and signal",
            "wait",
        ),
        ("{step: a, wait: {signal: {match: {x: 1}}}}", Code.MISPLACED, "the signal has no name", "signal"),
        ("{step: a, wait: {timr: 1}}", Code.MISSPELT_KEY, "the key 'timr' means nothing here", "timr"),
        ("{step: a, wait: {signal: {nam: x}}}", Code.MISSPELT_KEY, "the key 'nam' means nothing here", "nam"),
        ("{step: c, wait: {timer: 1}}", Code.UNKNOWN_STEP, "there is no step 'c'", "c,"),
        (
            "{step: a, wait: {condition: 'x ==='}}, {step: b, wait: {timer: 1}}",
            Code.TEMPLATE,
            "template:",
            "x ===",
        ),
    ],
)
def test_what_arcs_cannot_wait_for_is_found_at_the_arc(arcs: str, code: Code, message: str, at: str) -> None:
    found = _compile(arcs)
    line = _workflow(f"next: {{arcs: [{arcs}]}}").splitlines()[1]
    (fault,) = [one for one in found.errors if one.code == code and one.message.startswith(message)][:1]
    assert fault.line == 5
    assert line[fault.column - 1 :].startswith(at)
    assert not found.warnings


def test_of_arcs_that_wait_one_is_taken() -> None:
    found = _compile("{step: a, wait: {timer: 1h}}", "spec: {mode: inclusive}, ")
    assert [(one.code, one.hint) for one in found.errors] == [(Code.MISPLACED, "remove mode")]
