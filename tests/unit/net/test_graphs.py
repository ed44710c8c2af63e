from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from noetl.net.graphs import ROOT, Dominators

_NODES = "abcdefg"
_GRAPHS = st.dictionaries(
    st.sampled_from([ROOT, *_NODES]), st.lists(st.sampled_from(_NODES), max_size=4, unique=True)
)


def _reached(graph: dict[str, list[str]], *, without: str | None) -> set[str]:
    seen: set[str] = set()
    waiting = [ROOT]
    while waiting:
        node = waiting.pop()
        if node != without and node not in seen:
            seen.add(node)
            waiting += graph.get(node, [])
    return seen


@given(_GRAPHS)
def test_a_node_dominates_those_that_are_out_of_reach_without_it(graph: dict[str, list[str]]) -> None:
    tree = Dominators(graph)
    reached = _reached(graph, without=None)
    for one in (ROOT, *_NODES):
        cut_off = reached - _reached(graph, without=one)
        assert {other for other in (ROOT, *_NODES) if tree.dominates(one, other)} == (
            cut_off if one in reached else set()
        )


@given(_GRAPHS)
def test_above_a_node_stand_those_that_dominate_it_the_nearest_first(graph: dict[str, list[str]]) -> None:
    tree = Dominators(graph)
    for node in _NODES:
        above = list(tree.above(node))
        assert set(above) == {one for one in (ROOT, *_NODES) if tree.dominates(one, node)}
        assert all(tree.dominates(later, one) for one, later in pairwise(above))
