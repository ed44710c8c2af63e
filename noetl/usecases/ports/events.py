"""The port of the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from noetl.facts.events import Draft, Event
from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events of an execution are wanted; None, and no type: all."""

    types: tuple[str, ...] = ()
    step: str | None = None
    run_id: str | None = None
    iteration: int | None = None


class Events(Protocol):
    """The log: what is appended, and what is read of it."""

    def append(
        self, execution_id: str, expected_version: int, drafts: Sequence[Draft], now: datetime
    ) -> list[Event]:
        """Appends behind `expected_version` and moves `head_version`.

        Needs the lock. Raises VersionConflict where the head is another one, and Conflict where a
        `dedup_key` is already recorded; the transaction is then unusable but for its rollback.
        """

    def decode(self, envelopes: Iterable[JsonMap]) -> list[Event]:
        """The events that envelopes in JSON (`noetl.usecases.views.envelope`) stand for, under
        whatever schema. Raises BadRequest that names the first that cannot be read."""

    def restore(self, execution_id: str, events: Sequence[Event], now: datetime) -> None:
        """Puts the events of another database into the log of an execution that has none, as they
        were recorded there, and moves `head_version`. Raises as `append` does."""

    def read(
        self, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
    ) -> list[Event]:
        """Events with `version > after`, in order."""

    def count(self, execution_id: str, where: EventFilter, until: int) -> int:
        """How many there are with `version <= until`, which is none that is still to come."""

    def slice(self, execution_id: str, where: EventFilter, until: int, skip: int, limit: int) -> list[Event]:
        """Of those with `version <= until`, in order, at most `limit` behind the first `skip`."""

    def tails(self, execution_ids: Sequence[str], limit: int) -> Mapping[str, list[Event]]:
        """What the scheduler has not decided on yet: for each execution that has any, its events
        behind `decided_version`, in order, at most `limit` of each."""

    def of_run(self, execution_id: str, run_id: str, iteration: int | None) -> list[Event]:
        """Events of one step run and of one iteration of it (None: those of no iteration), in
        order."""

    def claim_of(self, execution_id: str, run_id: str, index: int) -> Event | None:
        """Of a loop over a cursor: the `loop.claimed` that holds the row of that index, or would,
        were it longer; of one that grows the `loop.grown`."""

    def recorded(self, execution_id: str, dedup_key: str) -> bool: ...
