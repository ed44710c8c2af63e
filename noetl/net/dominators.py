"""Which nodes of a graph every path from its root passes before it reaches another one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Final

#: Before whatever a net may begin with.
ROOT: Final = ""


class Dominators:
    """Of the nodes that ROOT leads to in `graph`. One that nothing leads to dominates nothing.

    Computed as by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """

    def __init__(self, graph: Mapping[str, Collection[str]]) -> None:
        self._order = postorder(graph, ROOT)
        self._parent = _parents(graph, self._order)

    def above(self, node: str) -> Iterator[str]:
        """`node`, and all that dominate it, the nearest first."""
        while node in self._parent:
            yield node
            if node == ROOT:
                return
            node = self._parent[node]

    def dominates(self, one: str, other: str) -> bool:
        """Whether every path to `other` leads through `one`; each node dominates itself."""
        if one not in self._spans or other not in self._spans:
            return False
        begin, end = self._spans[one]
        return begin <= self._spans[other][0] < end

    @cached_property
    def _spans(self) -> Mapping[str, tuple[int, int]]:
        """Numbers of the tree's nodes: those below a node lie within its span."""
        sizes = dict.fromkeys(self._parent, 1)
        for node in self._order:
            if node != ROOT:
                sizes[self._parent[node]] += sizes[node]
        spans: dict[str, tuple[int, int]] = {}
        free: dict[str, int] = {}
        for node in reversed(self._order):
            begin = 0 if node == ROOT else free[self._parent[node]]
            if node != ROOT:
                free[self._parent[node]] += sizes[node]
            spans[node] = (begin, begin + sizes[node])
            free[node] = begin + 1
        return spans


def postorder(graph: Mapping[str, Collection[str]], root: str) -> list[str]:
    """The nodes that `root` leads to, each behind those that it leads to, cycles apart."""
    order: list[str] = []
    seen = {root}
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


def _parents(graph: Mapping[str, Collection[str]], order: list[str]) -> dict[str, str]:
    number = {node: index for index, node in enumerate(order)}
    before: dict[str, list[str]] = {node: [] for node in order}
    for node in order:
        for following in graph.get(node, ()):
            before[following].append(node)
    parent = {ROOT: ROOT}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            found = _common([one for one in before[node] if one in parent], parent, number)
            changed |= parent.get(node) != found
            parent[node] = found
    return parent


def _common(nodes: list[str], parent: Mapping[str, str], number: Mapping[str, int]) -> str:
    """The nearest node above all of `nodes`."""
    found = nodes[0]
    for other in nodes[1:]:
        one = other
        while one != found:
            if number[one] < number[found]:
                one = parent[one]
            else:
                found = parent[found]
    return found
