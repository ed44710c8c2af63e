"""Who of all that wait gets slots now: pure, from the rows of the keys that are locked.

Requests are served by priority, which grows while they wait, and then by age. One that lacks
something lets others pass at its other keys, until it has waited for long.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from noetl.engine.circles import WaitGraph
from noetl.engine.inputs import SlotVerdict
from noetl.engine.slot_table import SlotRequest, SlotTable, requests_of
from noetl.facts.limits import WHOLE, SlotRow

#: After this time nobody passes a request at any of its keys.
PATIENCE: Final = timedelta(minutes=1)
#: For so long room is kept for a request whose execution was asked to take it.
OFFER: Final = timedelta(seconds=10)

_GRANTED: Final = SlotVerdict("granted")


@dataclass(slots=True)
class Served:
    """What follows: rows that are granted now, and the answers by holder. `oldest` are holders that
    are asked to end, with the execution that asks for it; `ready` are executions that would be
    served if they asked, and `due` those that will be then."""

    granted: list[SlotRow] = field(default_factory=list)
    verdicts: dict[str, SlotVerdict] = field(default_factory=dict)
    oldest: list[tuple[str, SlotRow]] = field(default_factory=list)
    ready: set[str] = field(default_factory=set)
    due: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SlotAskers:
    """Whose turn it is: holders that take what they get, and those of them that ask for the first
    time."""

    holders: Collection[str] = frozenset()
    first: Collection[str] = frozenset()


def serve(rows: Sequence[SlotRow], asking: SlotAskers, paused: Collection[str], now: datetime) -> Served:
    """Serves the requests among `rows`, which hold all that have to do with the keys of those that
    are `asking`."""
    service = _Service(SlotTable.of(rows, paused, now), asking, now)
    waiting = sorted(requests_of(rows), key=lambda request: request.rank(now))
    service.graph = WaitGraph(service.table, waiting)
    left = [request for request in waiting if not service.serve(request)]
    service.refuse(left)
    return service.served


class _Service:
    def __init__(self, table: SlotTable, asking: SlotAskers, now: datetime) -> None:
        self.table = table
        self.graph = WaitGraph(table, [])
        self.served = Served()
        self._asking = asking
        self._now = now
        #: Those that nobody passes at a key, by key.
        self._line: dict[str, list[SlotRequest]] = {}

    def serve(self, request: SlotRequest) -> bool:
        """Whether it needs nothing any more in this decision."""
        lacking = self.table.find_lacking(request)
        if lacking or self._is_behind(request):
            self._stand(request, lacking)
            return False
        if request.holder in self._asking.holders:
            self.served.granted += self.table.grant(request)
            self.served.verdicts[request.holder] = _GRANTED
            return True
        self.served.ready.add(request.execution_id)
        if request.offered_at is None or self._now - request.offered_at < OFFER:
            # Its execution is about to take it.
            list(self.table.grant(request))
        return True

    def _is_behind(self, request: SlotRequest) -> bool:
        return any(
            self._keeps_out(other, request)
            for row in request.rows
            if self.table.find_shared(row) is None
            for other in self._line.get(row.key, ())
        )

    def _keeps_out(self, earlier: SlotRequest, request: SlotRequest) -> bool:
        """Not one that waits for the other's end itself."""
        return self.graph.reaches(earlier).isdisjoint(request.within)

    def _stand(self, request: SlotRequest, lacking: Sequence[SlotRow]) -> None:
        if any(row.key in self.table.paused for row in lacking):
            return
        if lacking and all(row.per_s is not None for row in lacking):
            self._keep_due(request, lacking)
        patient = self._now - request.since >= PATIENCE and all(row.per_s is None for row in lacking)
        for row in request.rows if patient else lacking:
            self._line.setdefault(row.key, []).append(request)

    def _keep_due(self, request: SlotRequest, lacking: Sequence[SlotRow]) -> None:
        """The first in line for a rate is told when it is due; the others hear of it then."""
        dues = [due for row in lacking if (due := self.table.find_due(row)) is not None]
        if dues and not any(row.key in self._line for row in lacking):
            earlier = self.served.due.get(request.execution_id)
            self.served.due[request.execution_id] = max(dues) if earlier is None else min(earlier, max(dues))

    def refuse(self, left: Sequence[SlotRequest]) -> None:
        """Of those that ask for the first time what they want where there is no room; and the
        youngest of a circle fails."""
        waiting = [request for request in left if not self._refuse_full(request)]
        found = WaitGraph(self.table, waiting).find_youngest()
        if found is None:
            return
        request, reason = found
        if request.holder in self._asking.holders:
            self.served.verdicts[request.holder] = SlotVerdict("fail", reason)
        else:
            self.served.ready.add(request.execution_id)

    def _refuse_full(self, request: SlotRequest) -> bool:
        if request.holder not in self._asking.first:
            return False
        rows = self.table.find_lacking(request) or request.rows
        for row in rows:
            place = f"No slot of {row.key!r} was free (limit {row.limit})"
            match row.on_full:
                case "fail":
                    self.served.verdicts[request.holder] = SlotVerdict("fail", f"{place}.")
                    return True
                case "skip":
                    self.served.verdicts[request.holder] = SlotVerdict("skip", place)
                    return True
                case "cancel_oldest":
                    self._ask_oldest(request, row)
                case "wait":
                    pass
        return False

    def _ask_oldest(self, request: SlotRequest, row: SlotRow) -> None:
        taken = {one.holder for _, one in self.served.oldest} | {one.holder for one in self.served.granted}
        held = [
            (one.granted_at, one.holder, one)
            for one in self.table.counting(row.key)
            # Of a lane nobody knows which iteration it runs.
            if one.part == WHOLE and one.holder not in taken and one.holder not in request.within
        ]
        if held:
            self.served.oldest.append((request.execution_id, min(held)[2]))
