"""The graph: steps that nothing leads to, arcs never taken, cycles that nothing leaves, joins that
cannot fill."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.checks.guards import fixed
from noetl.dsl.checks.subject import Subject
from noetl.dsl.problems import Code, Finding, Path, shown
from noetl.net.checks import endless_cycles, endless_steps, reachable, shadowed_arcs
from noetl.net.model import Net
from noetl.net.unfillable import Unfilled, unfillable_joins

#: Steps that a message names.
_MAX_NAMED = 5


def check_reached(subject: Subject) -> Iterator[Finding]:
    """Steps that no path leads to."""
    for net in _net(subject):
        reached = reachable(net)
        for step in net.transitions:
            if step.name not in reached:
                message = f"no path leads to step {shown(step.name)}"
                hint = "add an arc to it, or remove it"
                yield Finding(Code.UNREACHABLE, _place(net, step.name), message, hint)


def check_cycles(subject: Subject) -> Iterator[Finding]:
    """Steps that repeat for ever."""
    for net in _net(subject):
        for name in endless_steps(net, fixed):
            message = f"step {shown(name)} leads to itself without a condition"
            yield Finding(Code.SELF_LOOP, _place(net, name), message, "give the arc a when:")
        for cycle in endless_cycles(net, fixed):
            if len(cycle) > 1:
                message = f"the steps {_some(cycle)} repeat for ever"
                yield Finding(Code.ENDLESS, _place(net, cycle[0]), message, "give one of the arcs a when:")


def check_shadowed_arcs(subject: Subject) -> Iterator[Finding]:
    """Arcs behind one that is always taken."""
    for net in _net(subject):
        for arc, before in shadowed_arcs(net, fixed):
            message = (
                f"the arc to {shown(arc.step)} is never taken: the one to {shown(before.step)} always is"
            )
            hint = "put the arc without a guard last"
            yield Finding(Code.SHADOWED_ARC, subject.notes.arcs[arc.id], message, hint)


def check_joins(subject: Subject) -> Iterator[Finding]:
    """Joins that cannot fill."""
    for net in _net(subject):
        for step in net.transitions:
            arcs = len(net.incoming[step.name])
            if step.join.mode == "count" and step.join.count > arcs:
                message = f"the join waits for {step.join.count} tokens, but {arcs} lead to it"
                yield Finding(Code.JOIN_COUNT, _place(net, step.name), message, "lower its count")
        for one in unfillable_joins(net, subject.graph) if subject.graph is not None else ():
            yield Finding(Code.JOIN_UNFILLED, _place(net, one.join), *_why(one))


def _net(subject: Subject) -> Iterator[Net]:
    """The net, where no step and no arc is left out."""
    if subject.net is not None and subject.notes.is_whole:
        yield subject.net


def _place(net: Net, step: str) -> Path:
    """Where the name of a step stands. Steps of a whole net stand in the order of the document."""
    return "workflow", list(net.steps).index(step), "step"


def _why(one: Unfilled) -> tuple[str, str]:
    """The message and the hint."""
    steps = _some(one.steps)
    match one.why:
        case "unreached":
            message = f"the join of {shown(one.join)} waits for {steps}, which nothing leads to"
            return message, "remove those arcs, or lead to the steps"
        case "later":
            message = f"the join of {shown(one.join)} waits for {steps}, which can only run after it"
            return message, "write spec.join: any, or leave join out"
        case "exclusive":
            message = (
                f"the join of {shown(one.join)} waits for {steps}, but {shown(one.router)} leads "
                "to one of them"
            )
            return message, f"write mode: inclusive in the router of {one.router}, or leave join out"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
