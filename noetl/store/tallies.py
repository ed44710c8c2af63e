"""Counts of executions by status and over time.

An execution id begins with the milliseconds of its execution, so spans of time are ranges of ids;
and the index of statuses holds the ids: to count all executions nothing but that index is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias, get_args

from sqlalchemy import CTE, BigInteger, ColumnElement, Select, cast, func, literal, select, true, union_all

from noetl.facts import ids
from noetl.store import codec
from noetl.store.conditions import narrow
from noetl.store.schema.executions import execution
from noetl.usecases.fields import FIELDS, names
from noetl.usecases.ports import Condition, ExecutionRow, ExecutionStatus, Tally
from noetl.usecases.ports.conditions import Ordered, all_of

_c = execution.c

#: Fields for which the index of statuses is enough.
_IN_INDEX: Final = {"id", "status"}
_statuses = union_all(
    *(select(literal(status).label("status")) for status in get_args(ExecutionStatus))
).subquery("a_status")

#: How many there are of a status in the span of that number, from 0.
Counted: TypeAlias = tuple[ExecutionStatus, int, int]


@dataclass(frozen=True, slots=True)
class TallyBounds:
    """What was asked for of the spans: how many, when the first begins, and when the last ends;
    None: with the executions that there are."""

    spans: int
    since: datetime | None
    until: datetime | None

    def narrow(self, where: Condition | None) -> Condition | None:
        """The condition, for executions that were asked for between them, to the millisecond."""
        return all_of(
            where,
            None if self.since is None else Ordered("id", ">=", str(ids.first_of(self.since))),
            None if self.until is None else Ordered("id", "<", str(ids.first_of(self.until))),
        )


@dataclass(frozen=True, slots=True)
class TallyScale:
    """Equal spans: `count` of them, from the id `first` up to `end`."""

    first: int
    end: int
    count: int

    @classmethod
    def fit(cls, bounds: TallyBounds, oldest: int, newest: int) -> TallyScale:
        """The spans for executions that have ids from `oldest` to `newest`."""
        first = ids.begin_of(oldest) if bounds.since is None else ids.first_of(bounds.since)
        end = ids.end_of(newest) if bounds.until is None else ids.first_of(bounds.until)
        return cls(first, end, bounds.spans)

    @property
    def width(self) -> int:
        """Ids in a span."""
        return -(-(self.end - self.first) // self.count)

    def sum_up(self, counted: Iterable[Counted], *, is_whole: bool = True) -> Tally:
        """The tally of what was counted in the spans."""
        total: Counter[ExecutionStatus] = Counter()
        spans: list[Counter[ExecutionStatus]] = [Counter() for _ in range(self.count)]
        for status, span, number in counted:
            if number:
                total[status] += number
                spans[span][status] += number
        since, until = ids.instant_of(self.first), ids.instant_of(self.end)
        return Tally(dict(total), since, until, tuple(map(dict, spans)), is_whole)


def find_ends(where: Condition | None) -> Select[tuple[int | None, int | None]]:
    """The ids of the oldest and of the newest execution of which the condition is true. Each is
    asked for by itself: so a database takes it from an index."""
    narrowed = true() if where is None else narrow(where)
    return select(
        select(func.min(_c.execution_id)).where(narrowed).scalar_subquery(),
        select(func.max(_c.execution_id)).where(narrowed).scalar_subquery(),
    )


def count_in(scale: TallyScale, where: Condition | None) -> Select[Counted]:
    """How many there are of each status in each span, of those of which the condition, which is
    exact, is true."""
    if where is None:
        return _count_ranges(scale, true())
    if any(names(where, field) for field in FIELDS.keys() - _IN_INDEX):
        return _count_rows(scale, narrow(where))
    return _count_ranges(scale, narrow(where))


def _count_rows(scale: TallyScale, narrowed: ColumnElement[bool]) -> Select[Counted]:
    """The database finds the rows by whichever index is best."""
    span = ((_c.execution_id - scale.first) // scale.width).label("span")
    return select(_c.status, span, func.count()).where(narrowed).group_by("status", "span")


def _count_ranges(scale: TallyScale, narrowed: ColumnElement[bool]) -> Select[Counted]:
    """Each count is a range of the index of statuses: SQLite, which sorts all rows to group them,
    is six times as fast so."""
    span = _number_spans(scale)
    begin = scale.first + span.c.number * scale.width
    here = (_c.status == _statuses.c.status, _c.execution_id >= begin, _c.execution_id < begin + scale.width)
    number = select(func.count()).select_from(execution).where(*here, narrowed).scalar_subquery()
    both = _statuses.join(span, true())
    return select(_statuses.c.status, span.c.number, number).select_from(both)


def _number_spans(scale: TallyScale) -> CTE:
    span = select(cast(0, BigInteger).label("number")).cte("span", recursive=True)
    return span.union_all(select(span.c.number + 1).where(span.c.number + 1 < scale.count))


def tally_rows(bounds: TallyBounds, rows: Sequence[ExecutionRow], *, is_whole: bool) -> Tally:
    """The tally of these, newest first."""
    if not rows:
        return no_executions(is_whole=is_whole)
    numbers = [codec.number(row.execution_id) for row in rows]
    scale = TallyScale.fit(bounds, numbers[-1], numbers[0])
    spans = ((number - scale.first) // scale.width for number in numbers)
    counted = ((row.status, span, 1) for row, span in zip(rows, spans, strict=True))
    return scale.sum_up(counted, is_whole=is_whole)


def no_executions(*, is_whole: bool = True) -> Tally:
    """The tally of none."""
    return Tally({}, None, None, (), is_whole)
