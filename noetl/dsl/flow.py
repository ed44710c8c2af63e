"""Warnings about the graph: steps that nothing leads to, cycles that nothing leaves, joins that cannot fill."""

from __future__ import annotations

from noetl.dsl.problems import Code, Path, shown
from noetl.dsl.report import Report
from noetl.net.checks import endless_cycles, reachable
from noetl.net.model import Net


def check_flow(net: Net, report: Report) -> None:
    """Adds what the shape of the whole net shows. Steps stand in the order of the document."""
    places: dict[str, Path] = {
        transition.name: ("workflow", index, "step") for index, transition in enumerate(net.transitions)
    }
    reached = reachable(net)
    for name, path in places.items():
        if name not in reached:
            report.add(
                Code.UNREACHABLE,
                path,
                f"no path leads to step {shown(name)}",
                "add an arc to it, or remove it",
            )
    _check_self_loops(net, report, places)
    for cycle in endless_cycles(net):
        if len(cycle) > 1:
            names = ", ".join(cycle[:5]) + (", …" if len(cycle) > 5 else "")
            report.add(
                Code.ENDLESS,
                places[cycle[0]],
                f"the steps {names} repeat for ever",
                "give one of the arcs a when:",
            )
    _check_joins(net, report, places)


def _check_self_loops(net: Net, report: Report, places: dict[str, Path]) -> None:
    for transition in net.transitions:
        if any(arc.step == transition.name and arc.when in (None, True) for arc in transition.arcs):
            message = f"step {shown(transition.name)} leads to itself without a condition"
            report.add(Code.SELF_LOOP, places[transition.name], message, "give the arc a when:")


def _check_joins(net: Net, report: Report, places: dict[str, Path]) -> None:
    for transition in net.transitions:
        arcs = len(net.incoming[transition.name])
        if transition.join.mode == "count" and transition.join.count > arcs:
            report.add(
                Code.JOIN_COUNT,
                places[transition.name],
                f"the join waits for {transition.join.count} tokens, but {arcs} lead to it",
                "lower its count",
            )
