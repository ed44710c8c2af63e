"""The audit on a page: who asked for what, newest first, with filters that stand in the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import urlencode

from flask import request

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.durations import read_instant
from noetl.ui.filters import PERIODS
from noetl.ui.site import Visitor
from noetl.usecases import audit as use_case
from noetl.usecases.ports import AuditEntry, AuditFilter

#: Entries of one page.
PAGE: Final = 100
_MOST: Final = 2**63


@dataclass(frozen=True, slots=True)
class AuditFilters:
    """What was typed, as text; empty where nothing was."""

    principal: str = ""
    action: str = ""
    subject: str = ""
    request_id: str = ""
    since: str = ""
    until: str = ""

    @classmethod
    def read(cls) -> Self:
        return cls(**{one.name: request.args.get(one.name, "").strip() for one in fields(cls)})

    def to(self, **more: str) -> str:
        """The address that shows the same, but for `more`."""
        given = [(name, text) for name, text in (*self.given(), *more.items()) if text]
        return f"/access?{urlencode([('tab', 'audit'), *given])}"

    def only(self, **changes: str) -> str:
        """The address of those of which that holds, too."""
        return replace(self, **changes).to()

    def given(self) -> Sequence[tuple[str, str]]:
        found = ((one.name, getattr(self, one.name)) for one in fields(self))
        return [(name, text) for name, text in found if text]

    def as_filter(self, now: datetime) -> AuditFilter:
        """Raises BadRequest."""
        names = ("principal", "action", "subject", "request_id")
        texts = {name: getattr(self, name) or None for name in names}
        return AuditFilter(**texts, since=_instant(self.since, now), until=_instant(self.until, now))


def _instant(text: str, now: datetime) -> datetime | None:
    if not text:
        return None
    try:
        return read_instant(text, now)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{text[:40]!r} is no instant: write 2026-01-31T12:00:00Z, or -2h for two hours ago."
        ) from None


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """An entry as the page shows it. `execution`: the execution that it was done to."""

    entry: AuditEntry
    execution: str | None
    detail: str

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        detail = json.dumps(dict(entry.detail), ensure_ascii=False, indent=2) if entry.detail else ""
        return cls(entry, None if entry.version is None else entry.subject, detail)


def gather(visitor: Visitor) -> Mapping[str, Any]:
    """The entries of a page. What is wrong with a filter is said beside it."""
    filters, fault, found = AuditFilters.read(), "", []
    try:
        where = filters.as_filter(visitor.rt.clock())
        found = use_case.entries(visitor.rt, where, before=_read_before(), limit=PAGE + 1)
    except BadRequest as error:
        fault = error.message
    page = found[:PAGE]
    return {
        "filters": filters,
        "periods": PERIODS,
        "entries": [ShownEntry.of(one) for one in page],
        "next": str(page[-1].number) if len(found) > PAGE else "",
        "is_first": not request.args.get("before"),
        "fault": fault,
    }


def _read_before() -> int | None:
    """The number of an entry, behind which the page begins. Raises BadRequest."""
    text = request.args.get("before", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < int(text) < _MOST):
        raise BadRequest(f"The address says before={text[:40]!r}, which is no number of an entry.")
    return int(text)
