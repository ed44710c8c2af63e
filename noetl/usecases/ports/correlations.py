"""The port of correlations: signals that are meant for whoever waits for a value, and who does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from noetl.facts.json import Json

#: How long the id of a signal that was taken is known: of two with one id the second is the first.
REMEMBERED: Final = timedelta(days=1)


@dataclass(frozen=True, order=True, slots=True)
class Correlation:
    """Signals called `name`, about `value`."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class CorrelatedWait:
    """An execution waits for such a signal, at a place (`engine.suspensions.place_key`)."""

    correlation: Correlation
    execution_id: str
    place: str


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """A signal that was sent to whoever waits for a value, and that no execution has taken. The
    requester and the request are those of whoever sent it."""

    id: str
    correlation: Correlation
    payload: Json
    received_at: datetime
    expires_at: datetime | None = None
    everyone: bool = False
    principal: str | None = None
    request_id: str | None = None


class Correlations(Protocol):
    """Who waits, and what is kept for them. The two are matched behind the commits that write them,
    and by the sweeper: whichever comes later sees the other."""

    def wait(self, waits: Sequence[CorrelatedWait]) -> None: ...

    def wait_no_more(self, execution_id: str, places: Sequence[str] | None = None) -> None:
        """At these places; None: at none at all."""

    def waiting(self, correlation: Correlation) -> list[CorrelatedWait]:
        """Those that wait for it, the oldest execution first."""

    def keep(self, signal: KeptSignal) -> bool:
        """False where one of that id is kept, or was taken within `REMEMBERED`."""

    def get(self, signal_id: str) -> KeptSignal | None:
        """None where it was taken."""

    def take(self, signal_id: str, now: datetime) -> bool:
        """Whoever takes it may hand it on; False where somebody else has taken it."""

    def matches(self, limit: int) -> list[KeptSignal]:
        """Those for which somebody waits, the oldest first."""

    def matches_of(self, correlations: Sequence[Correlation]) -> list[KeptSignal]:
        """Those about one of these, the oldest first."""

    def has_expired(self, now: datetime) -> bool: ...

    def remove_expired(self, now: datetime) -> None:
        """Those whose time is over, and those that were taken so long ago that their ids are
        forgotten."""
