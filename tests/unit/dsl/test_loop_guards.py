"""What a loop asks while it runs: what it compiles to, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled
from noetl.net.codec import from_json, to_json
from noetl.net.model import Net
from noetl.net.tasks import EnoughRule, Loop

NetOf = Callable[[str], Net]
Body = Callable[[str], Compiled]


def looped(loop: str, spec: str = "", tool: str = "{kind: noop}") -> str:
    more = f", spec: {{{spec}}}" if spec else ""
    return f"workflow:\n- step: a\n  loop: {{in: [1, 2], iterator: item{more}, {loop}}}\n  tool: {tool}\n"


def loop_of(net: Net) -> Loop:
    loop = net.steps["a"].loop
    assert loop is not None
    return loop


@pytest.mark.parametrize(
    ("rest", "kept"), [("", "cancel"), (", rest: cancel", "cancel"), (", rest: run", "run")]
)
def test_enough_is_a_guard_and_what_becomes_of_the_rest(net_of: NetOf, rest: str, kept: str) -> None:
    net = net_of(looped(f'enough: {{when: "{{{{ completed >= 1 }}}}"{rest}}}'))
    assert loop_of(net).enough == EnoughRule("{{ completed >= 1 }}", kept)  # type: ignore[arg-type]
    assert from_json(to_json(net)) == net


def test_a_loop_that_says_nothing_of_it_is_stored_as_ever(net_of: NetOf) -> None:
    net = net_of(looped("spec: {mode: parallel}"))
    assert loop_of(net).sync is True
    stored = to_json(net)["transitions"][0]["loop"]  # type: ignore[call-overload,index]
    assert not {"sync", "enough", "grow", "close"} & stored.keys()  # type: ignore[union-attr]


def test_a_step_that_does_not_wait_says_so(net_of: NetOf) -> None:
    net = net_of(looped("spec: {sync: false}"))
    assert loop_of(net).sync is False
    assert from_json(to_json(net)) == net


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (looped("enough: {rest: run}"), [Code.MISSING]),
        (looped('enough: {when: "{{ completed > 1 }}", rest: keep}'), [Code.VALUE]),
        (looped('enough: {when: "{{ completed > 1 }}", els: run}'), [Code.UNKNOWN_KEY]),
        (looped('enough: {when: "{{ completed > 1 }}"}', "sync: false"), [Code.MISPLACED]),
        (looped('enough: {when: "{{ nothing > 1 }}"}'), [Code.UNDEFINED]),
        (looped('enough: {when: "{{ iter.item > 1 }}"}'), [Code.OUTSIDE_OF_LOOP]),
        (looped('enough: {when: "{{ item > 1 }}"}'), [Code.OUTSIDE_OF_LOOP]),
        (looped('enough: {when: "{{ error.kind }}"}'), [Code.UNDEFINED]),
        (
            looped(
                "spec: {mode: parallel}",
                tool="{kind: noop, loop: {in: [1], iterator: i, enough: {when: true}}}",
            ),
            [Code.MISPLACED],
        ),
        (
            looped(
                "spec: {mode: parallel}",
                tool="{kind: noop, loop: {in: [1], iterator: i, spec: {sync: false}}}",
            ),
            [Code.IGNORED],
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(body: Body, text: str, codes: list[Code]) -> None:
    assert [problem.code for problem in body(text).problems] == codes


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (looped('grow: "{{ result.links }}"'), []),
        (looped('grow: "{{ [iter.item, item, iter.index] if result else none }}"'), []),
        (looped('grow: "{{ outcome.links }}"'), [Code.UNDEFINED]),
        (looped('grow: "{{ iter.other }}"'), [Code.UNDEFINED]),
        (looped('close: "{{ ctx.closed and completed == total }}"'), []),
        (looped('close: "{{ iter.index }}"'), [Code.OUTSIDE_OF_LOOP]),
        (
            looped(
                "spec: {mode: parallel}",
                tool="{kind: noop, loop: {in: [1], iterator: i, grow: [], close: true}}",
            ),
            [Code.MISPLACED, Code.MISPLACED],
        ),
    ],
)
def test_what_iterations_bring_and_what_closes_the_loop(body: Body, text: str, codes: list[Code]) -> None:
    assert [problem.code for problem in body(text).problems] == codes


def test_a_cursor_grows_by_itself(body: Body) -> None:
    claim = "DELETE FROM jobs RETURNING *"
    found = body(
        f"""workflow:
- step: a
  loop: {{iterator: item, cursor: {{kind: postgres, claim: "{claim}"}}, grow: "{{{{ [] }}}}", close: "{{{{ true }}}}"}}
  tool: {{kind: noop}}
"""
    )
    misplaced = [one.path for one in found.problems if one.code == Code.MISPLACED]
    assert misplaced == ["workflow[0].loop.grow", "workflow[0].loop.close"]


def test_growing_loops_are_stored_with_what_they_say(net_of: NetOf) -> None:
    net = net_of(looped('grow: "{{ result.more }}", close: "{{ ctx.closed }}"'))
    assert (loop_of(net).grow, loop_of(net).close) == ("{{ result.more }}", "{{ ctx.closed }}")
    assert (loop_of(net).paced, loop_of(net).asks) == (True, True)
    assert from_json(to_json(net)) == net


def test_the_guard_reads_how_far_the_loop_has_come(body: Body) -> None:
    when = "{{ completed + failed == total or results[0] == ctx.n | default(0) or now() }}"
    assert body(looped(f'enough: {{when: "{when}"}}')).problems == ()


def test_a_loop_around_several_steps_says_that_it_cannot(body: Body) -> None:
    found = body(
        """workflow:
- step: each
  loop: {in: [1], iterator: i, enough: {when: "{{ completed }}"}, spec: {sync: false}}
- step: work
  tool: {kind: noop}
- step: over
  end_loop: each
  tool: {kind: noop}
"""
    )
    misplaced = [one.path for one in found.problems if one.code == Code.MISPLACED]
    assert misplaced == ["workflow[0].loop.enough", "workflow[0].loop.spec.sync"]
