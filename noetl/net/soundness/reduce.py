"""Makes a guard-free net smaller, and keeps whether it is sound.

The rules assume that no step runs twice at once and no place gets a second token: `explore`
watches what is left, and the whole net is explored where it is not so. Steps from which a race can
be reached (joins that take the first tokens, or cancel the rest) keep their own runs: when one of
them ends may matter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from noetl.net.soundness.shape import FreeNet, Node, RunEnd, consumers_of, merge_ways, producers_of
from noetl.net.soundness.verdict import Trail

#: A fusion that makes more ways than this, and more than there were, is not done.
_MOST_WAYS: Final = 64


def reduce(shape: FreeNet) -> FreeNet:
    """A smaller net that is sound where `shape` is."""
    if shape.counts_tokens or (shape.circular and any(node.races for node in shape.nodes.values())):
        return shape
    return _Reducer(shape).run()


class _Reducer:
    def __init__(self, shape: FreeNet) -> None:
        self._shape = shape
        self._nodes = dict(shape.nodes)
        self._hosts = dict(shape.hosts)
        self._producers = producers_of(self._nodes)
        self._consumers = consumers_of(self._nodes)
        self._touchy = _leads_to_races(shape)
        self._circular = shape.circular

    def run(self) -> FreeNet:
        waiting = deque(self._nodes)
        known = set(waiting)
        while waiting:
            name = waiting.popleft()
            known.discard(name)
            for again in self._reduce(self._nodes[name]) if name in self._nodes else ():
                if again not in known:
                    known.add(again)
                    waiting.append(again)
        return FreeNet(self._shape.entry, self._nodes, self._hosts)

    def _reduce(self, node: Node) -> Iterable[str]:
        """Applies a rule to a node; yields the nodes to which one may apply now."""
        for rule in (self._drop_unfed, self._drop_parallel, self._drop_returns):
            made = rule(node)
            if made is not None:
                behind = list(self._behind(node))
                self._nodes[made.name] = made
                return [made.name, *behind]
        before = self._fuse(node)
        return () if before is None else [before.name, *self._behind(node)]

    def _behind(self, node: Node) -> Iterator[str]:
        places = (self._consumers.get(place) for way in node.ways for place in way.places)
        return (name for name in dict.fromkeys(places) if name is not None)

    def _drop_unfed(self, node: Node) -> Node | None:
        """Places that never get a token are left out before a step that does not need them
        (elimination of dead places; Desel and Esparza, "Free Choice Petri Nets", 1995)."""
        if node.kind not in ("each", "or") or node.cancels:
            return None
        fed = tuple(place for place in node.places if self._is_fed(node, place))
        return _with_places(node, fed) if len(fed) < len(node.places) else None

    def _is_fed(self, node: Node, place: str) -> bool:
        return place in self._producers or (place == node.places[0] and node.name == self._shape.entry)

    def _drop_parallel(self, node: Node) -> Node | None:
        """Of places before one join that are filled together always one is kept: fusion of
        parallel places (Murata 1989, fig. 22 c)."""
        twins: dict[tuple[str, frozenset[int]], list[str]] = {}
        if len(node.ways) == 1 and len(node.ways[0].places) < 2:
            return None
        for place in dict.fromkeys(place for way in node.ways for place in way.places):
            member = frozenset(index for index, way in enumerate(node.ways) if place in way.places)
            twins.setdefault((self._consumers[place], member), []).append(place)
        spare = {
            place
            for (name, _), places in twins.items()
            if self._nodes[name].kind in ("all", "or") and not self._nodes[name].races
            for place in places[1:]
        }
        if not spare:
            return None
        for place in spare:
            one = self._nodes[self._consumers[place]]
            left = tuple(other for other in one.places if other != place)
            self._nodes[one.name] = _with_places(one, left)
            del self._producers[place], self._consumers[place]
        node = self._nodes[node.name]
        ways = (
            RunEnd(tuple(place for place in way.places if place not in spare), way.trail) for way in node.ways
        )
        return replace(node, ways=merge_ways(tuple(ways)))

    def _drop_returns(self, node: Node) -> Node | None:
        """A way that leads back to the step alone is left out where there is another one:
        elimination of self-loop transitions (Murata 1989, fig. 22 f)."""
        if node.kind not in ("each", "or") or node.cancels or (self._touchy and node.kind == "or"):
            return None
        own = frozenset(node.places)
        kept = [way for way in node.ways if not self._returns(node, own, way)]
        if not kept or len(kept) == len(node.ways):
            return None
        left = {place for way in kept for place in way.places}
        gone = {place for way in node.ways for place in way.places if place in own} - left
        for place in gone:
            del self._producers[place], self._consumers[place]
        leads = node.leads - {node.name} if not left & own else node.leads
        places = tuple(place for place in node.places if place not in gone)
        return _with_places(replace(node, ways=tuple(kept), leads=leads), places)

    def _returns(self, node: Node, own: frozenset[str], way: RunEnd) -> bool:
        several = len(way.places) > 1 and node.kind == "each"
        return bool(way.places) and own.issuperset(way.places) and not several

    def _fuse(self, node: Node) -> Node | None:
        """A step whose tokens all come from runs of another one becomes a part of that: fusion of
        series places and transitions (Murata 1989, fig. 22 a and b; agglomeration, Berthelot,
        "Transformations and decompositions of nets", LNCS 254, 1987)."""
        first = self._producers.get(node.places[0]) if node.places else None
        if first is None or first == node.name or node.races or node.late:
            return None
        before = self._nodes[first]
        if any(self._producers.get(place) != first for place in node.places) or self._may_race(before, node):
            return None
        own = frozenset(node.places)
        if not all(_fills(node, own, way) for way in before.ways) or self._may_run_again(before, node, own):
            return None
        ways = merge_ways([made for way in before.ways for made in _extend(way, own, node.ways)])
        if len(ways) > max(_MOST_WAYS, len(before.ways)):
            return None
        return self._replace(before, node, ways)

    def _may_run_again(self, before: Node, node: Node, own: frozenset[str]) -> bool:
        """Whether a branch may end in `node` while another one leads back to `before`, which could
        then run again before it has ended."""
        alone = all(own.isdisjoint(way.places) or own.issuperset(way.places) for way in before.ways)
        return not alone and before.name in self._circular and not all(way.places for way in node.ways)

    def _may_race(self, before: Node, node: Node) -> bool:
        if not self._touchy:
            return False
        touchy = before.name in self._touchy or node.name in self._touchy
        return node.kind == "or" or (touchy and not node.instant)

    def _replace(self, before: Node, node: Node, ways: Sequence[RunEnd]) -> Node:
        del self._nodes[node.name]
        self._hosts[node.name] = before.name
        for place in node.places:
            del self._producers[place], self._consumers[place]
        for way in node.ways:
            self._producers.update(dict.fromkeys(way.places, before.name))
        leads = (before.leads - {node.name}) | node.leads
        instant = before.instant and node.instant
        made = replace(before, ways=tuple(ways), leads=leads, instant=instant)
        self._nodes[before.name] = made
        return made


def _with_places(node: Node, places: tuple[str, ...]) -> Node:
    """A join of one place waits for nothing."""
    if len(places) > 1 or node.races:
        return replace(node, places=places)
    return replace(node, places=places, kind="each", waits=False)


def _fills(node: Node, own: frozenset[str], way: RunEnd) -> bool:
    """Whether what a run puts before the step that way makes it run once, or not at all."""
    number = len(own.intersection(way.places))
    match node.kind:
        case "all":
            return number in (0, len(own))
        case "each":
            return number <= 1
        case _:
            return True


def _extend(way: RunEnd, own: frozenset[str], ways: Sequence[RunEnd]) -> Iterator[RunEnd]:
    """The way itself where it does not fill a place of `own`, else with each of `ways` behind
    it."""
    if own.isdisjoint(way.places):
        yield way
        return
    others = tuple(itertools.filterfalse(own.__contains__, way.places))
    for one in ways:
        trail: Trail = (way.trail, one.trail)
        yield RunEnd((*others, *one.places), trail)


def _leads_to_races(shape: FreeNet) -> frozenset[str]:
    """The steps from which a race can be reached, those where it is run among them."""
    before: dict[str, list[str]] = {name: [] for name in shape.nodes}
    for node in shape.nodes.values():
        for one in node.leads & shape.nodes.keys():
            before[one].append(node.name)
    waiting = [node.name for node in shape.nodes.values() if node.races]
    seen = set(waiting)
    while waiting:
        new = [one for one in before[waiting.pop()] if one not in seen]
        seen.update(new)
        waiting += new
    return frozenset(seen)
