"""The tables: their columns, with a meaning for each. `docs/tables.md` says the same, and a test
that it does.

A row of an execution holds `as_of`, the version of the newest event that it knows of. Where the
same key comes again, with a later export, the row with the greater `as_of` is what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from noetl.facts.json import Json

#: `id` is a number below 2^63, a string in JSON; `instant` is UTC, to the microsecond; `json` is
#: any JSON value.
ColumnType: TypeAlias = Literal["id", "integer", "double", "boolean", "text", "instant", "json"]


@dataclass(frozen=True, slots=True)
class ProjectionColumn:
    """`required`: never null."""

    name: str
    type: ColumnType
    meaning: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ProjectionTable:
    """`key` names one thing. Rows of a table that is `revised` come again with a greater `as_of`;
    those of others never change."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[ProjectionColumn, ...]
    revised: bool = False


@dataclass(frozen=True, slots=True)
class ProjectionRow:
    """One row of `table`. Values are JSON: instants are ISO 8601 in UTC, ids decimal strings."""

    table: str
    values: Mapping[str, Json]


def _must(name: str, type_: ColumnType, meaning: str) -> ProjectionColumn:
    return ProjectionColumn(name, type_, meaning, required=True)


_EXECUTION: Final = _must("execution_id", "id", "the execution")
_STEP: Final = _must("step", "text", "name of the step")
_RUN: Final = _must("run_id", "text", "the step run, `<step>#<n>`")
_ITERATION: Final = ProjectionColumn(
    "iteration", "integer", "index of the iteration, from 0; null outside of loops"
)
_TASK: Final = _must("task", "text", "name of the task")
_VISIT: Final = _must(
    "visit",
    "integer",
    "which run of the task in its pipeline, from 1: jumps come back to it, and each item of its own loop "
    "is one",
)
_AS_OF: Final = _must("as_of", "integer", "version of the newest event that this row knows of")
_DIGEST: Final = _must("digest", "text", "the compiled net")
_LINE: Final = ProjectionColumn("line", "integer", "its line in the playbook's file, from 1")
_ERROR: Final = (
    ProjectionColumn("error_kind", "text", "kind of the error, such as `timeout`; null without one"),
    ProjectionColumn("error_message", "text", "what the error says"),
    ProjectionColumn("error", "json", "all of the error"),
)

PLAYBOOK: Final = ProjectionTable(
    "playbook",
    "The versions of the catalog.",
    ("path", "version"),
    (
        _must("path", "text", "its place in the catalog"),
        _must("version", "integer", "1, 2, 3... of the path"),
        _must("name", "text", "`metadata.name`"),
        _must("description", "text", "`metadata.description`"),
        _must("content_sha256", "text", "hash of its text"),
        _DIGEST,
        _must("created_at", "instant", "when it was registered"),
    ),
)

PLAYBOOK_STEP: Final = ProjectionTable(
    "playbook_step",
    "The steps of every net that the catalog or an execution names.",
    ("digest", "step"),
    (
        _DIGEST,
        _must("step", "text", "its name"),
        _must("position", "integer", "place in the document, from 0"),
        _must("description", "text", "`desc` of the step"),
        _must("tasks", "json", "its tasks in order, each `{name, kind}`"),
        _must("queue", "text", "where its work is sent"),
        ProjectionColumn(
            "loop_mode",
            "text",
            "`sequential`, `parallel`, or `cursor`: as its width says; null without a loop",
        ),
        _must("join_mode", "text", "`auto`, `all`, `any`, `first` or `count`"),
        _LINE,
    ),
)

PLAYBOOK_ARC: Final = ProjectionTable(
    "playbook_arc",
    "The arcs between those steps.",
    ("digest", "arc_id"),
    (
        _DIGEST,
        _must("arc_id", "text", "its name in the net"),
        _must("position", "integer", "place in the document, from 0"),
        _must("source", "text", "the step that it leaves"),
        _must("target", "text", "the step that it leads to"),
        ProjectionColumn("guard", "json", "`when`; null without one"),
        _LINE,
    ),
)

