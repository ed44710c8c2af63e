"""What the shape of a net shows without running it. Guards are ignored unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from noetl.net.graphs import ROOT, Dominators, components
from noetl.net.model import ENTRY, Arc, Net, Template, Transition

#: What is known of a guard beforehand: that it always holds, never holds, or (None) neither.
Fixed: TypeAlias = Callable[[Template], bool | None]

#: In the names of nodes before the ids of arcs, so that they are not those of steps.
_ARC: Final = "->"
#: Joins that may fire again without a cycle, when one of their branches comes late.
_REPEATING: Final = frozenset({"any", "first", "count", "tokens"})


def reachable(net: Net) -> frozenset[str]:
    """The steps that a path leads to from the entry, from the final step, or from a handler."""
    return descendants(net, net.beginnings)


def descendants(net: Net, steps: Iterable[str]) -> frozenset[str]:
    """`steps`, and all that a path leads to from one of them."""
    waiting = list(steps)
    seen = set(waiting)
    while waiting:
        for arc in net.steps[waiting.pop()].ways:
            if arc.step not in seen:
                seen.add(arc.step)
                waiting.append(arc.step)
    return frozenset(seen)


def cycles(net: Net) -> tuple[tuple[str, ...], ...]:
    """Sets of steps that lead to each other (a step that leads to itself is one), in document
    order."""
    graph = {step.name: {arc.step for arc in step.ways} for step in net.transitions}
    position = {name: index for index, name in enumerate(graph)}
    found = [
        tuple(sorted(component, key=position.__getitem__))
        for component in components(graph)
        if len(component) > 1 or component[0] in graph[component[0]]
    ]
    return tuple(sorted(found, key=lambda cycle: position[cycle[0]]))


def endless_cycles(net: Net, fixed: Fixed) -> tuple[tuple[str, ...], ...]:
    """Cycles that a token never leaves: no arc leads out, and every step has an arc that is always
    taken."""

    def holds(step: str, cycle: tuple[str, ...]) -> bool:
        arcs = [arc for arc in net.steps[step].ways if fixed(arc.when) is not False]
        return all(arc.step in cycle for arc in arcs) and any(fixed(arc.when) for arc in arcs)

    return tuple(cycle for cycle in cycles(net) if all(holds(step, cycle) for step in cycle))


def endless_steps(net: Net, fixed: Fixed) -> tuple[str, ...]:
    """Steps whose token always comes back to them at once."""
    return tuple(step.name for step in net.transitions if _returns(step, fixed))


def _returns(step: Transition, fixed: Fixed) -> bool:
    for choice in step.choices:
        if any(arc.step == step.name and fixed(arc.when) for arc in choice):
            return True
        leaves = any(arc.step != step.name and fixed(arc.when) is not False for arc in choice)
        if leaves and step.router != "inclusive":
            return False
    return False


def find_shadowed_arcs(net: Net, fixed: Fixed) -> tuple[tuple[Arc, Arc], ...]:
    """Arcs that do nothing because a choice before them is always taken, each with that one.

    Guards about how the step ended are asked after failures too, when what is unguarded is passed
    over.
    """
    return tuple(
        pair for step in net.transitions if step.router != "inclusive" for pair in _find_shadows(step, fixed)
    )


def _find_shadows(step: Transition, fixed: Fixed) -> Iterator[tuple[Arc, Arc]]:
    taken: Arc | None = None
    always: Arc | None = None
    for arc in step.arcs:
        if not arc.also:
            taken = always
        assigns = step.router == "first" and bool(arc.set)
        if taken is not None and not arc.boundary and not assigns:
            yield arc, taken
        elif always is None and arc.step and fixed(arc.when) and not arc.boundary:
            always = arc


def find_arcs_behind_ends(net: Net) -> tuple[Arc, ...]:
    """Arcs of steps that end the execution, which are for a success only. Behind a step that
    admission passes by they are taken."""
    ends = (
        step
        for step in net.transitions
        if step.terminate is not None and not (step.admit is not None and step.admit.on_deny == "pass")
    )
    return tuple(arc for step in ends for arc in step.arcs if not arc.boundary)


@dataclass(frozen=True, slots=True)
class UnfilledJoin:
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
    """Of steps (by name) and arcs (by `->` and id). The final step and handlers are other
    beginnings."""
    graph: dict[str, list[str]] = {ROOT: list(net.beginnings)}
    for step in net.transitions:
        arcs = () if step.name == net.final_step else step.ways
        graph[step.name] = [_ARC + arc.id for arc in arcs]
        graph |= {_ARC + arc.id: [arc.step] for arc in arcs}
    return Dominators(graph)


def unfillable_joins(net: Net, tree: Dominators) -> tuple[UnfilledJoin, ...]:
    """Joins `all` and `count` that can never fire; those that wait for more tokens than they have
    arcs left out."""
    joins = [step for step in net.transitions if step.join.mode in ("all", "count")]
    if not joins:
        return ()
    circular = {step for cycle in cycles(net) for step in cycle}
    several = {step.name for step in net.transitions if len(net.incoming[step.name]) > 1}
    again = {step for step in several if net.steps[step].join.mode in _REPEATING}
    again |= {arc.step for arc in net.arcs.values() if arc.times != 1}
    repeating = descendants(net, circular | again)
    found = [
        _find_fault(net, tree, step, repeating) for step in joins if tree.dominates(step.name, step.name)
    ]
    return tuple(one for one in found if one is not None)


def _find_fault(
    net: Net, tree: Dominators, join: Transition, repeating: Collection[str]
) -> UnfilledJoin | None:
    places = net.incoming[join.name]
    needed = len(places) if join.join.mode == "all" else join.join.count
    if needed > len(places):
        return None
    arcs = [net.arcs[place] for place in places if place != ENTRY]
    unreached = [arc for arc in arcs if not tree.dominates(arc.source, arc.source)]
    if len(places) - len(unreached) < needed:
        return UnfilledJoin(join.name, "unreached", _sources(unreached))
    later = [arc for arc in arcs if tree.dominates(join.name, arc.source)]
    if len(places) - len(unreached) - len(later) < needed:
        return UnfilledJoin(join.name, "later", _sources(later))
    coming = [arc for arc in arcs if arc not in unreached and arc not in later]
    if any(arc.source in repeating for arc in coming):
        return None
    return _find_exclusion(net, tree, join.name, coming, needed - (ENTRY in places))


def _find_exclusion(
    net: Net, tree: Dominators, join: str, coming: list[Arc], needed: int
) -> UnfilledJoin | None:
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
            return UnfilledJoin(join, "exclusive", _sources(excluded), router)
    return None


def _sources(arcs: Collection[Arc]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arc.source for arc in arcs))
