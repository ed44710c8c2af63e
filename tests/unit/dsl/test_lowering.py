"""Other spellings mean what the canonical form says, and problems point at what was written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl.dsl import Code, Compiled
from noetl.dsl.read.origins import Rewritten, origin, settle
from noetl.dsl.read.source import read
from noetl.net.codec import same_net
from noetl.net.model import Net

TOOL = "tool: {kind: noop"
SPELLINGS = {
    "with": (
        "workflow: [{step: a, tool: {kind: noop, with: {x: 1, y: 2}, args: {y: 3}}}]",
        "workflow: [{step: a, tool: {kind: noop, input: {x: 1}, args: {y: 3}}}]",
    ),
    "with in a workbook": (
        "workbook: {w: {kind: noop, with: {x: 1}}}\nworkflow: [{step: a, tool: w}]",
        "workbook: {w: {kind: noop, input: {x: 1}}}\nworkflow: [{step: a, tool: w}]",
    ),
    "set_ctx of steps, arcs, tasks and rules": (
        "workflow:\n- step: a\n  tool:\n  - x: {kind: noop, set_ctx: {n: 1}, set: {y: 2}, spec: {policy: "
        "{rules: [{else: {do: continue, set_ctx: {m: 3}}}]}}}\n"
        "  set_ctx: {o: 4}\n  next: {arcs: [{step: b, set_ctx: {p: 5}}]}\n- {step: b, tool: {kind: noop}}",
        "workflow:\n- step: a\n  tool:\n  - x: {kind: noop, set: {ctx.n: 1, y: 2}, spec: {policy: "
        "{rules: [{else: {do: continue, set: {ctx.m: 3}}}]}}}\n"
        "  set: {ctx.o: 4}\n  next: {arcs: [{step: b, set: {ctx.p: 5}}]}\n- {step: b, tool: {kind: noop}}",
    ),
    "set_iter": (
        "workflow: [{step: a, loop: {in: [1], iterator: i}, tool: {kind: noop, set_iter: {x: 1}, set: "
        "{iter.x: 2}}}]",
        "workflow: [{step: a, loop: {in: [1], iterator: i}, tool: {kind: noop, set: {iter.x: 1}}}]",
    ),
    "mode beside in": (
        "workflow: [{step: a, loop: {in: [1], iterator: i, mode: parallel, spec: {max_in_flight: 2}}, "
        "tool: {kind: noop}}]",
        "workflow: [{step: a, loop: {in: [1], iterator: i, spec: {mode: parallel, max_in_flight: 2}}, "
        "tool: {kind: noop}}]",
    ),
    "spec.mode over mode": (
        "workflow: [{step: a, loop: {in: [1], iterator: i, mode: parallel, spec: {mode: sequential}}, "
        "tool: {kind: noop}}]",
        "workflow: [{step: a, loop: {in: [1], iterator: i, spec: {mode: sequential}}, tool: {kind: noop}}]",
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_an_older_spelling_has_the_net_of_the_canonical_one(
    name: str, net_of: Callable[[str], Net], body: Callable[[str], Compiled]
) -> None:
    older, canonical = SPELLINGS[name]
    assert same_net(net_of(older), net_of(canonical))
    assert Code.DEPRECATED in {problem.code for problem in body(older).problems}
    assert Code.DEPRECATED not in {problem.code for problem in body(canonical).problems}


def test_problems_of_what_was_rewritten_point_at_what_was_written(body: Callable[[str], Compiled]) -> None:
    found = body(
        "workflow:\n- step: a\n  tool:\n    kind: noop\n    with:\n      x: '{{ 1 | nope }}'\n      y: 1\n"
    )
    (fault,) = found.errors
    assert (fault.code, fault.line, fault.column) == (Code.TEMPLATE, 9, 18)
    assert fault.path == "workflow[0].tool.with.x"


def test_every_part_of_what_was_rewritten_knows_its_origin() -> None:
    data, first = settle({"a": [Rewritten({"x": 1, "y": Rewritten(2, ("old", "y"))}, ("b", 0))], "c": 3})
    assert data == {"a": [{"x": 1, "y": 2}], "c": 3}
    assert origin(first, ("a", 0, "x")) == ("b", 0, "x")
    assert origin(first, ("a", 0, "y", "z")) == ("old", "y", "z")
    assert origin(first, ("c",)) == ("c",)


def test_places_are_found_through_two_rewritings() -> None:
    source = read("b: [{x: 1}]\nc: 3\n", "f.yaml")
    once = source.rewritten(*settle({"a": [Rewritten({"x": 1}, ("b", 0))]}))
    twice = once.rewritten(*settle({"d": Rewritten([{"x": 1}], ("a",)), "new": 1}))
    assert twice.path_in_text(("d", 0, "x")) == ("b", 0, "x")
    assert twice.mark(("d", 0, "x")) == source.mark(("b", 0, "x"))
    assert twice.path_in_text(("d", 0, "gone", "y")) == ("b", 0)
