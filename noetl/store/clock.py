"""The clock that all processes of a database share: the database's own.

Leases, dues and sends are instants that one process writes and another compares with its now: where
each took the clock of its machine, one that is ahead would hold leases that never end, put off what
is due, and pass limits. To ask the database for each instant would cost a round trip. So a process
asks now and then, in a transaction that it has open anyway, and counts on with its monotonic clock,
which nobody sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final

#: Seconds after which the database is asked again: clocks drift apart, and a database may move.
FOLLOW_S: Final = 5.0


def read_machine_clock() -> datetime:
    """This machine's own clock: UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Reading:
    """That it was `instant` in the database at `ticks` of this process."""

    instant: datetime
    ticks: float

    def at(self, ticks: float) -> datetime:
        return self.instant + timedelta(seconds=ticks - self.ticks)


class DatabaseClock:
    """The database's clock as this process knows it. Thread-safe, and good in forked children.
    `ticks` counts seconds, from anywhere."""

    def __init__(self, ticks: Callable[[], float] = monotonic) -> None:
        self._ticks = ticks
        self._reading: _Reading | None = None
        #: When the database was asked last.
        self._asked: float | None = None

    def read(self) -> datetime | None:
        """None: the database was not asked yet."""
        reading = self._reading
        return None if reading is None else reading.at(self._ticks())

    @property
    def is_due(self) -> bool:
        """Whether the database is to be asked."""
        asked = self._asked
        return self._reading is None or asked is None or self._ticks() - asked >= FOLLOW_S

    def follow(self, ask: Callable[[], datetime]) -> None:
        """Sets the clock by an answer of the database. It is not moved where the answer came within
        the time that asking took: it would only tremble."""
        # Other threads need not ask as well.
        self._asked = asked = self._ticks()
        theirs = ask()
        answered, known = self._ticks(), self._reading
        if known is None or not known.at(asked) <= theirs <= known.at(answered):
            self._reading = _Reading(theirs, (asked + answered) / 2)
