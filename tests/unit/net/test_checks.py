from __future__ import annotations

import pytest

from noetl.net.checks import cycles, endless_cycles, reachable
from noetl.net.model import Arc, Net, Transition


def _net(arcs: str, *, final: str | None = None) -> Net:
    """`a>b b?c`: `>` without a guard, `?` with one. The first name is the entry."""
    names = dict.fromkeys(name for arc in arcs.split() for name in arc.replace("?", ">").split(">"))
    made: dict[str, list[Arc]] = {name: [] for name in names}
    for arc in arcs.split():
        source, target = arc.replace("?", ">").split(">")
        made[source].append(Arc(arc, source, target, when="{{ x }}" if "?" in arc else None))
    steps = tuple(Transition(name, arcs=tuple(out)) for name, out in made.items())
    return Net("n", "n", next(iter(names)), steps, final_step=final)


def test_reachable_follows_arcs_from_the_entry_and_counts_the_final_step() -> None:
    assert reachable(_net("a>b b?a c>d d>e")) == {"a", "b"}
    assert reachable(_net("a>b b?a c>d d>e", final="d")) == {"a", "b", "d", "e"}


@pytest.mark.parametrize(
    ("arcs", "found", "endless"),
    [
        ("a>b b>c", [], []),
        ("a>a", [("a",)], [("a",)]),
        ("a?a", [("a",)], []),
        ("a>b b>a", [("a", "b")], [("a", "b")]),
        ("a>b b?a", [("a", "b")], []),
        ("a>b b>a b?c", [("a", "b")], []),
        ("a>b b>c c>b c?a", [("a", "b", "c")], [("a", "b", "c")]),
        ("a>b b>a c>d d>c", [("a", "b"), ("c", "d")], [("a", "b"), ("c", "d")]),
        ("a>b a>c b>d c>d d?a", [("a", "b", "c", "d")], []),
    ],
)
def test_cycles_and_those_that_nothing_leaves(
    arcs: str, found: list[tuple[str, ...]], endless: list[tuple[str, ...]]
) -> None:
    assert list(cycles(_net(arcs))) == found
    assert list(endless_cycles(_net(arcs), lambda when: True if when is None else None)) == endless


def test_arcs_that_only_assign_lead_nowhere_and_have_no_place() -> None:
    assigns = Arc("a->", "a", "")
    net = Net(
        "n",
        "n",
        "a",
        (
            Transition("a", arcs=(assigns, Arc("a->b", "a", "b"))),
            Transition("b", arcs=(Arc("b->", "b", ""),)),
        ),
    )
    assert reachable(net) == {"a", "b"}
    assert cycles(net) == ()
    assert set(net.places) == {"entry", "a->b"}


def test_a_long_chain_needs_no_recursion() -> None:
    net = _net(" ".join(f"s{i}>s{i + 1}" for i in range(5_000)) + " s5000>s0")
    assert len(cycles(net)[0]) == 5_001
