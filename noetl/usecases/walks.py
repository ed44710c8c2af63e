"""Walks over the logs of executions, which this process remembers: how far each has come, and the
states on its way.

What a walk has seen of a log is true for ever, because events are never changed. Only where another
execution has come under the same id (it was removed by hand, and imported) is all of it void.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from noetl.engine.state import State
from noetl.history.timeline import TimelineFold
from noetl.usecases.ports import ExecutionRow

#: A walk keeps the state of every version that is a multiple of this.
STRIDE: Final = 250
#: How many walks are remembered, and how many events they have in all.
MOST_WALKS: Final = 256
MOST_EVENTS: Final = 200_000

#: What tells executions apart that have the same id, one after another.
_Identity: TypeAlias = tuple[str, datetime, datetime | None]


def _identify(row: ExecutionRow) -> _Identity:
    return row.digest, row.created_at, row.imported_at


@dataclass(frozen=True, slots=True)
class _Seen:
    """What others may look at while the walk goes on: states in the order of their versions."""

    identity: _Identity
    states: tuple[State, ...] = ()
    #: Where the walk has come to.
    last: State | None = None


class Walk:
    """One walk. Whoever goes on with it holds `lock`; `find_state` needs none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fold: TimelineFold | None = None
        self._seen: _Seen | None = None

    @property
    def version(self) -> int:
        """How far it has come."""
        return self.fold.state.version if self.fold is not None else 0

    def fits(self, row: ExecutionRow) -> bool:
        """Whether it has begun, and was one over the log of this execution."""
        seen = self._seen
        return seen is not None and seen.identity == _identify(row) and self.version <= row.head_version

    def begin(self, row: ExecutionRow, fold: TimelineFold) -> None:
        """Forgets what was, and begins with the first event."""
        self.fold, self._seen = fold, _Seen(_identify(row))

    def keep(self, states: list[State], last: State) -> None:
        """Adds states of later versions than it has, and says where it has come to."""
        if self._seen is not None:
            self._seen = _Seen(self._seen.identity, (*self._seen.states, *states), last)

    def forget(self) -> None:
        self.fold = self._seen = None

    def find_state(self, row: ExecutionRow, version: int) -> State | None:
        """The last state kept of at most that version."""
        seen = self._seen
        if seen is None or seen.identity != _identify(row):
            return None
        if seen.last is not None and seen.last.version <= version:
            return seen.last
        place = bisect_right(seen.states, version, key=lambda state: state.version)
        return seen.states[place - 1] if place else None


class Walks:
    """The walks that were used last, bounded by their number and by that of their events.
    Thread-safe."""

    def __init__(self, most: int = MOST_WALKS, most_events: int = MOST_EVENTS) -> None:
        self._most, self._most_events = most, most_events
        self._walks: OrderedDict[str, Walk] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, execution_id: str) -> Walk:
        """The walk of that execution; a new one where none is remembered."""
        with self._lock:
            walk = self._walks.setdefault(execution_id, Walk())
            self._walks.move_to_end(execution_id)
            return walk

    def get(self, execution_id: str) -> Walk | None:
        with self._lock:
            return self._walks.get(execution_id)

    def drop(self, execution_id: str, walk: Walk) -> None:
        """Forgets one of which nothing is to be used any more. Its lock is held."""
        walk.forget()
        with self._lock:
            if self._walks.get(execution_id) is walk:
                del self._walks[execution_id]

    def trim(self) -> None:
        """Forgets the walks that were used longest ago, as far as there are too many; the last one
        stays."""
        with self._lock:
            events = sum(walk.version for walk in self._walks.values())
            while len(self._walks) > 1 and (len(self._walks) > self._most or events > self._most_events):
                _, oldest = self._walks.popitem(last=False)
                events -= oldest.version
