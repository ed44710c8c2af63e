"""The page of failures: executions that failed of the same are one group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from flask import Response, request

from noetl.errors import BadRequest
from noetl.ui.charts import HEIGHT, WIDTH, Bar, count_spans, make_bars
from noetl.ui.filters import PERIODS, Filters
from noetl.ui.fleet.operations import BAR, STATES, ShownOperation, find_operations
from noetl.ui.listing import find_paths
from noetl.ui.site import Visitor, answer, here, is_part, render, share
from noetl.usecases.fleet.failures import FailureGroup, failures

#: Groups of one page, the largest ones, and failed executions that are looked at, the newest ones.
PAGE: Final = 50
LOOKED_AT: Final = 10_000
#: Bars of the picture of a group.
SPANS: Final = 40
#: Operations that are listed.
OPERATIONS: Final = 5


@dataclass(frozen=True, slots=True)
class ShownGroup:
    """A group as the page shows it: with its picture, and the filters of a list of its
    executions."""

    group: FailureGroup
    bars: Sequence[Bar]
    listed: Filters


@dataclass(frozen=True, slots=True)
class ShownFailures:
    """What the page shows. `fault`: why the filters cannot be used; then there is nothing else.
    `hidden`: groups that are smaller than those that are shown. `more`: there are older failures
    that were not looked at."""

    filters: Filters
    groups: Sequence[ShownGroup] = ()
    count: int = 0
    hidden: int = 0
    more: bool = False
    since: datetime | None = None
    until: datetime | None = None
    operations: Sequence[ShownOperation] = field(default_factory=tuple)
    fault: str = ""


def show_failures() -> Response:
    """The page of failures, or the part of it that changes."""
    visitor = here().find_visitor()
    if is_part():
        # Operations that one sees are those of oneself.
        return answer(share(lambda: _render(visitor, _find(visitor)), personal=True))
    found = _find(visitor)
    return answer(_render(visitor, found), 400 if found.fault else 200)


def _find(visitor: Visitor) -> ShownFailures:
    filters = Filters.read(request.args)
    try:
        return find_failures(visitor, filters)
    except BadRequest as error:
        return ShownFailures(filters, fault=error.message)


def find_failures(visitor: Visitor, filters: Filters) -> ShownFailures:
    """What the executions that the visitor may see failed of. Raises BadRequest."""
    found = failures(visitor.rt, filters.as_where(), visitor.principal.visible(), most=LOOKED_AT)
    shown = found.groups[:PAGE]
    until = visitor.rt.clock()
    since = min((group.first_at for group in shown), default=until)
    return ShownFailures(
        filters,
        [_show_group(group, filters, since, until) for group in shown],
        found.count,
        len(found.groups) - len(shown),
        found.more,
        since,
        until,
        find_operations(visitor, OPERATIONS)[0],
    )


def _show_group(group: FailureGroup, filters: Filters, since: datetime, until: datetime) -> ShownGroup:
    bars = make_bars(count_spans(group.times, since, until, SPANS))
    return ShownGroup(group, bars, list_of(filters, group.failure.fingerprint))


def list_of(filters: Filters, fingerprint: str) -> Filters:
    """The filters of the list that has the executions of a group, and those alone."""
    status = filters.status or ("failed", "partial")
    # Those that others called stand and fall with their callers.
    where = filters.where or ("" if filters.parent else "parent is null")
    return replace(filters, status=status, fingerprint=fingerprint, where=where)


def _render(visitor: Visitor, found: ShownFailures) -> str:
    return render(
        "fleet/groups.html" if is_part() else "fleet/failures.html",
        failures=found,
        paths=() if is_part() else find_paths(visitor),
        periods=PERIODS,
        chart=(WIDTH, HEIGHT),
        states=STATES,
        bar=(WIDTH, BAR),
        may_retry=visitor.principal.has_some("operate"),
    )
