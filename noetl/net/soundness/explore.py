"""Goes through the markings of a guard-free net, and finds those that break a promise."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from noetl.net.soundness.firing import Ended, Following, Game, Marking, Next, Stuck
from noetl.net.soundness.shape import consumers_of
from noetl.net.soundness.verdict import FaultKind, Move, SoundnessBounds, Trail, Unsoundness, moves_of

#: So many markings are taken in their breadth, for short witnesses; later ones in their depth,
#: where ends are found sooner.
_IN_BREADTH: Final = 2_000
#: How often a cycle that adds tokens has to do so again before it counts as one without a bound.
_REPEATS: Final = 2


@dataclass(slots=True)
class Exploration:
    """What was found. `reason` says why not all was looked at; `is_unsafe` that something ran twice
    at once, which only who watches for it learns."""

    faults: list[Unsoundness] = field(default_factory=list)
    explored: int = 0
    reason: str = ""
    is_unsafe: bool = False


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a marking was reached first. `fewest` are the tokens and runs of the smallest marking on
    the way."""

    before: Marking | None
    step: Next
    fewest: int


def explore(game: Game, bounds: SoundnessBounds, *, watches: bool) -> Exploration:
    """All markings within `bounds`. `watches` ends it where anything runs twice at once."""
    return _Explorer(game, bounds, watches).run()


