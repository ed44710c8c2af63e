"""Directed graphs: an order, components, and which nodes every path to another one passes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import reduce
from operator import and_
from typing import Final, TypeAlias

#: Node → the nodes that it leads to.
Graph: TypeAlias = Mapping[str, Collection[str]]

#: Before whatever a net may begin with.
ROOT: Final = ""


def postorder(graph: Graph, root: str, seen: set[str] | None = None) -> list[str]:
    """The nodes that `root` leads to, each behind those that it leads to, cycles apart. Nodes in
    `seen` are left out; the others are added to it."""
    order: list[str] = []
    seen = set() if seen is None else seen
    seen.add(root)
    work = [(root, iter(graph.get(root, ())))]
    while work:
        node, successors = work[-1]
        following = next((one for one in successors if one not in seen), None)
        if following is None:
            order.append(node)
            work.pop()
        else:
            seen.add(following)
            work.append((following, iter(graph.get(following, ()))))
    return order


def components(graph: Graph) -> list[list[str]]:
    """The strongly connected components of a graph without ROOT, by Kosaraju's algorithm."""
    order = postorder({**graph, ROOT: graph.keys()}, ROOT)[:-1]
    before, seen = _predecessors(graph, order), set[str]()
    return [postorder(before, node, seen) for node in reversed(order) if node not in seen]


def _predecessors(graph: Graph, nodes: Collection[str]) -> dict[str, list[str]]:
    before: dict[str, list[str]] = {node: [] for node in nodes}
    for node in nodes:
        for following in graph.get(node, ()):
            before[following].append(node)
    return before


class Dominators:
    """Of the nodes that ROOT leads to in `graph`. One that nothing leads to dominates nothing.

    Those that dominate a node are the bits of a number, by their places in the order: what
    dominates all that lead to a node dominates it as well.
    """

    def __init__(self, graph: Graph) -> None:
        self._order = postorder(graph, ROOT)
        self._bits = {node: 1 << place for place, node in enumerate(self._order)}
        before = _predecessors(graph, self._order)
        # To begin with everything dominates every node but the root.
        self._above = {**dict.fromkeys(self._order, -1), ROOT: self._bits[ROOT]}
        changed = True
        while changed:
            changed = False
            for node in reversed(self._order[:-1]):
                above = self._bits[node] | reduce(and_, (self._above[one] for one in before[node]))
                changed |= above != self._above[node]
                self._above[node] = above

    def above(self, node: str) -> list[str]:
        """`node`, and all that dominate it, the nearest first."""
        return list(self._walk(self._above.get(node, 0)))

    def _walk(self, bits: int) -> Iterator[str]:
        while bits:
            lowest = bits & -bits
            yield self._order[lowest.bit_length() - 1]
            bits ^= lowest

    def dominates(self, one: str, other: str) -> bool:
        """Whether every path to `other` leads through `one`; each node dominates itself."""
        return bool(self._above.get(other, 0) & self._bits.get(one, 0))
