"""The page of executions: what is shown of each, how many there are, and when they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from flask import Response, request

from noetl.errors import BadRequest
from noetl.ui.charts import HEIGHT, WIDTH, Bar, make_bars
from noetl.ui.filters import PERIODS, STATUSES, Filters
from noetl.ui.instants import mark_instants
from noetl.ui.site import Visitor, answer, here, is_part, render, share
from noetl.usecases import catalog, inspect
from noetl.usecases.facets import read_facets
from noetl.usecases.holds import ListedExecution
from noetl.usecases.ports import ENDED, Tally

#: Executions of one page.
PAGE: Final = 100
#: Characters of an error, or of what is waited for, in a row.
LONGEST: Final = 300
#: Playbooks that are offered while one is typed.
OFFERED: Final = 500


@dataclass(frozen=True, slots=True)
class ShownExecution:
    """A row of the list."""

    row: ListedExecution
    note: str
    seconds: float | None
    labels: Mapping[str, str]

    @classmethod
    def of(cls, row: ListedExecution, now: datetime) -> ShownExecution:
        note = row.waiting_for or ""
        if row.error is not None:
            note = str(row.error.get("message") or "")
        elif row.waiting_for and row.status not in ENDED:
            note = f"waits for {row.waiting_for}"
        end = row.ended_at or (now if row.imported_at is None else row.updated_at)
        note = " ".join(note[: LONGEST + 1].split())
        seconds = None if row.status == "pending" else max((end - row.created_at).total_seconds(), 0.0)
        note = note if len(note) <= LONGEST else f"{note[:LONGEST]}…"
        # What an error says is somebody else's.
        note = note if row.error is not None else mark_instants(note)
        return cls(row, note, seconds, read_facets(row.labels))

    @property
    def goes_on(self) -> bool:
        return not self.row.is_over


@dataclass(frozen=True, slots=True)
class ShownListing:
    """What the page shows. `fault`: why the filters cannot be used; then there is nothing else."""

    filters: Filters
    executions: Sequence[ShownExecution] = ()
    tally: Tally | None = None
    bars: Sequence[Bar] = ()
    next: str | None = None
    before: str | None = None
    fault: str = ""


def show_listing() -> Response:
    """The page of executions, or the part of it that changes. Those who have heard of a change, and
    look at the same, get the same part."""
    visitor = here().find_visitor()
    if is_part():
        return answer(share(lambda: _render(_find_asked(visitor))))
    found = _find_asked(visitor)
    return answer(_render(found, find_paths(visitor)), 400 if found.fault else 200)


def _find_asked(visitor: Visitor) -> ShownListing:
    return find_listing(visitor, Filters.read(request.args), request.args.get("before") or None)


def _render(listing: ShownListing, paths: Sequence[str] = ()) -> str:
    template = "executions_list.html" if is_part() else "executions.html"
    known = {"statuses": STATUSES, "periods": PERIODS, "chart": (WIDTH, HEIGHT)}
    return render(template, listing=listing, paths=paths, **known)


def find_listing(visitor: Visitor, filters: Filters, before: str | None = None) -> ShownListing:
    """Those that the visitor may see, newest first, behind (older than) the execution `before`."""
    try:
        return _find(visitor, filters, before)
    except BadRequest as error:
        return ShownListing(filters, before=before, fault=error.message)


def _find(visitor: Visitor, filters: Filters, before: str | None) -> ShownListing:
    where, among = filters.as_where(), visitor.principal.visible()
    rows = inspect.executions(visitor.rt, where=where, among=among, before=before, limit=PAGE + 1)
    tally = inspect.tally(visitor.rt, where=where, among=among)
    now = visitor.rt.clock()
    page = rows[:PAGE]
    return ShownListing(
        filters,
        [ShownExecution.of(row, now) for row in page],
        tally,
        make_bars(tally),
        page[-1].execution_id if len(rows) > PAGE else None,
        before,
    )


def find_paths(visitor: Visitor) -> list[str]:
    """Playbooks that the visitor may see."""
    heads = catalog.heads(visitor.rt)
    return [one.path for one in heads if visitor.principal.may("read", one.path)][:OFFERED]
