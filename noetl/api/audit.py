"""`/api/audit`: who asked for what, and when."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from flask import Response, jsonify, request
from pydantic import Field

from noetl.api.answers import JsonObject, WireModel
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.guards import LINES
from noetl.api.requests import GivenAddress, GivenInstant, Parameters
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.usecases import audit
from noetl.usecases.ports import AuditFilter

api = group("audit", "/api/audit", "Who asked for what")


class AuditEntryView(WireModel):
    """What somebody asked for, and was done."""

    number: int = Field(description="counts up, with gaps")
    recorded_at: str
    principal: str
    request_id: str = Field(description="the `X-Request-ID` of the request")
    action: str = Field(description="the type of an event, or a word like `credential.saved`")
    subject: str = Field(description="the id of the execution, or the name of what was changed")
    version: int | None = Field(description="of an event, in the log of the execution")
    detail: JsonObject


class AuditPage(WireModel):
    entries: list[AuditEntryView] = Field(description="the newest first")
    next: int | None = Field(description="`before` of the next page; null on the last one")


_ANSWER: Final[JsonObject] = {
    "description": "Entries, the newest first",
    "content": {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{AuditPage.__name__}"}},
        LINES: {"schema": {"type": "string"}},
    },
}


class AuditQuery(Parameters):
    principal: str | None = Field(None, max_length=200, description="only what this one asked for")
    action: str | None = Field(
        None, max_length=200, description="only this action, or those that begin with it and a dot"
    )
    subject: str | None = Field(None, max_length=512, description="only what was done to this")
    execution: GivenAddress | None = Field(
        None, max_length=1024, description="only what was done to this execution (id or key)"
    )
    request_id: str | None = Field(None, max_length=128, description="only what this request asked for")
    since: GivenInstant | None = Field(None, description="from this instant on; `-2h` is two hours ago")
    until: GivenInstant | None = Field(None, description="before this instant")
    before: int | None = Field(None, ge=1, le=2**63 - 1, description="go on behind this number")
    limit: int = Field(100, ge=1, le=1000, description="how many at most")

    def as_filter(self) -> AuditFilter:
        """Raises BadRequest."""
        if self.subject is not None and self.execution is not None:
            raise BadRequest("`execution` is another word for `subject`: give one of them.")
        return AuditFilter(
            self.principal,
            self.action,
            self.subject or self.execution,
            self.request_id,
            self.since,
            self.until,
        )


@api.get("", responses={200: _ANSWER}, operation_id="audit_read")
def read(query: AuditQuery) -> Response:
    """Tell who asked for what, newest first

    As `application/x-ndjson` (asked for by `Accept`) all entries that are meant, one on each line,
    however many there are.
    """
    rt, where = services().rt, query.as_filter()
    if request.accept_mimetypes.best == LINES:
        entries = audit.all_entries(rt, where)
        # Read now, while an error can still be answered.
        first = list(itertools.islice(entries, 1))
        return Response(_lines(itertools.chain(first, entries)), mimetype=LINES)
    found = audit.entries(rt, where, before=query.before, limit=query.limit + 1)
    page = found[: query.limit]
    following = page[-1].number if len(found) > query.limit else None
    return jsonify({"entries": [audit.entry_view(entry) for entry in page], "next": following})


def _lines(entries: Iterator[Any]) -> Iterator[str]:
    for entry in entries:
        yield json.dumps(audit.entry_view(entry), ensure_ascii=False) + "\n"
