"""The audit: who asked for what, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl.facts.json import Json
from noetl.usecases.ports import AuditEntry, AuditFilter
from noetl.usecases.runtime import Runtime

#: Entries that are read at once.
PAGE: Final = 1_000


def entries(
    rt: Runtime, where: AuditFilter, *, before: int | None = None, limit: int = 100
) -> list[AuditEntry]:
    """Newest first, behind the number `before`."""
    with rt.store.read() as tx:
        return tx.audit.find(where, before=before, limit=limit)


def all_entries(rt: Runtime, where: AuditFilter) -> Iterator[AuditEntry]:
    """All that are meant, newest first, however many there are."""
    before: int | None = None
    while page := entries(rt, where, before=before, limit=PAGE):
        yield from page
        before = page[-1].number


def entry_view(entry: AuditEntry) -> dict[str, Json]:
    """`{number, recorded_at, principal, request_id, action, subject, version, detail}`."""
    return {
        "number": entry.number,
        "recorded_at": entry.recorded_at.isoformat(),
        "principal": entry.caller.principal,
        "request_id": entry.caller.request_id,
        "action": entry.action,
        "subject": entry.subject,
        "version": entry.version,
        "detail": dict(entry.detail),
    }