EXECUTION: Final = ProjectionTable(
    "execution",
    "What was run, and how it went.",
    ("execution_id",),
    (
        _EXECUTION,
        _must("path", "text", "the playbook"),
        _must("playbook_version", "integer", "its version in the catalog"),
        _DIGEST,
        _must(
            "status",
            "text",
            "`pending`, `running`, `waiting`, `paused`, `completed`, `failed`, `partial`, `cancelled`",
        ),
        ProjectionColumn("parent_id", "id", "the execution that called it"),
        ProjectionColumn("parent_run_id", "text", "the step run that called it"),
        ProjectionColumn("parent_iteration", "integer", "the iteration that called it"),
        _must("created_at", "instant", "when it was asked for"),
        ProjectionColumn("started_at", "instant", "when its first token was put down"),
        ProjectionColumn("ended_at", "instant", "when it ended"),
        ProjectionColumn("duration_ms", "double", "from `created_at` to `ended_at`"),
        _must("events", "integer", "length of its log"),
        _must("workload", "json", "its inputs"),
        _must("ctx", "json", "its variables"),
        ProjectionColumn("result_step", "text", "the step whose result is that of the execution"),
        ProjectionColumn(
            "result",
            "json",
            "that result, references unopened; null where the step is a loop (see `task_run`)",
        ),
        *_ERROR,
        _AS_OF,
    ),
    revised=True,
)

TOKEN: Final = ProjectionTable(
    "token",
    "The tokens of its net.",
    ("execution_id", "token_id"),
    (
        _EXECUTION,
        _must("token_id", "text", "the token"),
        _must("arc_id", "text", "the arc in whose place it was put; `entry` for the first"),
        _must("step", "text", "the step before which it waits"),
        ProjectionColumn("source_run_id", "text", "the step run that left it; null for the first"),
        _must("args", "json", "what the arc hands over"),
        _must("round", "integer", "round of the join that it counts in; 0 without one"),
        _must(
            "status",
            "text",
            "`waiting`; `consumed` by a step run; `absorbed` by a join that had fired; `dropped` with a "
            "step that was "
            "skipped or a join that failed; `left` where the execution ended",
        ),
        _must("produced_at", "instant", "when it was put down"),
        ProjectionColumn("ended_at", "instant", "when it was taken away"),
        ProjectionColumn("run_id", "text", "the step run that consumed it"),
        _AS_OF,
    ),
    revised=True,
)

STEP_RUN: Final = ProjectionTable(
    "step_run",
    "Each firing of a step.",
    ("execution_id", "run_id"),
    (
        _EXECUTION,
        _RUN,
        _STEP,
        _must("status", "text", "`running`, `waiting`, `done`, `failed`, `skipped` or `cancelled`"),
        _must("final", "boolean", "whether it is the run of `final_step`"),
        _must("args", "json", "what it was fired with"),
        ProjectionColumn("worker", "text", "who began it; null without tasks, and for loops"),
        _must("scheduled_at", "instant", "when it was fired"),
        ProjectionColumn("started_at", "instant", "when its worker began"),
        ProjectionColumn("ended_at", "instant", "when its end was recorded"),
        ProjectionColumn("duration_ms", "double", "from `scheduled_at` to `ended_at`"),
        ProjectionColumn("loop_mode", "text", "`sequential` or `parallel`; null without a loop"),
        ProjectionColumn("iterations", "integer", "items of its loop"),
        ProjectionColumn("iterations_done", "integer", "iterations that went well"),
        ProjectionColumn("iterations_failed", "integer", "iterations that did not"),
        ProjectionColumn(
            "result", "json", "its result, references unopened; null for loops (see `task_run`)"
        ),
        *_ERROR,
        _AS_OF,
    ),
    revised=True,
)

TASK_RUN: Final = ProjectionTable(
    "task_run",
    "Each run of a task in a pipeline, all its attempts together.",
    ("execution_id", "run_id", "iteration", "task", "visit"),
    (
        _EXECUTION,
        _RUN,
        _ITERATION,
        _TASK,
        _VISIT,
        _STEP,
        ProjectionColumn("kind", "text", "the tool"),
        _must(
            "status",
            "text",
            "`running`, `waiting`, `done`, `failed`; `unfinished` where its step run ended before it",
        ),
        _must("attempts", "integer", "tries that have ended"),
        ProjectionColumn("started_at", "instant", "when it began; null where it was too short to be told of"),
        ProjectionColumn("ended_at", "instant", "when its end was recorded"),
        ProjectionColumn("duration_ms", "double", "of its last attempt"),
        ProjectionColumn("child_id", "id", "the execution that it called"),
        ProjectionColumn("result", "json", "what it yielded, references unopened"),
        *_ERROR,
        _AS_OF,
    ),
    revised=True,
)

ATTEMPT: Final = ProjectionTable(
    "attempt",
    "Each try of a task that has ended.",
    ("execution_id", "run_id", "iteration", "task", "visit", "attempt"),
    (
        _EXECUTION,
        _RUN,
        _ITERATION,
        _TASK,
        _VISIT,
        _must("attempt", "integer", "number of the try, from 1"),
        _STEP,
        _must("status", "text", "`done`, `failed`, or `repeated`: it went well, and a policy wanted another"),
        _must("ended_at", "instant", "when its end was recorded"),
        ProjectionColumn("duration_ms", "double", "how long it took"),
        *_ERROR,
        _AS_OF,
    ),
)

