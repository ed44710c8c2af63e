"""Plays a guard-free net as the engine plays a net: what is enabled fires at once, in the order of
arrival, and then any of the runs may end in any of its ways."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

from noetl.net.joins import Reachability
from noetl.net.model import ENTRY
from noetl.net.soundness.shape import FreeNet, Node, consumers_of
from noetl.net.soundness.verdict import Trail

_NONE: Final[frozenset[str]] = frozenset()


class Spot(NamedTuple):
    """A token in a place: the round of a counted join that it counts in, as a distance to the one
    that fired last, and the joins whose last round it has lived through."""

    place: str
    round: int = 0
    rounds: frozenset[str] = _NONE


class Running(NamedTuple):
    """A run of a node, and the same of it."""

    node: str
    rounds: frozenset[str] = _NONE


class Marking(NamedTuple):
    """Where a run of the net stands. `arrived` says of counted joins from which places the last
    round got its tokens, as long as it is not over."""

    spots: tuple[Spot, ...]
    runs: tuple[Running, ...]
    arrived: tuple[tuple[str, frozenset[str]], ...] = ()


@dataclass(frozen=True, slots=True)
class Next:
    """A marking that may follow. `label` is the same for the same choice; `trail` is empty where a
    join fires and no run has ended."""

    marking: Marking
    label: tuple[str, int]
    trail: Trail = ()


@dataclass(frozen=True, slots=True)
class Stuck:
    """Nothing moves any more, and tokens wait before the join."""

    join: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing is left."""


Following: TypeAlias = "Sequence[Next] | Stuck | Ended"


