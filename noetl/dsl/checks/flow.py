"""Warnings about the graph: steps that nothing leads to, arcs never taken, cycles that nothing leaves, joins that
cannot fill."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.checks.guards import fixed
from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.read.report import Report
from noetl.net.checks import endless_cycles, endless_steps, reachable, shadowed_arcs
from noetl.net.dominators import Dominators
from noetl.net.model import Net
from noetl.net.unfillable import Unfilled, unfillable_joins

#: Steps that a message names.
_MAX_NAMED = 5


def check_flow(net: Net, report: Report, tree: Dominators, arcs: Mapping[str, Path]) -> None:
    """Adds what the shape of the whole net shows. Steps stand in the order of the document; `arcs` says where each
    arc stands, by its id."""
    places: dict[str, Path] = {
        transition.name: ("workflow", index, "step") for index, transition in enumerate(net.transitions)
    }
    reached = reachable(net)
    for name, path in places.items():
        if name not in reached:
            message = f"no path leads to step {shown(name)}"
            report.add(Code.UNREACHABLE, path, message, "add an arc to it, or remove it")
    _check_cycles(net, report, places)
    for arc, before in shadowed_arcs(net, fixed):
        message = f"the arc to {shown(arc.step)} is never taken: the one to {shown(before.step)} always is"
        report.add(Code.SHADOWED_ARC, arcs[arc.id], message, "put the arc without a guard last")
    _check_joins(net, report, tree, places)


def _check_cycles(net: Net, report: Report, places: Mapping[str, Path]) -> None:
    for name in endless_steps(net, fixed):
        message = f"step {shown(name)} leads to itself without a condition"
        report.add(Code.SELF_LOOP, places[name], message, "give the arc a when:")
    for cycle in endless_cycles(net, fixed):
        if len(cycle) > 1:
            message = f"the steps {_some(cycle)} repeat for ever"
            report.add(Code.ENDLESS, places[cycle[0]], message, "give one of the arcs a when:")


def _check_joins(net: Net, report: Report, tree: Dominators, places: Mapping[str, Path]) -> None:
    for transition in net.transitions:
        arcs = len(net.incoming[transition.name])
        if transition.join.mode == "count" and transition.join.count > arcs:
            message = f"the join waits for {transition.join.count} tokens, but {arcs} lead to it"
            report.add(Code.JOIN_COUNT, places[transition.name], message, "lower its count")
    for one in unfillable_joins(net, tree):
        report.add(Code.JOIN_UNFILLED, places[one.join], *_why(one))


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
            message = f"the join of {shown(one.join)} waits for {steps}, but {shown(one.router)} leads to one of them"
            return message, f"write mode: inclusive in the router of {one.router}, or leave join out"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
