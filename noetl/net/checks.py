"""What the shape of a net shows without running it. Guards are ignored unless said otherwise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeAlias

from noetl.net.model import Arc, Net, Transition

_Graph = Mapping[str, Collection[str]]

#: What is known of an arc's guard beforehand: that it always holds, never holds, or (None) neither.
Fixed: TypeAlias = Callable[[Arc], bool | None]


def literal(arc: Arc) -> bool | None:
    """The least that can be said: there is no guard, or it is a boolean."""
    if arc.when is None:
        return True
    return arc.when if isinstance(arc.when, bool) else None


def reachable(net: Net) -> frozenset[str]:
    """The steps that a path leads to from the entry; the final step counts as one."""
    return descendants(net, [net.entry] + ([net.final_step] if net.final_step else []))


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
    graph = {transition.name: tuple({arc.step for arc in transition.ways}) for transition in net.transitions}
    position = {name: index for index, name in enumerate(graph)}
    found = [
        tuple(sorted(component, key=position.__getitem__))
        for component in _components(graph)
        if len(component) > 1 or component[0] in graph[component[0]]
    ]
    return tuple(sorted(found, key=lambda cycle: position[cycle[0]]))


def endless_cycles(net: Net, fixed: Fixed = literal) -> tuple[tuple[str, ...], ...]:
    """Cycles that a token never leaves: no arc leads out, and every step has an arc that is always
    taken."""
    return tuple(
        cycle for cycle in cycles(net) if all(_holds(net.steps[step].ways, cycle, fixed) for step in cycle)
    )


def _holds(arcs: tuple[Arc, ...], cycle: tuple[str, ...], fixed: Fixed) -> bool:
    inside = frozenset(cycle)
    open_arcs = [arc for arc in arcs if fixed(arc) is not False]
    return all(arc.step in inside for arc in open_arcs) and any(fixed(arc) for arc in open_arcs)


def endless_steps(net: Net, fixed: Fixed = literal) -> tuple[str, ...]:
    """Steps whose token always comes back to them at once."""
    return tuple(step.name for step in net.transitions if _returns(step, fixed))


def _returns(step: Transition, fixed: Fixed) -> bool:
    for choice in step.choices:
        if any(arc.step == step.name and fixed(arc) for arc in choice):
            return True
        if step.router != "inclusive" and any(
            arc.step != step.name and fixed(arc) is not False for arc in choice
        ):
            return False
    return False


def shadowed_arcs(net: Net, fixed: Fixed = literal) -> tuple[tuple[Arc, Arc], ...]:
    """Arcs that do nothing because a choice before them is always taken, each with that one.

    Guards about how the step ended are asked after failures too, when what is unguarded is passed
    over.
    """
    return tuple(
        pair for step in net.transitions if step.router != "inclusive" for pair in _shadowed(step, fixed)
    )


def _shadowed(step: Transition, fixed: Fixed) -> Iterator[tuple[Arc, Arc]]:
    taken: Arc | None = None
    always: Arc | None = None
    for arc in step.arcs:
        if not arc.also:
            taken = always
        assigns = step.router == "first" and bool(arc.set)
        if taken is not None and not arc.boundary and not assigns:
            yield arc, taken
        elif always is None and arc.step and fixed(arc) and not arc.boundary:
            always = arc


def _components(graph: _Graph) -> list[list[str]]:
    """Strongly connected components (Tarjan), without recursion: nets may be one long chain."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        _enter(root, index, low, stack, on_stack)
        while work:
            node, successors = work[-1]
            following = next((step for step in successors if _visit(step, node, index, low, on_stack)), None)
            if following is not None:
                _enter(following, index, low, stack, on_stack)
                work.append((following, iter(graph[following])))
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                found.append(_pop_component(node, stack, on_stack))
    return found


def _enter(
    node: str, index: dict[str, int], low: dict[str, int], stack: list[str], on_stack: set[str]
) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)


def _visit(step: str, node: str, index: dict[str, int], low: dict[str, int], on_stack: set[str]) -> bool:
    """Whether `step` is still to be entered; where not, what it knows is noted for `node`."""
    if step not in index:
        return True
    if step in on_stack:
        low[node] = min(low[node], index[step])
    return False


def _pop_component(root: str, stack: list[str], on_stack: set[str]) -> list[str]:
    component = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == root:
            return component