class Game:
    """The rules of firing for one net."""

    def __init__(self, shape: FreeNet, *, in_all_orders: bool = False) -> None:
        self.shape = shape
        self._in_all_orders = in_all_orders
        self.nodes = shape.nodes
        #: The nodes that have fired in any marking that was asked for.
        self.fired: set[str] = set()
        self._consumers = consumers_of(shape.nodes)
        self._order = {name: position for position, name in enumerate(shape.nodes)}
        graph = shape.graph
        self.reach: Mapping[str, Reachability] = {
            name: graph.reach(name) for name, node in shape.nodes.items() if node.kind in ("or", "counted")
        }
        races = any(node.races for node in shape.nodes.values())
        self._in_order = races or any(map(graph.mutual, graph.or_joins))
        self.is_cyclic = bool(shape.circular)
        # Where no choice of one run matters to another one, their order does not matter either.
        self._any_order = not (self.is_cyclic or races or in_all_orders or shape.counts_tokens)

    def begin(self) -> Marking:
        """The marking with the token that enters."""
        return self._settle([Spot(ENTRY)], [], {})

    def follow(self, marking: Marking) -> Following:
        """What may happen next."""
        for index, run in enumerate(marking.runs):
            if self._is_instant(run):
                return list(self._end(marking, index)) or Ended()
        late = list(self._admit_late(marking))
        runs = list(dict.fromkeys(marking.runs))[: 1 if self._any_order else None]
        found = [one for run in runs for one in self._end(marking, marking.runs.index(run))]
        if runs and not (found or late):
            # It can only fail, which is reported.
            return Ended()
        return found if found and self._any_order else [*found, *late] or self._end_waiting(marking)

    def _is_instant(self, run: Running) -> bool:
        return self.nodes[run.node].instant and not self._in_all_orders

    # --- runs that end ----------------------------------------------------------------------------

    def _end(self, marking: Marking, index: int) -> Iterator[Next]:
        """A run ends, in each of its ways."""
        run = marking.runs[index]
        others = [one for number, one in enumerate(marking.runs) if number != index]
        for number, way in enumerate(self.nodes[run.node].ways):
            if way.ends:
                yield Next(Marking((), ()), (run.node, number), way.trail)
                continue
            arrived = dict(marking.arrived)
            here = marking
            for place in way.places:
                spot = self._place(here, place, run.rounds, arrived)
                if spot is not None:
                    here = here._replace(spots=(*here.spots, spot))
                here = here._replace(arrived=tuple(arrived.items()))
            yield Next(self._settle(here.spots, others, arrived), (run.node, number), way.trail)

    def _place(
        self, marking: Marking, place: str, rounds: frozenset[str], arrived: dict[str, frozenset[str]]
    ) -> Spot | None:
        """The token before a step; None where the round that it belongs to has fired already."""
        node = self.nodes[self._consumers[place]]
        if node.kind != "counted":
            return Spot(place, 0, rounds)
        current = dict(marking.arrived).get(node.name)
        if current is not None and place not in current and not self._is_over(marking, node, current):
            arrived[node.name] |= {place}
            return None
        return Spot(place, 1 + sum(one.place == place for one in marking.spots), rounds)

    def _is_over(self, marking: Marking, node: Node, arrived: frozenset[str]) -> bool:
        """Whether every branch of the last round has come or died."""
        reach = self.reach[node.name]
        runs = any(node.name in run.rounds and run.node in reach.runs for run in marking.runs)
        spots = any(
            node.name in spot.rounds and self._consumers[spot.place] in reach.tokens for spot in marking.spots
        )
        return len(arrived) == len(node.places) or not (runs or spots)

    # --- steps that fire --------------------------------------------------------------------------

    def _settle(
        self, spots: Iterable[Spot], runs: Iterable[Running], arrived: Mapping[str, frozenset[str]]
    ) -> Marking:
        """Fires what is enabled, until nothing is or a step that ends at once has to."""
        marking = self._tidy(Marking(tuple(spots), tuple(runs), tuple(arrived.items())))
        while not any(map(self._is_instant, marking.runs)):
            found = next((one for one in self._enabled(marking) if not one[0].late), None)
            if found is None:
                break
            marking = self._fire(marking, *found)
        return marking

    def _admit_late(self, marking: Marking) -> Iterator[Next]:
        for node, taken in self._enabled(marking):
            if node.late:
                fired = self._fire(marking, node, taken)
                settled = self._settle(fired.spots, fired.runs, dict(fired.arrived))
                yield Next(settled, (node.name, -1))

    def _enabled(self, marking: Marking) -> Iterator[tuple[Node, list[Spot]]]:
        """What can fire, and with which tokens, in the order of arrival."""
        waiting: dict[str, list[Spot]] = {}
        for spot in marking.spots:
            waiting.setdefault(self._consumers[spot.place], []).append(spot)
        for name, spots in waiting.items():
            taken = self._take(marking, self.nodes[name], spots)
            if taken:
                yield self.nodes[name], taken

    def _take(self, marking: Marking, node: Node, spots: list[Spot]) -> list[Spot]:
        """The tokens that make the step run; none where it waits."""
        match node.kind:
            case "each":
                return spots[:1]
            case "or":
                return [] if self._can_still_come(marking, node.name) else spots
            case "all":
                first = {spot.place: spot for spot in reversed(spots)}
                return list(first.values()) if len(first) == len(node.places) else []
            case "merged":
                return spots[: node.needed] if len(spots) >= node.needed else []
            case "counted":
                return self._take_round(marking, node, spots)

    def _take_round(self, marking: Marking, node: Node, spots: list[Spot]) -> list[Spot]:
        current = dict(marking.arrived).get(node.name)
        if current is not None and not self._is_over(marking, node, current):
            return []
        number = min(spot.round for spot in spots)
        taken = [spot for spot in spots if spot.round == number]
        return taken if len(taken) >= node.needed else []

    def _can_still_come(self, marking: Marking, join: str) -> bool:
        reach = self.reach[join]
        return any(run.node in reach.runs for run in marking.runs) or any(
            self._consumers[spot.place] in reach.tokens for spot in marking.spots
        )

    def _fire(self, marking: Marking, node: Node, taken: Sequence[Spot]) -> Marking:
        self.fired.add(node.name)
        spots = list(marking.spots)
        for spot in taken:
            spots.remove(spot)
        runs: Sequence[Running] = marking.runs
        if node.cancels:
            spots, runs = self._cancel_rest(node.name, spots, runs)
        rounds = frozenset[str]().union(*(spot.rounds for spot in taken))
        arrived = dict(marking.arrived)
        if node.kind == "counted":
            gone = taken[0].round
            arrived[node.name] = frozenset(spot.place for spot in taken)
            runs = [Running(run.node, run.rounds | {node.name}) for run in runs]
            spots = [self._outlive(node, spot, gone) for spot in spots]
            rounds -= {node.name}
        made = Running(node.name, rounds)
        return self._tidy(Marking(tuple(spots), (*runs, made), tuple(arrived.items())))

    def _outlive(self, node: Node, spot: Spot, gone: int) -> Spot:
        own = self._consumers[spot.place] == node.name
        return Spot(spot.place, spot.round - gone if own else spot.round, spot.rounds | {node.name})

    def _cancel_rest(
        self, join: str, spots: list[Spot], runs: Sequence[Running]
    ) -> tuple[list[Spot], list[Running]]:
        """What is left of the tokens and runs where those that could reach the join are
        withdrawn."""
        reach = self.reach[join]
        left = [
            spot
            for spot in spots
            if self._consumers[spot.place] not in reach.tokens and self._consumers[spot.place] != join
        ]
        return left, [run for run in runs if run.node not in reach.runs]

    def _end_waiting(self, marking: Marking) -> Following:
        """Nothing runs: the first join that waits fires with what has come, or fails."""
        waiting = {self._consumers[spot.place] for spot in marking.spots}
        if not waiting:
            return Ended()
        node = self.nodes[min(waiting, key=self._order.__getitem__)]
        if node.kind != "or":
            return Stuck(node.name)
        taken = [spot for spot in marking.spots if self._consumers[spot.place] == node.name]
        fired = self._fire(marking, node, taken)
        return [Next(self._settle(fired.spots, fired.runs, dict(fired.arrived)), (node.name, -2))]

    # --- the same markings look the same ----------------------------------------------------------

    def _tidy(self, marking: Marking) -> Marking:
        """Without what makes no difference any more: order, and rounds that are over for good."""
        if not marking.arrived and not any(spot.rounds for spot in marking.spots):
            return self._sorted(marking)
        spots = [
            one._replace(rounds=self._cut(one.rounds, self._consumers[one.place])) for one in marking.spots
        ]
        runs = [one._replace(rounds=self._cut(one.rounds, one.node)) for one in marking.runs]
        alive = _NONE.union(*(spot.rounds for spot in spots), *(run.rounds for run in runs))
        open_rounds = {
            join: places
            for join, places in marking.arrived
            if join in alive and len(places) < len(self.nodes[join].places)
        }
        still = frozenset(open_rounds)
        return self._sorted(
            Marking(
                tuple(spot._replace(rounds=spot.rounds & still) for spot in spots),
                tuple(run._replace(rounds=run.rounds & still) for run in runs),
                tuple(sorted(open_rounds.items(), key=lambda one: one[0])),
            )
        )

    def _cut(self, rounds: frozenset[str], at: str) -> frozenset[str]:
        return frozenset(join for join in rounds if at in self._leads_to[join])

    @cached_property
    def _leads_to(self) -> Mapping[str, frozenset[str]]:
        """For each counted join the nodes from which any path leads to it."""
        leads = self.shape.graph.leads
        found: dict[str, frozenset[str]] = {}
        for join in (node.name for node in self.nodes.values() if node.kind == "counted"):
            before = set[str]()
            while more := {name for name, to in leads.items() if name not in before and to & {join, *before}}:
                before |= more
            found[join] = frozenset(before)
        return found

    def _sorted(self, marking: Marking) -> Marking:
        spots = marking.spots if self._in_order else tuple(sorted(marking.spots))
        return Marking(spots, tuple(sorted(marking.runs, key=_order_of)), marking.arrived)


def _order_of(run: Running) -> tuple[str, list[str]]:
    return run.node, sorted(run.rounds) if run.rounds else []
