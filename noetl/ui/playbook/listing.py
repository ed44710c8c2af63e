"""The page of playbooks: what the catalog has, and how the last executions of each went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlencode

from flask import Response, request

from noetl.ui.charts import say_span
from noetl.ui.instants import say_instant
from noetl.ui.site import Visitor, answer, here, is_part, render, share
from noetl.usecases.playbooks import PlaybookEntry, list_playbooks
from noetl.usecases.ports import ENDED, ExecutionStatus, RunRow


@dataclass(frozen=True, slots=True)
class ShownRun:
    """An execution as a small shape: `title` says what it was."""

    execution_id: str
    status: ExecutionStatus
    title: str


def show_run(row: RunRow) -> ShownRun:
    """An execution of a list, with all that its shape does not say."""
    took = f", duration {say_span(seconds)}" if (seconds := seconds_of(row)) is not None else ""
    return ShownRun(
        row.execution_id,
        row.status,
        f"{row.status}{took}, v{row.playbook_version}, {say_instant(row.created_at)}",
    )


def seconds_of(row: RunRow) -> float | None:
    """How long it took; None where it goes on."""
    end = row.ended_at
    return None if end is None else max((end - row.created_at).total_seconds(), 0.0)


@dataclass(frozen=True, slots=True)
class ShownPlaybook:
    """A row of the list. `runs` are the last ones, oldest first; `open_query` finds those that have
    not ended among all executions."""

    entry: PlaybookEntry
    address: str
    labels: Mapping[str, str]
    runs: Sequence[ShownRun]
    open_query: str

    @classmethod
    def of(cls, entry: PlaybookEntry) -> ShownPlaybook:
        path = entry.head.path
        runs = [show_run(one) for one in reversed(entry.runs)]
        return cls(entry, address_of(path), entry.labels, runs, open_query(path))

    @property
    def last_asked_for(self) -> datetime | None:
        return self.entry.runs[0].created_at if self.entry.runs else None


def address_of(path: str) -> str:
    """Where the page of a playbook is."""
    return f"/playbooks/{quote(path)}"


def open_query(path: str) -> str:
    """What finds its executions that have not ended."""
    return urlencode([("status", one) for one in _OPEN] + [("path", path)])


_OPEN = ("running", "waiting", "paused", "pending")
assert ENDED.isdisjoint(_OPEN)


def show_playbooks() -> Response:
    """The page of playbooks, or the part of it that changes. Those who have heard of a change, and
    look at the same, get the same part."""
    visitor = here().find_visitor()
    return answer(share(lambda: _render(visitor)))


def _render(visitor: Visitor) -> str:
    text, after = request.args.get("q", "").strip(), request.args.get("after") or None
    found = list_playbooks(visitor.rt, lambda path: visitor.principal.may("read", path), text, after)
    return render(
        "playbooks_list.html" if is_part() else "playbooks.html",
        text=text,
        after=after,
        playbooks=[ShownPlaybook.of(one) for one in found.entries],
        total=found.total,
        first_query=_query(text),
        here_query=_query(text, after),
        next_query=_query(text, found.next) if found.next else None,
    )


def _query(text: str, after: str | None = None) -> str:
    return urlencode([(name, value) for name, value in (("q", text), ("after", after)) if value])
