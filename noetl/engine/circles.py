"""Requests for slots that wait for one another in a circle, so that none of them is ever served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from noetl.engine.slot_table import SlotRequest, SlotTable
from noetl.facts.limits import SlotRow

#: How many links of a circle a sentence names.
_FEW = 6


class WaitGraph:
    """Who waits for whom: a request for the holders of what it lacks, and a holder for the requests
    within it."""

    def __init__(self, table: SlotTable, waiting: Sequence[SlotRequest]) -> None:
        self._table = table
        self._waiting = waiting
        held = table.holders
        self._inside: dict[str, list[SlotRequest]] = {}
        for request in waiting:
            for holder in request.within:
                if holder in held:
                    self._inside.setdefault(holder, []).append(request)

    def reaches(self, request: SlotRequest) -> set[str]:
        """All holders that have to end, or may have to, before the request is served."""
        seen: set[str] = set()
        left = [request]
        while left:
            for row in self._blocking(left.pop()):
                for holder in self._holders(row):
                    if holder not in seen:
                        seen.add(holder)
                        left += self._inside.get(holder, [])
        return seen

    def find_youngest(self) -> tuple[SlotRequest, str] | None:
        """The youngest request of a circle that nothing ends, and the sentence that names the
        circle."""
        if not self._inside:
            return None
        stuck = self._find_stuck()
        circles = ((one, self._find_path(one, stuck)) for one in stuck.values())
        found = [(one, path) for one, path in circles if path]
        if not found:
            return None
        request, path = max(found, key=lambda pair: pair[0].age)
        return request, _describe(path)

    def _blocking(self, request: SlotRequest) -> list[SlotRow]:
        return [row for row in self._table.find_lacking(request) if row.per_s is None]

    def _holders(self, row: SlotRow) -> list[str]:
        return [one.holder for one in self._table.counting(row.key)]

    def _find_stuck(self) -> Mapping[str, SlotRequest]:
        """Those that lack a key of which every holder has a request within that is stuck itself."""
        stuck = {one.holder: one for one in self._waiting}
        while True:
            free = [one for one in stuck.values() if not self._is_stuck(one, stuck)]
            if not free:
                return stuck
            for one in free:
                del stuck[one.holder]

    def _is_stuck(self, request: SlotRequest, stuck: Mapping[str, SlotRequest]) -> bool:
        for row in self._blocking(request):
            if row.key in self._table.paused:
                continue
            holders = self._holders(row)
            if holders and all(self._has_stuck(holder, stuck) for holder in holders):
                return True
        return False

    def _has_stuck(self, holder: str, stuck: Mapping[str, SlotRequest]) -> bool:
        return any(one.holder in stuck for one in self._inside.get(holder, []))

    def _find_path(self, start: SlotRequest, stuck: Mapping[str, SlotRequest]) -> list[tuple[SlotRow, str]]:
        """The keys and holders that lead from the request back to it; nothing where none do."""
        paths: list[tuple[SlotRequest, list[tuple[SlotRow, str]]]] = [(start, [])]
        seen = {start.holder}
        while paths:
            request, path = paths.pop(0)
            for link, following in self._links(request, stuck):
                if following.holder == start.holder:
                    return [*path, link]
                if following.holder not in seen:
                    seen.add(following.holder)
                    paths.append((following, [*path, link]))
        return []

    def _links(
        self, request: SlotRequest, stuck: Mapping[str, SlotRequest]
    ) -> Iterator[tuple[tuple[SlotRow, str], SlotRequest]]:
        for row in self._blocking(request):
            for holder in self._holders(row):
                for inner in self._inside.get(holder, []):
                    if inner.holder in stuck:
                        yield (row, holder), inner


def _describe(path: Iterable[tuple[SlotRow, str]]) -> str:
    links = [
        f"execution {row.execution_id} waits for a slot of {row.key!r}, which {_name(holder)} has"
        for row, holder in path
    ]
    more = ", and so on" if len(links) > _FEW else ""
    return (
        f"These wait for one another in a circle: {'; '.join(links[:_FEW])}{more}. The youngest request "
        "of a circle fails: let all ask for the keys at one place, in one `concurrency` list."
    )


def _name(holder: str) -> str:
    execution_id, run_id, _ = holder.split("/", 2)
    return f"step '{run_id}' of execution {execution_id}" if run_id else f"execution {execution_id}"
