"""What is true of one execution at one version: frozen, comparable, JSON-able."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from noetl.engine.notices import Notices, PassedErrors
from noetl.engine.run_state import Run, RunStatus
from noetl.engine.scope_state import RegionState, Termination, Undoable, UndoableCall
from noetl.engine.wait_state import Answer, Child, PendingWait, Signal, SlotHolder, Timer
from noetl.facts.events import (
    CallbackReceived,
    Parent,
    Token,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.lineage import RetryOf
from noetl.facts.outcome import ErrorInfo
from noetl.facts.retries import NextAttempt
from noetl.facts.scopes import EndStatus

#: Bump when the shape of `State` changes: snapshots of another schema are not used.
STATE_SCHEMA = 14

Phase = Literal["pending", "running", "ended"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A token in its place. `denied_at` is the version of ctx that admission was denied at.
    `early`: it came before the milestone of its step."""

    token: Token
    denied_at: int | None = None
    early: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """The last round in which a `first` or `count` join fired.

    `outstanding` are the tokens and runs that lived when it fired, followed through their moves: as
    long as one of them can reach the join, the round is not over.
    """

    number: int
    arrived: frozenset[str]
    outstanding: frozenset[str]


@dataclass(frozen=True)
class StepRecord:
    """What is remembered of a step after its runs: templates see `result` under the step's name."""

    runs: int = 0
    status: RunStatus = "running"
    result: Json = None
    results: JsonMap = field(default_factory=dict)
    error: ErrorInfo | None = None
    #: How many of its runs ended in each status.
    counts: Mapping[str, int] = field(default_factory=dict)
    passed: PassedErrors = field(default_factory=PassedErrors)
    #: How many results of its tasks are copies.
    reused: int = 0


@dataclass(frozen=True)
class State:
    """The fold of an execution's events up to `version`.

    `tokens` (by id) and `runs` (by id) keep the order in which they came to be: decisions follow
    it.
    """

    execution_id: str
    version: int = 0
    phase: Phase = "pending"
    status: str = "pending"
    path: str = ""
    playbook_version: int = 0
    digest: str = ""
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    parent: Parent | None = None
    workload: JsonMap = field(default_factory=dict)
    ctx: JsonMap = field(default_factory=dict)
    ctx_version: int = 0
    accepted: bool | None = None
    started: bool = False
    tokens: Mapping[str, Waiting] = field(default_factory=dict)
    runs: Mapping[str, Run] = field(default_factory=dict)
    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    rounds: Mapping[str, Round] = field(default_factory=dict)
    #: By the run and the iteration that wait.
    children: Mapping[str, Child] = field(default_factory=dict)
    timers: Mapping[str, Timer] = field(default_factory=dict)
    #: By the run and the iteration that wait, in the order in which they began.
    waits: Mapping[str, PendingWait] = field(default_factory=dict)
    signals: tuple[Signal, ...] = ()
    #: To approvals of tasks that wait, or of the execution that is run again.
    answers: tuple[Answer, ...] = ()
    #: Calls of the addresses of tasks that have not taken them, by the places of those.
    callbacks: Mapping[str, CallbackReceived] = field(default_factory=dict)
    #: What asked for slots and has not ended (`slots.slot_place`), in the order of the requests.
    holders: Mapping[str, SlotHolder] = field(default_factory=dict)
    #: Steps of which nothing begins.
    paused_steps: tuple[str, ...] = ()
    failures: tuple[ErrorInfo, ...] = ()
    stopping: bool = False
    #: In the order in which they ended.
    undoable: tuple[Undoable | UndoableCall, ...] = ()
    #: Executions that it had called, and those that undo them now.
    undos: Mapping[str, str] = field(default_factory=dict)
    #: The execution that it undoes.
    undoes: str | None = None
    regions: Mapping[str, RegionState] = field(default_factory=dict)
    #: How it will have ended, when what it wants done then is done.
    closing: EndStatus | None = None
    #: Whether the step has begun that is run when it was cancelled.
    on_cancel_ran: bool = False
    termination: Termination | None = None
    pause_requested: bool = False
    paused: bool = False
    #: When the pause was asked for (UTC, ISO 8601).
    paused_at: str | None = None
    cancel_deadline: str | None = None
    cancel_reason: str = ""
    final_ran: bool = False
    finished: bool = False
    #: The step that ended well last, but for those that undo or clean up.
    last_step: str | None = None
    result_step: str | None = None
    error: ErrorInfo | None = None
    notices: Notices = field(default_factory=Notices)
    #: What it runs again, and the runs there that its own have taken.
    retry: RetryOf | None = None
    #: What it is a fork of.
    forked_from: str | None = None
    taken: tuple[str, ...] = ()
    #: How much of what was given from outside there it has copies of.
    given: int = 0
    #: Whether it is retried by itself; None where it was not asked: it has not failed, or has no
    #: policy.
    next_attempt: NextAttempt | None = None

    @property
    def source_id(self) -> str | None:
        """The execution that it runs again, or is a fork of."""
        return self.retry.execution_id if self.retry is not None else self.forked_from

    @property
    def attempt(self) -> int:
        """Which of the attempts that the policy of its playbook allows it is, from 1."""
        return self.retry.attempt if self.retry is not None else 1

    @property
    def errors_passed_over(self) -> int:
        """How many errors the execution went on after."""
        return sum(record.passed.count for record in self.steps.values())

    @property
    def cancelling(self) -> bool:
        return self.cancel_deadline is not None

    @property
    def is_halted(self) -> bool:
        """Whether nothing may begin. What is done at the end of an execution that was cancelled
        does."""
        return self.pause_requested or (self.cancelling and not self.closing)

    @property
    def ended(self) -> bool:
        return self.phase == "ended"


def result_of(state: State) -> Json:
    """The execution's result, as it is in the log: that of `final_step`, else of `end`, else of the
    step that ended well last."""
    record = state.steps.get(state.result_step or "")
    return record.result if record else None


def initial_state(execution_id: str) -> State:
    """The state before the first event."""
    return State(execution_id)