EVENT_LOG: Final = ProjectionTable(
    "event_log",
    "The log itself: see [events](events.md).",
    ("execution_id", "version"),
    (
        _EXECUTION,
        _must("version", "integer", "1, 2, 3... within the execution, without gaps"),
        _must("event_id", "text", "`<execution_id>.<version>`"),
        _must("type", "text", "what happened"),
        ProjectionColumn("step", "text", "name of the step"),
        ProjectionColumn("step_run_id", "text", "the step run"),
        ProjectionColumn("iteration", "integer", "index of the iteration, from 0"),
        ProjectionColumn("attempt", "integer", "number of the attempt, from 1"),
        _must("source", "text", "who recorded it: `server`, `worker` or `client`"),
        _must("status", "text", "`started`, `completed`, `failed`, `skipped` or `cancelled`"),
        _must("payload", "json", "the event's fields"),
        _must("recorded_at", "instant", "when it was appended"),
        ProjectionColumn("duration_ms", "double", "how long what ended took"),
        ProjectionColumn("dedup_key", "text", "makes the same fact recorded twice impossible"),
        _must("schema", "integer", "version of the payload's shape"),
    ),
)

_PLACE: Final = (
    _EXECUTION,
    _must("version", "integer", "the event that holds it"),
    _must("place", "text", "where in the event's payload, such as `result.data`"),
    _must("type", "text", "type of that event"),
    ProjectionColumn("step", "text", "name of the step"),
    ProjectionColumn("run_id", "text", "the step run"),
    ProjectionColumn("iteration", "integer", "index of the iteration, from 0"),
    _must("recorded_at", "instant", "when it was recorded"),
)

RESULT_REF: Final = ProjectionTable(
    "result_ref",
    "The references to results that are kept outside of the log.",
    ("execution_id", "version", "place"),
    (
        *_PLACE,
        _must("ref", "text", "`noetl://<store>/<place>/<sha256>.<form>`"),
        ProjectionColumn("store", "text", "name of the result store"),
        ProjectionColumn("scope", "text", "`step`, `execution` or `permanent`"),
        ProjectionColumn("expires_at", "instant", "from when on it may be removed, whatever its scope"),
        ProjectionColumn("bytes", "integer", "its size, before compression"),
        ProjectionColumn("content_type", "text", "what it is"),
        ProjectionColumn("sha256", "text", "hash of its content"),
    ),
)

MANIFEST_REF: Final = ProjectionTable(
    "manifest_ref",
    "The lists that are kept in parts. References among the parts are in `result_ref`.",
    ("execution_id", "version", "place"),
    (
        *_PLACE,
        ProjectionColumn("count", "integer", "items of the list"),
        _must("parts", "integer", "how many parts it has"),
    ),
)

LOG: Final = ProjectionTable(
    "log",
    "What python and shell tasks printed, in pieces: parts of lines, or lines.",
    ("execution_id", "seq"),
    (
        _EXECUTION,
        _must("seq", "integer", "number of the piece within the execution, from 1"),
        _STEP,
        _RUN,
        _ITERATION,
        _TASK,
        _must("attempt", "integer", "number of the try, from 1"),
        _must("delivery", "integer", "which worker that was given the work, from 1"),
        _must("stream", "text", "`stdout`, `stderr`, or `note`: what is missing there"),
        _must("start", "integer", "bytes that the attempt had printed to the stream before"),
        _must("text", "text", "what was printed, without secrets"),
        _must("recorded_at", "instant", "when it came"),
    ),
)

TABLES: Final[Mapping[str, ProjectionTable]] = {
    table.name: table
    for table in (
        PLAYBOOK,
        PLAYBOOK_STEP,
        PLAYBOOK_ARC,
        EXECUTION,
        TOKEN,
        STEP_RUN,
        TASK_RUN,
        ATTEMPT,
        EVENT_LOG,
        RESULT_REF,
        MANIFEST_REF,
        LOG,
    )
}
#: Those whose rows are folded from all events of an execution, and those that each event has by
#: itself.
FOLDED: Final = frozenset({"execution", "token", "step_run", "task_run", "attempt"})
REFERENCES: Final = frozenset({"result_ref", "manifest_ref"})


def needs_executions(tables: Iterable[str]) -> bool:
    """Whether rows of `tables` come from executions. Their nets do as well."""
    return any(name != "playbook" for name in tables)
