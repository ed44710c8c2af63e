"""In what two executions differ: frozen data, for the text and the JSON of `diff`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from noetl.facts.json import Json, JsonMap
from noetl.history.accounts import Asked

T = TypeVar("T")

#: `added`: only in the second execution; `removed`: only in the first one.
Change: TypeAlias = Literal["changed", "added", "removed"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What stands at the dotted `path` in the first execution, and in the second one; cut where it
    is long."""

    path: str
    change: Change
    a: Json = None
    b: Json = None


@dataclass(frozen=True, slots=True)
class RunsDifference:
    """How often a step ran."""

    step: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class GuardDifference:
    """An arc that went another way at the end of the same run; None where it was not asked."""

    run: str
    arc: str
    step: str
    a: Asked | None
    b: Asked | None


@dataclass(frozen=True, slots=True)
class DurationDifference:
    """Milliseconds that all runs of a step took together; None where it did not run, or none has
    ended."""

    step: str
    a: float | None
    b: float | None


@dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """The first differences of a kind; `more` is how many there are besides."""

    shown: tuple[T, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the paths part: the runs behind the last one that both have, in the order in which they
    began. None: there is none any more."""

    number: int
    behind: str | None
    a: str | None
    b: str | None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two. `duration_ms` is the time from its first event to its last one."""

    execution_id: str
    path: str
    playbook_version: int
    digest: str
    status: str
    version: int
    duration_ms: float
    error: JsonMap | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """`same`: none of the sections but that of durations has a difference, and both have the same
    status."""

    a: Side
    b: Side
    same: bool
    playbook: Section[Difference]
    inputs: Section[Difference]
    path: Section[RunsDifference]
    parting: Parting | None
    guards: Section[GuardDifference]
    steps: Section[Difference]
    results: Section[Difference]
    errors: Section[Difference]
    durations: Section[DurationDifference]

    @property
    def summary(self) -> str:
        """One sentence: whether they are the same, and else in what they differ."""
        if self.same:
            return "They went the same way to the same results."
        words = {
            "status": self.a.status != self.b.status,
            "playbook": self.playbook.shown,
            "inputs": self.inputs.shown,
            "path": self.path.shown,
            "guards": self.guards.shown,
            "status of steps": self.steps.shown,
            "results": self.results.shown,
            "errors": self.errors.shown,
        }
        return f"They differ in: {', '.join(word for word, differs in words.items() if differs)}."
