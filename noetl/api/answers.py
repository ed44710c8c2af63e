"""What the API answers, as pydantic models: the OpenAPI document is made of them, and tests hold
every answer against them. Handlers build plain JSON, because results may be nested deeper than
pydantic goes.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from noetl.api.problems import MEDIA_TYPE
from noetl.usecases.ports import ExecutionStatus

JsonObject = dict[str, Any]


class WireModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="`urn:noetl:problem:<word>`: what went wrong, for programs")
    title: str
    status: int
    detail: str = Field(description="one sentence with the place, the cause and the next move")
    instance: str = Field("", description="the path of the request; missing where none could be read")
    problems: list[JsonObject] = Field([], description="all faults, where there may be several")
    nearest: str | None = None


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


class Accepted(WireModel):
    execution_id: str
    status: ExecutionStatus
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
    warnings: list[WarningView] | None = Field(None, description="as those of one start")
    links: Links | None = None
    problem: Problem | None = None


class Batch(WireModel):
    accepted: int
    refused: int
    executions: list[BatchAnswer] = Field(description="one for each item, in their order")


class ExecutionStanding(WireModel):
    """Where an execution is after a request to change it."""

    execution_id: str
    status: ExecutionStatus
    version: int


class ExecutionSummary(WireModel):
    execution_id: str
    parent_id: str | None = Field(description="the execution that called it")
    path: str
    version: int = Field(description="of the playbook")
    status: ExecutionStatus
    events: int
    created_at: str
    updated_at: str
    ended_at: str | None
    error: JsonObject | None
    errors_passed_over: int = Field(description="errors that policies and loops went on after")
    warnings_count: int = Field(description="different warnings of the run")


class ExecutionList(WireModel):
    executions: list[ExecutionSummary]
    next: str | None = Field(description="`before` of the next page; null on the last one")


class ChildSummary(WireModel):
    execution_id: str
    path: str
    version: int = Field(description="of the playbook")
    status: ExecutionStatus
    step: str | None = Field(description="the step that called it")
    iteration: int | None = Field(description="its iteration, where it is a loop")
    errors_passed_over: int = Field(description="errors that policies and loops went on after")
    warnings_count: int = Field(description="different warnings of the run")


class ExecutionReport(WireModel):
    execution_id: str
    parent_id: str | None = Field(description="the execution that called it")
    path: str
    version: int = Field(description="of the playbook")
    status: ExecutionStatus
    result: Any
    ctx: JsonObject
    steps: JsonObject = Field(description="name → {status, runs, result, error?, errors?}")
    error: JsonObject | None
    errors_passed_over: int = Field(description="errors that policies and loops went on after")
    warnings: list[WarningView] = Field(description="names that nothing defined, and what tools warned of")
    events: int
    duration_ms: float
    children: list[ChildSummary] = Field(
        description="the newest of those that it called; all: `links.children`"
    )
    created_at: str
    updated_at: str
    ended_at: str | None
    links: Links


class ExecutionResult(WireModel):
    execution_id: str
    status: ExecutionStatus
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


class EventPage(WireModel):
    events: list[Event]
    next: int | None = Field(description="`after` of the next page; null where there is none yet")
    status: str = Field(description="where the execution was when the page was read")
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


class LogPage(WireModel):
    chunks: list[Chunk]
    next: int | None = Field(description="`after` of the next page; null where there is none yet")
    status: str = Field(description="where the execution was when the page was read")


class TokenMarking(WireModel):
    tokens: list[JsonObject] = Field(description="tokens that wait: {id, place, step}")
    running: list[JsonObject] = Field(description="step runs in flight: {run_id, step, status}")


class StateView(WireModel):
    execution_id: str
    version: int
    status: ExecutionStatus
    ctx: JsonObject
    steps: JsonObject
    marking: TokenMarking


class VariableValues(WireModel):
    execution_id: str
    version: int
    vars: JsonObject


class VariableValue(WireModel):
    execution_id: str
    name: str
    value: Any


def _problem(description: str) -> JsonObject:
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


#: Errors that any route may answer with.
ERRORS: Final[dict[str | int | HTTPStatus, type[BaseModel] | dict[Any, Any] | None]] = {
    "400": _problem("The request cannot be used."),
    "4XX": _problem("What was named does not exist, or is in another state."),
    "503": _problem("The database does not answer."),
}

#: A net as text for Mermaid or Graphviz, or as JSON.
GRAPH: Final[JsonObject] = {
    "description": "The net",
    "content": {
        "text/vnd.mermaid": {"schema": {"type": "string"}},
        "text/vnd.graphviz": {"schema": {"type": "string"}},
        "application/json": {"schema": {"type": "object"}},
    },
}
#: A large result: its value, some of its items, or the bytes that were kept.
RESULT: Final[JsonObject] = {
    "description": "The value; of a list that is asked for in part {items, offset, length, next}; or the "
    "bytes",
    "content": {
        "application/json": {"schema": {}},
        "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        "application/x-ndjson": {"schema": {"type": "string", "format": "binary"}},
        "text/csv": {"schema": {"type": "string"}},
        "text/plain": {"schema": {"type": "string"}},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    },
}
#: A page of events, or all of them as they come.
EVENTS: Final[JsonObject] = {
    "description": "Events in order",
    "content": {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{EventPage.__name__}"}},
        "text/event-stream": {"schema": {"type": "string"}},
    },
}
#: A page of what user code printed, or all of it as it comes.
LOGS: Final[JsonObject] = {
    "description": "Chunks of text in order",
    "content": {
        "application/json": {"schema": {"$ref": f"#/components/schemas/{LogPage.__name__}"}},
        "text/event-stream": {"schema": {"type": "string"}},
    },
}
