"""The `audit` table: who asked for what."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, insert, or_, select

from noetl.facts.callers import Caller
from noetl.store import codec
from noetl.store.schema.access import audit
from noetl.store.session import SqlTable, text_or_none
from noetl.usecases.ports import AuditEntry, AuditFilter

_a = audit.c
_insert = insert(audit)
_columns: Final = (
    *(_a.audit_id, _a.recorded_at, _a.principal, _a.request_id, _a.action, _a.subject, _a.version),
    _a.detail,
)


def entry_row(entry: AuditEntry) -> dict[str, Any]:
    """The row of an entry that is to be added."""
    return {
        "recorded_at": entry.recorded_at,
        "principal": entry.caller.principal,
        "request_id": entry.caller.request_id,
        "action": entry.action,
        "subject": entry.subject,
        "version": entry.version,
        "detail": text_or_none(dict(entry.detail)) if entry.detail else None,
    }


class SqlAudit(SqlTable):
    """`noetl.usecases.ports.Audit`."""

    def add(self, entry: AuditEntry) -> None:
        self._session.later(_insert, [entry_row(entry)])

    def find(self, where: AuditFilter, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        statement = select(*_columns).where(*_conditions(where)).order_by(_a.audit_id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(_a.audit_id < before)
        return [_entry(*columns) for columns in self._session.read_once(statement)]


def _conditions(where: AuditFilter) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    for column in (_a.principal, _a.subject, _a.request_id):
        value = getattr(where, column.name)
        if value is not None:
            found.append(column == value)
    if where.action is not None:
        found.append(
            or_(_a.action == where.action, _a.action.startswith(f"{where.action}.", autoescape=True))
        )
    if where.since is not None:
        found.append(_a.recorded_at >= where.since)
    if where.until is not None:
        found.append(_a.recorded_at < where.until)
    return found


def _entry(
    number: int,
    recorded_at: Any,
    principal: str,
    request_id: str,
    action: str,
    subject: str,
    version: int | None,
    detail: str | None,
) -> AuditEntry:
    said = {} if detail is None else codec.loads(detail)
    return AuditEntry(Caller(principal, request_id), action, subject, recorded_at, said, version, number)
