"""What is asked of a net, and what the answer may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: What is wrong with a step:
#:
#: - `waits`: its join gets some of its tokens, and can no longer get the others;
#: - `dead`: nothing that can happen makes it run, though a path leads to it;
#: - `piles_up`: tokens gather before it, or runs of it, without a bound;
#: - `endless`: it belongs to a cycle from which no choice leads to an end.
FaultKind = Literal["waits", "dead", "piles_up", "endless"]


@dataclass(frozen=True, slots=True)
class Move:
    """A run of `step` ends, and puts tokens before `targets`. `failed`: it ends with an error."""

    step: str
    targets: tuple[str, ...]
    failed: bool = False

    def __str__(self) -> str:
        """`start → a, b`."""
        how = " fails" if self.failed else ""
        return f"{self.step}{how} → {', '.join(self.targets) or 'nothing'}"


#: Moves in their order, or parts of them.
Trail: TypeAlias = "Move | tuple[Trail, ...]"


def moves_of(trail: Trail) -> Iterator[Move]:
    """The moves of a trail in their order."""
    waiting = [trail]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Move):
            yield one
        else:
            waiting.extend(reversed(one))


@dataclass(frozen=True, slots=True)
class Unsoundness:
    """One violation at `step`. `steps` are those of the cycle where it is `endless`. `witness` is
    what happens until it is there, and once around the cycle; empty where it is `dead`."""

    kind: FaultKind
    step: str
    witness: tuple[Move, ...] = ()
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sound:
    """Every run can come to an end, and no join waits for ever. `explored` counts markings."""

    explored: int


@dataclass(frozen=True, slots=True)
class Unsound:
    """Some run does not: at least these faults, the first ones first."""

    faults: tuple[Unsoundness, ...]
    explored: int


@dataclass(frozen=True, slots=True)
class NotDecided:
    """No fault was found among the markings that were explored, and not all of them were."""

    reason: str
    explored: int


Verdict: TypeAlias = Sound | Unsound | NotDecided


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class SoundnessBounds:
    """How far to look: at most so many markings, and until `should_stop`, which the caller may bind
    to a clock, says so."""

    markings: int = 100_000
    should_stop: Callable[[], bool] = _never
