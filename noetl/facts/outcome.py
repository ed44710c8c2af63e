"""The outcome envelope: what a tool returned, or why it did not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from noetl.facts.json import Json, JsonMap

ErrorKind = Literal[
    "template",
    "python",
    "shell",
    "sql",
    "connection",
    "timeout",
    "rate_limit",
    "server_error",
    "auth",
    "client_error",
    "limit",
    "join",
    "router",
    "child",
    "cancelled",
    "internal",
]


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """Why something failed, and where. `line` is a line of the playbook file (from 1)."""

    kind: str
    message: str
    type: str = ""
    retryable: bool = False
    step: str | None = None
    task: str | None = None
    iteration: int | None = None
    attempt: int | None = None
    #: Which item of the task's own loop it was, from 0.
    item: int | None = None
    #: What the item of the iteration, or of the task's own loop, looks like: in short, without
    #: secrets.
    item_text: str | None = None
    line: int | None = None
    traceback: str | None = None
    #: Numbers that belong to the error: a failed loop keeps its `{total, completed, failed}` here.
    stats: JsonMap | None = None
    #: What the tool knew about the failure besides (`{"status": 503}` of an http answer).
    status: Json = None

    def as_json(self) -> dict[str, Json]:
        """The mapping that templates and reports see; absent fields are left out."""
        every = {name: getattr(self, name) for name in self.__slots__}
        return {k: v for k, v in every.items() if v is not None or k in ("kind", "message", "type")}


#: In `meta` of a result that stands in for the call's own: whose it was (`{execution_id, run_id,
#: iteration, task, at}`).
REUSED: Final = "reused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`status` is `ok` or `error`; exactly one of `result` and `error` speaks.

    `meta` holds `duration_ms`, `stdout`, `stderr`, and the like; `extras` the tool's own section
    (`http`, `pg`, `py`), merged into the top level of `as_json()`.
    """

    status: Literal["ok", "error"]
    result: Json = None
    error: ErrorInfo | None = None
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def as_json(self) -> dict[str, Any]:
        """`{status, result, data, error, meta, ...extras}`; absent sides are left out
        (undefined)."""
        view: dict[str, Any] = {"status": self.status, "meta": dict(self.meta), **self.extras}
        if self.ok:
            view["result"] = view["data"] = self.result
        if self.error is not None:
            view["error"] = self.error.as_json()
        return view


def succeeded(result: Json, meta: Mapping[str, Any] | None = None, **extras: Json) -> Outcome:
    """An outcome that went well."""
    return Outcome("ok", result=result, meta=dict(meta or {}), extras=extras)


def failed(error: ErrorInfo, meta: Mapping[str, Any] | None = None, **extras: Json) -> Outcome:
    """An outcome that did not."""
    return Outcome("error", error=error, meta=dict(meta or {}), extras=extras)
