"""Slots of all executions at one instant, as far as one decision about them sees: who has what, and
what each request lacks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby

from noetl.facts.limits import SlotRow


@dataclass(frozen=True)
class SlotRequest:
    """All slots that one holder waits for: it gets all of them or none."""

    rows: tuple[SlotRow, ...]

    @cached_property
    def holder(self) -> str:
        return self.rows[0].holder

    @property
    def execution_id(self) -> str:
        return self.rows[0].execution_id

    @property
    def within(self) -> tuple[str, ...]:
        return self.rows[0].within

    @cached_property
    def since(self) -> datetime:
        return min(row.requested_at for row in self.rows)

    @property
    def offered_at(self) -> datetime | None:
        return self.rows[0].offered_at

    @property
    def age(self) -> tuple[datetime, int, str]:
        """What sorts requests, the oldest first."""
        return self.since, int(self.execution_id), self.holder

    def rank(self, now: datetime) -> tuple[int, tuple[datetime, int, str]]:
        """What sorts them as they are served: by priority, which grows by one with each minute,
        then by age."""
        waited = max(0, int((now - self.since) / timedelta(minutes=1)))
        return -(self.rows[0].priority + waited), self.age


def requests_of(rows: Iterable[SlotRow]) -> list[SlotRequest]:
    """The requests among `rows`, each with its slots in the order of their keys."""
    waiting = sorted((row for row in rows if row.granted_at is None), key=lambda row: (row.holder, row.key))
    return [SlotRequest(tuple(group)) for _, group in groupby(waiting, key=lambda row: row.holder)]


@dataclass(slots=True)
class SlotTable:
    """What is granted, and how much of each key that leaves. Nobody gets a slot of a key that is
    `paused`."""

    now: datetime
    paused: Collection[str]
    _rows: dict[str, list[SlotRow]] = field(default_factory=lambda: defaultdict(list))
    _counts: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def of(rows: Sequence[SlotRow], paused: Collection[str], now: datetime) -> SlotTable:
        """The table of those of `rows` that are granted and still count."""
        table = SlotTable(now, paused)
        for row in rows:
            if row.granted_at is not None and (row.expires_at is None or row.expires_at > now):
                table._rows[row.key].append(row)
        for key in table._rows:
            table._counts[key] = len(table.counting(key))
        return table

    def counting(self, key: str) -> list[SlotRow]:
        """Those that have a slot of the key; who shares that of another one has none."""
        rows = self._rows.get(key, [])
        holders = {row.holder for row in rows}
        return [row for row in rows if row.under not in holders]

    def find_lacking(self, request: SlotRequest) -> list[SlotRow]:
        """The slots of the request that are not free."""
        return [row for row in request.rows if self._lacks(row)]

    def _lacks(self, row: SlotRow) -> bool:
        if self.find_shared(row) is not None:
            return False
        return row.key in self.paused or self._counts[row.key] >= row.limit

    def find_shared(self, row: SlotRow) -> str | None:
        """Who, of those that go on only when this one does, has a slot of the key."""
        if row.per_s is not None or not row.within:
            return None
        holders = {one.holder for one in self._rows.get(row.key, ())}
        return next((holder for holder in row.within if holder in holders), None)

    def grant(self, request: SlotRequest) -> Iterator[SlotRow]:
        """The rows of the request as granted; from now on they count."""
        for row in request.rows:
            until = None if row.per_s is None else self.now + timedelta(seconds=row.per_s)
            made = replace(row, granted_at=self.now, expires_at=until, under=self.find_shared(row))
            self._rows[row.key].append(made)
            self._counts[row.key] += made.under is None
            yield made

    def find_due(self, row: SlotRow) -> datetime | None:
        """When the next slot of a rate is free."""
        ends = sorted(one.expires_at for one in self._rows.get(row.key, ()) if one.expires_at is not None)
        return ends[len(ends) - row.limit] if len(ends) >= row.limit else None

    @property
    def holders(self) -> set[str]:
        return {row.holder for rows in self._rows.values() for row in rows}
