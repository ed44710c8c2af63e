from __future__ import annotations

from typing import Literal

import pytest

from noetl.net.checks import UnfilledJoin, dominators, unfillable_joins
from noetl.net.model import Arc, Join, Net, Transition


def _net(text: str, *, exclusive: str = "", join: Join | None = None) -> Net:
    """`a>b a>c`: arcs; the first name is the entry. `exclusive`: names of exclusive routers. `j`
    has the join."""
    names = dict.fromkeys(name for arc in text.split() for name in arc.split(">"))
    arcs = [Arc(arc, *arc.split(">")) for arc in text.split()]

    def router(name: str) -> Literal["exclusive", "inclusive"]:
        return "exclusive" if name in exclusive else "inclusive"

    return Net(
        "n",
        "n",
        next(iter(names)),
        tuple(
            Transition(
                name,
                arcs=tuple(arc for arc in arcs if arc.source == name),
                router=router(name),
                join=(join or Join("all")) if name == "j" else Join(),
            )
            for name in names
        ),
    )


def _found(net: Net) -> tuple[UnfilledJoin, ...]:
    return unfillable_joins(net, dominators(net))


@pytest.mark.parametrize(
    ("arcs", "exclusive", "found"),
    [
        ("s>a s>b a>j b>j", "", None),
        ("s>a s>b a>j b>j", "s", UnfilledJoin("j", "exclusive", ("a", "b"), "s")),
        ("s>a s>j a>j", "s", UnfilledJoin("j", "exclusive", ("s", "a"), "s")),
        ("s>a s>b a>j b>c b>d c>j d>j", "b", UnfilledJoin("j", "exclusive", ("c", "d"), "b")),
        ("s>x s>y x>a x>b y>a y>b a>j b>j", "s", None),
        ("s>a a>j x>j", "", UnfilledJoin("j", "unreached", ("x",))),
        ("s>j j>a a>j", "", UnfilledJoin("j", "later", ("a",))),
        ("s>a a>j s>j j>a", "", None),
        ("s>a s>b a>j b>j a>s", "s", None),
        ("s>t s>u t>r u>r r>a r>b a>j b>j", "r", UnfilledJoin("j", "exclusive", ("a", "b"), "r")),
    ],
)
def test_joins_whose_tokens_cannot_come_together(
    arcs: str, exclusive: str, found: UnfilledJoin | None
) -> None:
    assert _found(_net(arcs, exclusive=exclusive)) == ((found,) if found else ())


@pytest.mark.parametrize(("count", "fills"), [(1, True), (2, True), (3, False), (4, True)])
def test_a_count_is_held_against_the_tokens_that_can_come(count: int, fills: bool) -> None:
    # Of a and b one comes, and c. That four are more than there are arcs is told elsewhere.
    net = _net("s>c s>r r>a r>b a>j b>j c>j", exclusive="r", join=Join("count", count))
    assert (_found(net) == ()) == fills


@pytest.mark.parametrize("mode", ["auto", "any", "first"])
def test_joins_that_wait_for_nothing_in_particular_always_fill(
    mode: Literal["auto", "any", "first"],
) -> None:
    assert _found(_net("s>a s>b a>j b>j", exclusive="s", join=Join(mode))) == ()
