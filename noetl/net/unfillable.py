"""Joins whose tokens cannot come together, whatever the guards say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from noetl.net.checks import cycles, descendants
from noetl.net.dominators import ROOT, Dominators
from noetl.net.model import ENTRY, Arc, Net, Transition

#: In the names of nodes before the ids of arcs, so that they are not those of steps.
_ARC: Final = "->"
#: Joins that may fire again without a cycle, when one of their branches comes late.
_REPEATING: Final = frozenset({"any", "first", "count"})


@dataclass(frozen=True, slots=True)
class Unfilled:
    """A join that waits for ever. `steps` are where the tokens that fail it would come from, all of
    them

    - `unreached`: steps that nothing leads to;
    - `later`: steps that only run after the join has fired;
    - `exclusive`: behind different choices of the step `router`, of which one token takes one.
    """

    join: str
    why: Literal["unreached", "later", "exclusive"]
    steps: tuple[str, ...]
    router: str = ""


def dominators(net: Net) -> Dominators:
    """Of steps (by name) and arcs (by `->` and id). The final step is a beginning of its own."""
    graph: dict[str, list[str]] = {ROOT: [net.entry, *([net.final_step] if net.final_step else [])]}
    for step in net.transitions:
        arcs = () if step.name == net.final_step else step.ways
        graph[step.name] = [_ARC + arc.id for arc in arcs]
        graph |= {_ARC + arc.id: [arc.step] for arc in arcs}
    return Dominators(graph)


def unfillable_joins(net: Net, tree: Dominators) -> tuple[Unfilled, ...]:
    """Joins `all` and `count` that can never fire; those that wait for more tokens than they have
    arcs left out."""
    joins = [step for step in net.transitions if step.join.mode in ("all", "count")]
    if not joins:
        return ()
    repeating = _may_run_again(net)
    found = [_unfilled(net, tree, step, repeating) for step in joins if tree.dominates(step.name, step.name)]
    return tuple(one for one in found if one is not None)


def _unfilled(net: Net, tree: Dominators, join: Transition, repeating: Collection[str]) -> Unfilled | None:
    places = net.incoming[join.name]
    needed = len(places) if join.join.mode == "all" else join.join.count
    if needed > len(places):
        return None
    arcs = [net.arcs[place] for place in places if place != ENTRY]
    unreached = [arc for arc in arcs if not tree.dominates(arc.source, arc.source)]
    if len(places) - len(unreached) < needed:
        return Unfilled(join.name, "unreached", _sources(unreached))
    later = [arc for arc in arcs if tree.dominates(join.name, arc.source)]
    if len(places) - len(unreached) - len(later) < needed:
        return Unfilled(join.name, "later", _sources(later))
    coming = [arc for arc in arcs if arc not in unreached and arc not in later]
    if any(arc.source in repeating for arc in coming):
        return None
    return _excluded(net, tree, join.name, coming, needed - (ENTRY in places))


def _excluded(net: Net, tree: Dominators, join: str, coming: list[Arc], needed: int) -> Unfilled | None:
    """Of the arcs behind one exclusive router only those behind one of its choices bring tokens."""
    behind: dict[str, dict[str, list[Arc]]] = {}
    for arc in coming:
        for node in tree.above(_ARC + arc.id):
            chosen = net.arcs.get(node.removeprefix(_ARC)) if node.startswith(_ARC) else None
            if chosen is not None and net.steps[chosen.source].router != "inclusive":
                choice = next(one for one in net.steps[chosen.source].choices if chosen in one)
                behind.setdefault(chosen.source, {}).setdefault(choice[0].id, []).append(arc)
    for router, choices in behind.items():
        sizes = [len(arcs) for arcs in choices.values()]
        if len(coming) - sum(sizes) + max(sizes) < needed:
            excluded = [arc for arcs in choices.values() for arc in arcs]
            return Unfilled(join, "exclusive", _sources(excluded), router)
    return None


def _sources(arcs: Collection[Arc]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arc.source for arc in arcs))


def _may_run_again(net: Net) -> frozenset[str]:
    """Steps of cycles, steps that fire for each of several tokens, and all steps behind them."""
    waiting = [step for cycle in cycles(net) for step in cycle]
    waiting += [
        step.name
        for step in net.transitions
        if step.join.mode in _REPEATING and len(net.incoming[step.name]) > 1
    ]
    return descendants(net, waiting)
