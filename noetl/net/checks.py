"""What the shape of a net shows without running it. Guards are ignored unless said otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from noetl.net.model import Arc, Net

_Graph = Mapping[str, Collection[str]]


def reachable(net: Net) -> frozenset[str]:
    """The steps that a path leads to from the entry; the final step counts as one."""
    targets = {transition.name: [arc.step for arc in transition.ways] for transition in net.transitions}
    waiting = [net.entry] + ([net.final_step] if net.final_step else [])
    seen = set(waiting)
    while waiting:
        for step in targets[waiting.pop()]:
            if step not in seen:
                seen.add(step)
                waiting.append(step)
    return frozenset(seen)


def cycles(net: Net) -> tuple[tuple[str, ...], ...]:
    """Sets of steps that lead to each other (a step that leads to itself is one), in document order."""
    graph = {transition.name: tuple({arc.step for arc in transition.ways}) for transition in net.transitions}
    position = {name: index for index, name in enumerate(graph)}
    found = [
        tuple(sorted(component, key=position.__getitem__))
        for component in _components(graph)
        if len(component) > 1 or component[0] in graph[component[0]]
    ]
    return tuple(sorted(found, key=lambda cycle: position[cycle[0]]))


def endless_cycles(net: Net) -> tuple[tuple[str, ...], ...]:
    """Cycles that a token never leaves: no arc leads out, and every step has an arc without a guard."""
    return tuple(cycle for cycle in cycles(net) if all(_holds(net.steps[step].ways, cycle) for step in cycle))


def _holds(arcs: tuple[Arc, ...], cycle: tuple[str, ...]) -> bool:
    inside = frozenset(cycle)
    return all(arc.step in inside for arc in arcs) and any(arc.when in (None, True) for arc in arcs)


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