class _Explorer:
    def __init__(self, game: Game, bounds: SoundnessBounds, watches: bool) -> None:
        self._game = game
        self._bounds = bounds
        self._watches = watches
        self._found = Exploration()
        self._seen: dict[Marking, _Seen] = {}
        self._ways: dict[Marking, list[Next]] = {}
        self._ends: list[Marking] = []
        self._consumers = consumers_of(game.nodes)
        self._known: set[tuple[str, str]] = set()
        # Before a join that merges so many gather and go on.
        merging = (node.needed for node in game.nodes.values() if node.kind == "merged")
        self._repeats_needed = max([_REPEATS, *merging])

    def run(self) -> Exploration:
        begin = self._game.begin()
        self._seen[begin] = _Seen(None, Next(begin, ("", 0)), _size(begin))
        waiting = deque([begin])
        while waiting and not self._is_over():
            early = self._found.explored <= _IN_BREADTH
            marking = waiting.popleft() if early else waiting.pop()
            waiting.extend(self._look_at(marking))
        if not waiting and not (self._found.is_unsafe or self._found.reason):
            self._find_endless()
        return self._found

    def _is_over(self) -> bool:
        found = self._found
        if found.is_unsafe or any(fault.kind == "piles_up" for fault in found.faults):
            return True
        if found.explored >= self._bounds.markings:
            found.reason = f"it has more than {self._bounds.markings:,} markings"
        elif self._bounds.should_stop():
            found.reason = "it takes too long"
        return bool(found.reason)

    def _look_at(self, marking: Marking) -> Iterator[Marking]:
        """The markings behind one that were not seen before."""
        self._found.explored += 1
        if self._watches and _is_unsafe(marking):
            self._found.is_unsafe = True
            return
        following: Following = self._game.follow(marking)
        match following:
            case Ended():
                self._ends.append(marking)
            case Stuck(join):
                self._ends.append(marking)
                self._add("waits", join, marking)
            case _:
                self._ways[marking] = list(following)
                yield from self._go_on(marking, following)

    def _go_on(self, marking: Marking, following: Sequence[Next]) -> Iterator[Marking]:
        for one in following:
            if one.marking in self._seen:
                continue
            self._seen[one.marking] = _Seen(marking, one, min(self._seen[marking].fewest, _size(one.marking)))
            if not self._watches and self._game.is_cyclic and (place := self._piles_up(one.marking)):
                self._add("piles_up", place, one.marking)
                return
            yield one.marking

    def _add(self, kind: FaultKind, step: str, marking: Marking) -> None:
        if (kind, step) not in self._known:
            self._known.add((kind, step))
            self._found.faults.append(Unsoundness(kind, step, self._witness(marking)))

    def _witness(self, marking: Marking) -> tuple[Move, ...]:
        trails = [one.step.trail for one in self._back(marking)]
        return tuple(moves_of(tuple(reversed(trails))))

    def _back(self, marking: Marking) -> Iterator[_Seen]:
        """How it was reached, the last step first."""
        here: Marking | None = marking
        while here is not None:
            seen = self._seen[here]
            yield seen
            here = seen.before

    # --- tokens without a bound -------------------------------------------------------------------

    def _piles_up(self, marking: Marking) -> str:
        """The step before which tokens gather, where `marking` covers one on the way to it and the
        steps between them can be repeated, each time with the same gain (the cover of Karp and
        Miller, "Parallel program schemata", 1969; repeated, because joins that wait for what can
        still come are not monotone)."""
        if self._seen[marking].fewest == _size(marking):
            return ""
        counts = _count(marking)
        labels: list[tuple[str, int]] = []
        for seen in self._back(marking):
            if seen.before is None:
                break
            labels.append(seen.step.label)
            if _size(seen.before) >= _size(marking):
                continue
            before = _count(seen.before)
            if before < counts and self._repeats(marking, labels[::-1], counts - before):
                gained = next(iter(counts - before))
                return self._consumers.get(gained.removeprefix("place "), gained.removeprefix("run "))
        return ""

    def _repeats(self, marking: Marking, labels: list[tuple[str, int]], gain: Counter[str]) -> bool:
        for _ in range(self._repeats_needed):
            before = _count(marking)
            for label in labels:
                following = self._game.follow(marking)
                if isinstance(following, Stuck | Ended):
                    return False
                found = next((one for one in following if one.label == label), None)
                if found is None:
                    return False
                marking = found.marking
            after = _count(marking)
            if not before < after or after - before != gain:
                return False
        return True

    # --- cycles without an end --------------------------------------------------------------------

    def _find_endless(self) -> None:
        before: dict[Marking, list[Marking]] = {}
        for marking, ways in self._ways.items():
            for one in ways:
                before.setdefault(one.marking, []).append(marking)
        good, waiting = set(self._ends), list(self._ends)
        while waiting:
            new = [one for one in before.get(waiting.pop(), ()) if one not in good]
            good.update(new)
            waiting += new
        trapped = next((one for one in self._seen if one not in good), None)
        if trapped is not None and not any(fault.kind == "piles_up" for fault in self._found.faults):
            self._found.faults += self._cycle_from(trapped)

    def _cycle_from(self, marking: Marking) -> Iterator[Unsoundness]:
        """A cycle that the marking leads to: what happens until it is closed."""
        witness = self._witness(marking)
        places: dict[Marking, int] = {}
        trails: list[Trail] = []
        while marking not in places:
            places[marking] = len(trails)
            one = self._ways[marking][0]
            trails.append(one.trail)
            marking = one.marking
        cycle = moves_of(tuple(trails[places[marking] :]))
        steps = tuple(dict.fromkeys(move.step for move in cycle))
        if steps:
            yield Unsoundness("endless", steps[0], (*witness, *moves_of(tuple(trails))), steps)


def _count(marking: Marking) -> Counter[str]:
    """How many tokens stand in each place, and how many runs there are of each node."""
    counts = Counter(f"place {spot.place}" for spot in marking.spots)
    counts.update(f"run {run.node}" for run in marking.runs)
    return counts


def _size(marking: Marking) -> int:
    return len(marking.spots) + len(marking.runs)


def _is_unsafe(marking: Marking) -> bool:
    """Whether a place has two tokens, or a node two runs."""
    places = [spot.place for spot in marking.spots]
    nodes = [run.node for run in marking.runs]
    return len(set(places)) < len(places) or len(set(nodes)) < len(nodes)
