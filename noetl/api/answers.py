"""What the API answers, as pydantic models: the OpenAPI document is made of them, and tests hold
every answer against them. Handlers build plain JSON, because results may be nested deeper than
pydantic goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from noetl.api.models import ApiModel
from noetl.engine.awaited import AwaitedKind
from noetl.facts.json import Json
from noetl.usecases.ports import Descent, ExecutionStatus

JsonObject = dict[str, Any]


class WireModel(ApiModel):
    model_config = ConfigDict(extra="forbid")


def fields_of(row: object, names: Iterable[str]) -> dict[str, Json]:
    """What `row` has under these names; instants as ISO 8601."""
    values = {name: getattr(row, name) for name in names}
    return {name: one.isoformat() if isinstance(one, datetime) else one for name, one in values.items()}


class Problem(ApiModel):
    """An error (RFC 9457)."""

    type: str = Field(description="`urn:noetl:problem:<word>`: what went wrong, for programs")
    title: str
    status: int
    detail: str = Field(description="one sentence with the place, the cause and the next move")
    instance: str = Field("", description="the path of the request; missing where none could be read")
    problems: list[JsonObject] = Field([], description="all faults, where there may be several")
    errors: list[JsonObject] = Field([], description="`{path, message}` of each input that cannot be used")
    nearest: str | None = None
    execution_id: str | None = Field(None, description="the open execution that has the business key")


class Links(WireModel):
    self: str
    events: str
    logs: str
    state: str
    result: str
    graph: str
    children: str


class WarningView(WireModel):
    """What is likely wrong with a playbook, or was with a run of it."""

    source: Literal["playbook", "run"]
    code: str | None
    message: str
    hint: str | None
    file: str | None
    line: int | None
    column: int | None
    path: str | None = Field(description="of the key in the document")
    step: str | None
    task: str | None
    place: str | None = Field(description="where the template stands: `input.total`")
    template: str | None = Field(description="what nothing defined, and became null")
    count: int | None = Field(description="how often it was recorded")


class ExecutionView(WireModel):
    execution_id: str
    status: ExecutionStatus


class Accepted(ExecutionView):
    existing: bool = Field(
        description="it was there before the request came, under its idempotency key or business key"
    )
    warnings: list[WarningView] = Field(
        description="of the playbook, and keys of the payload that nothing reads"
    )
    links: Links


class FinishedExecution(Accepted):
    """What a start with `Prefer: wait` answers where the execution ended in time."""

    result: Any
    error: JsonObject | None


class BatchAnswer(WireModel):
    """What became of one item: its execution, or the problem that it would have been answered with
    alone."""

    status: int = Field(description="202, or that of the problem")
    execution_id: str | None = None
    existing: bool | None = Field(None, description="as that of one start")
    warnings: list[WarningView] | None = Field(None, description="as those of one start")
    links: Links | None = None
    problem: Problem | None = None


class Batch(WireModel):
    accepted: int
    refused: int
    executions: list[BatchAnswer] = Field(description="one for each item, in their order")


class ExecutionStanding(ExecutionView):
    """Where an execution is after a request to change it."""

    version: int


class Descendant(ExecutionView):
    """An execution that runs another one again, is a fork of it, or has taken over from it."""

    source_id: str
    descent: Descent
    links: Links


class DescendantSummary(ExecutionView):
    descent: Descent


class PlannedRunView(WireModel):
    step: str
    verdict: Literal["reuse", "rerun", "new", "dropped"]
    reason: str = Field(description="why it is so; may be empty")
    of: str | None = Field(description="the run there that it is compared with")
    iterations: JsonObject | None = Field(
        description="of a loop: how many `reuse`, how many `rerun`, are `new` or `dropped`, where any are"
    )
    repeats: list[str] = Field(description="tasks that may have had effects, and are called again")


class RetryAnswer(WireModel):
    """What a retry would run again, and what stands."""

    retry_of: str
    path: str
    version: int
    runs: list[PlannedRunView]
    error: JsonObject | None = Field(description="why it would end before its first step")


class MigrationAnswer(WireModel):
    """What a migration would take along and run, and what keeps the execution where it is."""

    migration_of: str
    path: str
    version: int
    runs: list[PlannedRunView]
    error: JsonObject | None = Field(description="why it would end before its first step")
    obstacles: list[str] = Field(description="why it stays as it is; none: it can be migrated")


class PlaybookRun(ExecutionView):
    path: str
    version: int = Field(description="of the playbook")
    errors_passed_over: int = Field(description="errors that policies and loops went on after")


class ChildSummary(PlaybookRun):
    step: str | None = Field(description="the step that called it")
    iteration: int | None = Field(description="its iteration, where it is a loop")
    undoes: str | None = Field(description="the execution that it undoes, which was called there")
    warnings_count: int = Field(description="different warnings of the run")


class HoldView(WireModel):
    """Why work that could begin does not."""

    cause: Literal["unserved", "slot", "paused"] = Field(
        description="`unserved`: no worker serves its queue; `slot`: it needs one first; `paused`: its step, "
        "its queue or the key of its slot is"
    )
    text: str = Field(description="in a few words: `queued: no worker serves gpu`")


class RecordedRun(PlaybookRun):
    hold: HoldView | None = Field(description="why nothing of it is with a worker, where something could be")
    parent_id: str | None = Field(description="the execution that called it")
    source_id: str | None = Field(description="the execution that it runs again, is a fork of, or took over")
    descent: Descent | None = Field(description="which of these it is")
    key: str | None = Field(description="its business key")
    labels: dict[str, str] = Field(description="what it is told apart by; may be empty")
    principal: str | None = Field(
        description="who asked for it over the API; null of one that another called, or of a local run"
    )
    operation_id: str | None = Field(description="the operation that began it, of many at once")
    events: int
    created_at: str
    updated_at: str
    ended_at: str | None
    imported_at: str | None = Field(
        description="when it came from another database, to be looked at: it never goes on"
    )
    error: JsonObject | None


class ExecutionSummary(RecordedRun):
    waiting_for: str | None = Field(
        description="what it waits for, or what is left to be done at its end, in a line"
    )
    warnings_count: int = Field(description="different warnings of the run")


class ExecutionList(WireModel):
    executions: list[ExecutionSummary]
    next: str | None = Field(description="`before` of the next page; null on the last one")


class NextAttemptView(WireModel):
    """What `executor.spec.policy.retry` made of a failure."""

    standing: Literal["scheduled", "started", "declined", "cancelled"]
    attempt: int = Field(description="which attempt the next one is or would be, from 1")
    attempts: int | None = Field(description="how many there are at most; null where that is not known")
    due_at: str | None = Field(description="when it begins, where it is `scheduled`")
    execution_id: str | None = Field(description="the next attempt, where it has `started`")
    reason: str = Field(description="why there is none; may be empty")
    text: str = Field(description="all of it in a sentence")


class AwaitedView(WireModel):
    name: str
    text: str = Field(description="what it is, in a few words")
    due_at: str | None = Field(description="of a time: when it comes; of an approval when it expires")
    approval: JsonObject | None = Field(None, description="of an approval: what is asked, and the answers")
    slot: JsonObject | None = Field(
        None, description="of a slot: {key, limit, per_s, taken, paused}; `taken` counts those of everybody"
    )
    pause: JsonObject | None = Field(
        None, description="of what is paused: {kind, name, since, principal, reason}"
    )


class WaitView(WireModel):
    """Something of an execution that waits, without a worker, or that ends and has more to do."""

    kind: AwaitedKind = Field(
        description="`task`: a task that waits; `lock`: an equal call that is cached is being made; "
        "`slot`: it needs slots of keys first; `pause`: its step, or "
        "its queue, is paused; `ending`: what is done behind everything else is left"
    )
    step: str | None = Field(description="null: the region, or with neither the execution, waits")
    region: str | None
    run_id: str | None
    iteration: int | None
    task: str | None
    mode: Literal["any", "all"] = Field(description="whether it waits for the first, or for all")
    since: str | None
    until: str | None = Field(description="when its timeout, or the deadline of its step, is over")
    awaited: list[AwaitedView] = Field(alias="for", description="what has not come yet")


class StopView(WireModel):
    """Who paused or cancelled an execution."""

    act: Literal["pause", "cancel"]
    at: str
    principal: str | None = Field(description="null where the log does not say who")
    reason: str


class ExecutionReport(RecordedRun):
    stop: StopView | None = Field(description="who paused or cancelled it; null where nobody has")
    waits: list[WaitView] = Field(description="what it waits for, and what is left to be done at its end")
    retry: NextAttemptView | None = Field(
        description="whether it is retried by itself; null where it has not failed, or has no such policy"
    )
    inputs: JsonObject = Field(description="the workload of this execution, in which no secret can be read")
    result: Any
    ctx: JsonObject
    steps: JsonObject = Field(description="name → {status, runs, result, hold?, error?, errors?, reused?}")
    warnings: list[WarningView] = Field(description="names that nothing defined, and what tools warned of")
    duration_ms: float
    children: list[ChildSummary] = Field(
        description="the newest of those that it called; all: `links.children`"
    )
    descendants: list[DescendantSummary] = Field(
        description="the newest that run it again, are forks of it, have taken over from it or undo it"
    )
    links: Links


class ExecutionResult(ExecutionView):
    result: Any = Field(description="null while the execution runs")
    error: JsonObject | None


class Event(WireModel):
    """One event of the log."""

    event_id: str
    execution_id: str
    version: int
    type: str
    step: str | None
    step_run_id: str | None
    iteration: int | None
    attempt: int | None
    source: Literal["server", "worker", "client"]
    status: Literal["started", "completed", "failed", "skipped", "cancelled"]
    payload: JsonObject
    recorded_at: str
    duration_ms: float | None
    dedup_key: str | None
    schema_: int = Field(alias="schema")
    origin: str | None = Field(description="the event of another execution that it is a copy of")
    principal: str | None = Field(description="who asked for it, of what was asked for from outside")
    request_id: str | None = Field(description="the `X-Request-ID` of the request in which it was asked for")


class FollowPage(WireModel):
    next: int | None = Field(description="`after` of the next page; null where there is none yet")
    status: str = Field(description="where the execution was when the page was read")


class EventPage(FollowPage):
    events: list[Event]
    version: int = Field(description="the newest version there was")
    idle: bool = Field(
        description="nothing happens by itself: it has ended, or waits for something from outside, or "
        "for executions that do"
    )


class Chunk(WireModel):
    seq: int = Field(description="its number within the execution")
    step: str
    run_id: str = Field(description="the step run")
    iteration: int | None
    task: str
    attempt: int = Field(description="number of the try, from 1")
    delivery: int = Field(description="which worker that was given the work, from 1")
    stream: str = Field(description="`stdout`, `stderr`, or `note`: what is missing there")
    start: int = Field(description="bytes that the attempt had printed to the stream before")
    text: str = Field(description="a part of a line, or lines; without secrets")
    recorded_at: str = Field(description="when it came; ISO 8601")


class LogPage(FollowPage):
    chunks: list[Chunk]


class TokenMarking(WireModel):
    tokens: list[JsonObject] = Field(description="tokens that wait: {id, place, step}")
    running: list[JsonObject] = Field(description="step runs in flight: {run_id, step, status}")


class StateView(ExecutionView):
    version: int
    inputs: JsonObject = Field(description="the workload of this execution, in which no secret can be read")
    ctx: JsonObject
    steps: JsonObject
    marking: TokenMarking


class PlaybookSummary(WireModel):
    path: str
    version: int
    name: str
    description: str
    created_at: str


class PlaybookList(WireModel):
    playbooks: list[PlaybookSummary]


class PlaybookRegistered(PlaybookSummary):
    warnings: list[WarningView]


class PlaybookView(PlaybookRegistered):
    content: str
    content_sha256: str
    versions: list[int]


class CredentialSummary(WireModel):
    """`place` is the path, or the execution, that it is kept for."""

    name: str
    type: str
    scope: Literal["global", "path", "execution"]
    place: str
    created_at: str
    updated_at: str


class CredentialList(WireModel):
    credentials: list[CredentialSummary]


class HealthPart(WireModel):
    status: Literal["ok", "down", "none"]
    detail: str | None = None


class Health(WireModel):
    """`degraded`: requests are recorded, and run once the broker is back."""

    status: Literal["ok", "degraded", "down"]
    database: HealthPart
    broker: HealthPart


class RuntimeView(WireModel):
    version: str
    kinds: list[JsonObject] = Field(description="{kind, queue, effects, description}")
    queues: list[str]
    workers: list[JsonObject] = Field(description="{name, role, queues, started_at, seen_at}")
    dead_letters: list[JsonObject] = Field(
        description="messages that no worker could read: {source, reason, body, recorded_at}"
    )


class RenderedTemplate(WireModel):
    result: Any
    warnings: list[str]
