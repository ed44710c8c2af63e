"""`/api/tally`: how many executions there are, by status and over time."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noetl.api.answers import WireModel
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import FailuresQuery, GivenInstant
from noetl.facts.json import Json
from noetl.usecases import inspect
from noetl.usecases.ports import ExecutionStatus, Tally

api = group("tally", "/api/tally", "How many executions there are")


class TallyView(WireModel):
    """Counts of executions."""

    counts: dict[ExecutionStatus, int] = Field(description="of each status that occurs")
    since: str | None = Field(
        description="when the first span begins: as asked for, else with the oldest execution"
    )
    until: str | None = Field(
        description="when the last span ends: as asked for, else behind the newest execution"
    )
    spans: list[dict[ExecutionStatus, int]] = Field(
        description="the same in spans of time that are as long as one another, oldest first; empty where "
        "there are no executions"
    )
    more: bool = Field(description="there are older ones that were not looked at")


class TallyQuery(FailuresQuery):
    spans: int = Field(60, ge=1, le=inspect.MOST_SPANS, description="in how many spans of time")
    since: GivenInstant | None = Field(
        None, description="only those asked for at this instant or later; `-2h` is two hours ago"
    )
    until: GivenInstant | None = Field(None, description="only those asked for before this instant")


@api.get("", responses={200: TallyView}, operation_id="tally_read")
def tally(query: TallyQuery) -> dict[str, Json]:
    """Count executions by status, in all and over time

    All of them are counted where the filter compares columns. Where it has patterns, or asks what
    stands in errors, the newest 20,000 that it may mean are looked at; so it is for a token whose
    scopes have patterns of paths.
    """
    among = services().principal.visible()
    found = inspect.tally(
        services().rt, query.where, among, spans=query.spans, since=query.since, until=query.until
    )
    return _show(found)


def _show(found: Tally) -> dict[str, Any]:
    return {
        "counts": found.counts,
        "since": None if found.since is None else found.since.isoformat(),
        "until": None if found.until is None else found.until.isoformat(),
        "spans": found.spans,
        "more": not found.is_whole,
    }
