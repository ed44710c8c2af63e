"""The tables: their columns, with a meaning for each. `docs/tables.md` says the same, and a test
that it does.

A row of an execution holds `as_of`, the version of the newest event that it knows of. Where the
same key comes again, with a later export, the row with the greater `as_of` is what is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from noetl.projection.rows import ColumnType, ProjectionColumn, ProjectionTable


def _must(name: str, type_: ColumnType, meaning: str) -> ProjectionColumn:
    return ProjectionColumn(name, type_, meaning, required=True)


def _may(name: str, type_: ColumnType, meaning: str) -> ProjectionColumn:
    return ProjectionColumn(name, type_, meaning)


_EXECUTION: Final = _must("execution_id", "id", "the execution")
_STEP: Final = _must("step", "text", "name of the step")
_RUN: Final = _must("run_id", "text", "the step run, `<step>#<n>`")
_ITERATION: Final = _may("iteration", "integer", "index of the iteration, from 0; null outside of loops")
_TASK: Final = _must("task", "text", "name of the task")
_VISIT: Final = _must(
    "visit",
    "integer",
    "which run of the task in its pipeline, from 1: jumps come back to it, and each item of its own loop "
    "is one",
)
_AS_OF: Final = _must("as_of", "integer", "version of the newest event that this row knows of")
_DIGEST: Final = _must("digest", "text", "the compiled net")
_LINE: Final = _may("line", "integer", "its line in the playbook's file, from 1")
_ERROR: Final = (
    _may("error_kind", "text", "kind of the error, such as `timeout`; null without one"),
    _may("error_message", "text", "what the error says"),
    _may("error", "json", "all of the error"),
)

_PLACE: Final = (
    _EXECUTION,
    _must("version", "integer", "the event that holds it"),
    _must("place", "text", "where in the event's payload, such as `result.data`"),
    _must("type", "text", "type of that event"),
    _may("step", "text", "name of the step"),
    _may("run_id", "text", "the step run"),
    _may("iteration", "integer", "index of the iteration, from 0"),
    _must("recorded_at", "instant", "when it was recorded"),
)


def _table(
    name: str, meaning: str, key: tuple[str, ...], *columns: ProjectionColumn, revised: bool = False
) -> ProjectionTable:
    return ProjectionTable(name, meaning, key, columns, revised)


_ALL: Final = (
    _table(
        "playbook",
        "The versions of the catalog.",
        ("path", "version"),
        _must("path", "text", "its place in the catalog"),
        _must("version", "integer", "1, 2, 3... of the path"),
        _must("name", "text", "`metadata.name`"),
        _must("description", "text", "`metadata.description`"),
        _must("content_sha256", "text", "hash of its text"),
        _DIGEST,
        _must("created_at", "instant", "when it was registered"),
    ),
    _table(
        "playbook_step",
        "The steps of every net that the catalog or an execution names.",
        ("digest", "step"),
        _DIGEST,
        _must("step", "text", "its name"),
        _must("position", "integer", "place in the document, from 0"),
        _must("description", "text", "`desc` of the step"),
        _must("tasks", "json", "its tasks in order, each `{name, kind}`"),
        _must("queue", "text", "where its work is sent"),
        _may(
            "loop_mode",
            "text",
            "`sequential`, `parallel`, or `cursor`: as its width says; null without a loop",
        ),
        _must("join_mode", "text", "`auto`, `all`, `any`, `first` or `count`"),
        _LINE,
    ),
    _table(
        "playbook_arc",
        "The arcs between those steps.",
        ("digest", "arc_id"),
        _DIGEST,
        _must("arc_id", "text", "its name in the net"),
        _must("position", "integer", "place in the document, from 0"),
        _must("source", "text", "the step that it leaves"),
        _must("target", "text", "the step that it leads to"),
        _may("guard", "json", "`when`; null without one"),
        _LINE,
    ),
    _table(
        "execution",
        "What was run, and how it went.",
        ("execution_id",),
        _EXECUTION,
        _must("path", "text", "the playbook"),
        _must("playbook_version", "integer", "its version in the catalog"),
        _DIGEST,
        _must(
            "status",
            "text",
            "`pending`, `running`, `waiting`, `paused`, `completed`, `failed`, `partial`, `cancelled`",
        ),
        _may("parent_id", "id", "the execution that called it"),
        _may("parent_run_id", "text", "the step run that called it"),
        _may("parent_iteration", "integer", "the iteration that called it"),
        _may("source_id", "id", "the execution that it runs again, or is a fork of"),
        _may("key", "text", "its business key"),
        _must("created_at", "instant", "when it was started"),
        _may("started_at", "instant", "when its first token was put down"),
        _may("ended_at", "instant", "when it ended"),
        _may("duration_ms", "double", "from `created_at` to `ended_at`"),
        _must("events", "integer", "length of its log"),
        _must("workload", "json", "its inputs"),
        _must("ctx", "json", "its variables"),
        _may("result_step", "text", "the step whose result is that of the execution"),
        _may(
            "result",
            "json",
            "that result, references unopened; null where the step is a loop (see `task_run`)",
        ),
        *_ERROR,
        _AS_OF,
        revised=True,
    ),
    _table(
        "token",
        "The tokens of its net.",
        ("execution_id", "token_id"),
        _EXECUTION,
        _must("token_id", "text", "the token"),
        _must("arc_id", "text", "the arc in whose place it was put; `entry` for the first"),
        _must("step", "text", "the step before which it waits"),
        _may("source_run_id", "text", "the step run that left it; null for the first"),
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
        _may("ended_at", "instant", "when it was taken away"),
        _may("run_id", "text", "the step run that consumed it"),
        _AS_OF,
        revised=True,
    ),
    _table(
        "step_run",
        "Each firing of a step.",
        ("execution_id", "run_id"),
        _EXECUTION,
        _RUN,
        _STEP,
        _must("status", "text", "`running`, `waiting`, `done`, `failed`, `skipped` or `cancelled`"),
        _must("final", "boolean", "whether it is the run of `final_step`"),
        _must("args", "json", "what it was fired with"),
        _may("worker", "text", "who began it; null without tasks, and for loops"),
        _must("scheduled_at", "instant", "when it was fired"),
        _may("started_at", "instant", "when its worker began"),
        _may("ended_at", "instant", "when its end was recorded"),
        _may("duration_ms", "double", "from `scheduled_at` to `ended_at`"),
        _may("loop_mode", "text", "`sequential` or `parallel`; null without a loop"),
        _may("iterations", "integer", "items of its loop"),
        _may("iterations_done", "integer", "iterations that went well"),
        _may("iterations_failed", "integer", "iterations that did not"),
        _may("result", "json", "its result, references unopened; null for loops (see `task_run`)"),
        *_ERROR,
        _AS_OF,
        revised=True,
    ),
    _table(
        "loop_iteration",
        "Each iteration of a loop that has begun, or was cancelled before.",
        ("execution_id", "run_id", "iteration"),
        _EXECUTION,
        _RUN,
        _must("iteration", "integer", "its index, from 0"),
        _STEP,
        _must("status", "text", "`running`, `waiting`, `done`, `failed` or `cancelled`"),
        _must("attempts", "integer", "tries of the task of it that was tried most often"),
        _may("started_at", "instant", "when it began; null where it was too short to be recorded"),
        _may("ended_at", "instant", "when its end was recorded"),
        _may("duration_ms", "double", "how long it took, waits included"),
        *_ERROR,
        _AS_OF,
        revised=True,
    ),
    _table(
        "task_run",
        "Each run of a task in a pipeline, all its attempts together.",
        ("execution_id", "run_id", "iteration", "task", "visit"),
        _EXECUTION,
        _RUN,
        _ITERATION,
        _TASK,
        _VISIT,
        _STEP,
        _may("kind", "text", "the tool"),
        _must(
            "status",
            "text",
            "`running`, `waiting`, `done`, `failed`; `unfinished` where its step run ended before it",
        ),
        _must("attempts", "integer", "tries that have ended"),
        _may("started_at", "instant", "when it began; null where it was too short to be recorded"),
        _may("ended_at", "instant", "when its end was recorded"),
        _may("duration_ms", "double", "of its last attempt"),
        _may("child_id", "id", "the execution that it called"),
        _may("result", "json", "what it yielded, references unopened"),
        *_ERROR,
        _AS_OF,
        revised=True,
    ),
    _table(
        "attempt",
        "Each try of a task that has ended.",
        ("execution_id", "run_id", "iteration", "task", "visit", "attempt"),
        _EXECUTION,
        _RUN,
        _ITERATION,
        _TASK,
        _VISIT,
        _must("attempt", "integer", "number of the try, from 1"),
        _STEP,
        _must("status", "text", "`done`, `failed`, or `repeated`: it went well, and a policy wanted another"),
        _must("ended_at", "instant", "when its end was recorded"),
        _may("duration_ms", "double", "how long it took"),
        *_ERROR,
        _AS_OF,
    ),
    _table(
        "event_log",
        "The log itself: see [events](events.md).",
        ("execution_id", "version"),
        _EXECUTION,
        _must("version", "integer", "1, 2, 3... within the execution, without gaps"),
        _must("event_id", "text", "`<execution_id>.<version>`"),
        _must("type", "text", "what happened"),
        _may("step", "text", "name of the step"),
        _may("step_run_id", "text", "the step run"),
        _may("iteration", "integer", "index of the iteration, from 0"),
        _may("attempt", "integer", "number of the attempt, from 1"),
        _must("source", "text", "who recorded it: `server`, `worker` or `client`"),
        _must("status", "text", "`started`, `completed`, `failed`, `skipped` or `cancelled`"),
        _must("payload", "json", "the event's fields"),
        _must("recorded_at", "instant", "when it was appended"),
        _may("duration_ms", "double", "how long what ended took"),
        _may("dedup_key", "text", "makes the same fact recorded twice impossible"),
        _must("schema", "integer", "version of the payload's shape"),
        _may("origin", "text", "the event of another execution that it is a copy of"),
        _may("principal", "text", "who caused it, of what came from outside"),
        _may("request_id", "text", "the request in which it was asked for"),
    ),
    _table(
        "result_ref",
        "The references to results that are kept outside of the log.",
        ("execution_id", "version", "place"),
        *_PLACE,
        _must("ref", "text", "`noetl://<store>/<place>/<sha256>.<form>`"),
        _may("store", "text", "name of the result store"),
        _may("scope", "text", "`step`, `execution` or `permanent`"),
        _may("expires_at", "instant", "from when on it may be removed, whatever its scope"),
        _may("bytes", "integer", "its size, before compression"),
        _may("content_type", "text", "what it is"),
        _may("sha256", "text", "hash of its content"),
    ),
    _table(
        "manifest_ref",
        "The lists that are kept in parts. References among the parts are in `result_ref`.",
        ("execution_id", "version", "place"),
        *_PLACE,
        _may("count", "integer", "items of the list"),
        _must("parts", "integer", "how many parts it has"),
    ),
    _table(
        "log",
        "What python and shell tasks printed, in pieces: parts of lines, or lines.",
        ("execution_id", "seq"),
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
TABLES: Final[Mapping[str, ProjectionTable]] = {table.name: table for table in _ALL}
#: Those whose rows are folded from all events of an execution, and those that each event has by
#: itself.
FOLDED: Final = frozenset({"execution", "token", "step_run", "loop_iteration", "task_run", "attempt"})
REFERENCES: Final = frozenset({"result_ref", "manifest_ref"})


def needs_executions(tables: Iterable[str]) -> bool:
    """Whether rows of `tables` come from executions. Their nets do as well."""
    return any(name != "playbook" for name in tables)
