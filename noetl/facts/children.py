"""Events between an execution and those that it calls, and what a call and a caller look like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from noetl.facts.json import Json, JsonMap
from noetl.facts.lineage import RetryOf
from noetl.facts.outcome import ErrorInfo


@dataclass(frozen=True, slots=True)
class ChildCall:
    """A task calls a playbook, with `payload` over its workload. `version` None: the newest.

    The task's result is that of the child, or of its step `return_step`; of a `detached` child only
    where it is to be found. `iter` is the scope of the calling iteration.
    """

    path: str
    version: int | None = None
    payload: JsonMap = field(default_factory=dict)
    return_step: str | None = None
    detached: bool = False
    iter: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class Parent:
    """The caller of an execution: task, iteration and run, how deep below the first
    caller (from 1), and what of the child it wants."""

    execution_id: str
    step: str
    run_id: str
    iteration: int | None
    task: str
    depth: int
    return_step: str | None = None
    detached: bool = False
    iter: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class ChildRequested:
    """The child exists from this event on: its own log begins in the same transaction."""

    type: ClassVar[str] = "child.requested"
    task: str
    child_id: str
    path: str
    playbook_version: int
    digest: str
    detached: bool = False
    #: What the same call made in the execution that is run again: this child runs that again.
    retry: RetryOf | None = None
    #: Its business key.
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ChildWaiting:
    """The child has come to where only somebody outside makes it go on, or has gone on from there.
    `at` is the version of its log that says so: what is heard later and is older does not count."""

    type: ClassVar[str] = "child.waiting"
    task: str
    child_id: str
    waiting: bool
    at: int


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """The child came to an end, or could not be made (`child_id` None). `status` is its own."""

    type: ClassVar[str] = "child.ended"
    task: str
    child_id: str | None
    status: Literal["completed", "failed", "partial", "cancelled"]
    result: Json = None
    error: ErrorInfo | None = None
    warnings: tuple[str, ...] = ()
    #: Whether it has done something that it undoes where its caller fails.
    undoable: bool = False


@dataclass(frozen=True, slots=True)
class ChildUndoRequested:
    """The execution `undoes`, which had ended well, is to undo what it has done: that does the
    execution `child_id`, whose log is that of the other one so far, and begins in the same
    transaction."""

    type: ClassVar[str] = "child.undo.requested"
    task: str
    child_id: str
    undoes: str


@dataclass(frozen=True, slots=True)
class ChildUndone:
    """What the execution `undoes` had done is undone, as far as that was possible: by the execution
    `child_id`; None where that could not be made. `error`: what was not undone."""

    type: ClassVar[str] = "child.undone"
    task: str
    child_id: str | None
    undoes: str
    error: ErrorInfo | None = None
