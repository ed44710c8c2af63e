"""What is true of one execution at one version: frozen, comparable, JSON-able."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

from noetl.engine.notices import Notices, PassedErrors
from noetl.facts.events import (
    ApprovalAnswered,
    CallbackReceived,
    ChildCall,
    Parent,
    SignalReceived,
    Token,
    Wait,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.limits import AskedSlot
from noetl.facts.lineage import RetryOf, Reuse
from noetl.facts.outcome import ErrorInfo
from noetl.facts.retries import NextAttempt
from noetl.facts.scopes import EndStatus, HandlerPurpose, Handling
from noetl.facts.timers import TimerPurpose
from noetl.facts.waits import Awaited

_WIDTH = 64
_NULLS: tuple[Json, ...] = (None,) * _WIDTH


@dataclass(frozen=True, slots=True)
class SparseValues:
    """`length` JSON values, null at first, in chunks; a chunk of nulls is left out.
    `put` shares all but one chunk with the vector it came from, so that a loop of 10,000 iterations
    costs 10,000 small copies and not 10,000 large ones."""

    length: int
    chunks: Mapping[int, tuple[Json, ...]] = field(default_factory=dict)

    def put(self, index: int, value: Json) -> SparseValues:
        """A copy in which `index` (from 0) holds `value`. Raises IndexError outside of the
        vector."""
        outer, inner = divmod(range(self.length)[index], _WIDTH)
        chunk = list(self.chunks.get(outer, _NULLS))
        chunk[inner] = value
        return SparseValues(self.length, {**self.chunks, outer: tuple(chunk)})

    def __getitem__(self, index: int) -> Json:
        outer, inner = divmod(range(self.length)[index], _WIDTH)
        return self.chunks.get(outer, _NULLS)[inner]

    def __iter__(self) -> Iterator[Json]:
        chunks = (self.chunks.get(outer, _NULLS) for outer in range(self.length // _WIDTH + 1))
        return islice(chain.from_iterable(chunks), self.length)

    def __len__(self) -> int:
        return self.length


#: Bump when the shape of `State` changes: snapshots of another schema are not used.
STATE_SCHEMA = 12

Phase = Literal["pending", "running", "ended"]
RunStatus = Literal["running", "waiting", "done", "failed", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A token in its place. `denied_at` is the version of ctx that admission was denied at.
    `early`: it came before the milestone of its step."""

    token: Token
    denied_at: int | None = None
    early: bool = False


@dataclass(frozen=True, slots=True)
class CursorState:
    """How far the claims of a loop over a cursor have come.

    `drained`: the last one found no row, and no iteration has ended since. `wanted` is how many
    more lanes would have something to do. `error` is the failure of a claim.
    """

    drained: bool = False
    wanted: int = 0
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class LoopState:
    """How far a loop has come. `ended`, `failed`, `cancelled` and `started` (as far as that was
    recorded) are bit sets over the indices.

    `partial` holds the task results of iterations that are still open, by index and task;
    `suspended` the due instants of those that left their worker; `calling` those that wait for a
    playbook. With a `cursor` there are as many iterations as rows have been claimed so far: `count`
    grows.
    """

    count: int
    items: Json
    mode: Literal["sequential", "parallel"]
    max_in_flight: int
    results: SparseValues
    writes: SparseValues
    ended: int = 0
    failed: int = 0
    cancelled: int = 0
    started: int = 0
    errors: Mapping[int, ErrorInfo] = field(default_factory=dict)
    partial: Mapping[int, JsonMap] = field(default_factory=dict)
    suspended: Mapping[int, str | None] = field(default_factory=dict)
    calling: tuple[int, ...] = ()
    generation: int = 1
    closed: bool = False
    #: Why iterations are to end that have not yet, by index.
    unwanted: Mapping[int, str] = field(default_factory=dict)
    cursor: CursorState | None = None
    #: The iterations that were asked what they bring (a bit set), and what they brought: lists of
    #: items, or references, each with the index of its first.
    asked: int = 0
    added: tuple[tuple[int, Json], ...] = ()
    #: It is not over when all iterations have ended.
    stays_open: bool = False

    @property
    def completed_count(self) -> int:
        return (self.ended & ~(self.failed | self.cancelled)).bit_count()

    @property
    def failed_count(self) -> int:
        return self.failed.bit_count()

    @property
    def only_open(self) -> bool:
        """Whether all iterations have ended, and it waits for what closes it."""
        return self.stays_open and not self.closed and self.complete

    @property
    def complete(self) -> bool:
        drained = self.cursor is None or self.cursor.drained
        return drained and self.ended.bit_count() == self.count


@dataclass(frozen=True, slots=True)
class LastTask:
    """What the task that ended last said besides its result: `meta`, and its tool's own section
    (`http`, `pg`). `fatal` where its failure is that of the run."""

    fatal: bool
    meta: JsonMap
    extras: JsonMap


@dataclass(frozen=True, slots=True)
class Run:
    """One firing of a step that has not been routed yet, or whose iterations run on.

    `results` are those of its tasks, by name; `issues` counts the commands of each part; `commands`
    are the ids of the newest ones, by part.
    """

    id: str
    step: str
    args: JsonMap
    version: int
    status: RunStatus = "running"
    final: bool = False
    result: Json = None
    results: JsonMap = field(default_factory=dict)
    variables: JsonMap = field(default_factory=dict)
    error: ErrorInfo | None = None
    last_task: LastTask | None = None
    loop: LoopState | None = None
    issues: Mapping[str, int] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)
    #: Set while a suspended pipeline has no command: when it is due (UTC, ISO 8601; empty: at
    #: once).
    resume_at: str | None = None
    #: What it takes of the execution that is run again, and the version of the newest event there
    #: that was copied.
    reuse: Reuse | None = None
    copied: int = 0
    #: Whether it failed because its deadline had come.
    timed_out: bool = False
    #: Why it is to end, where somebody asked for that.
    unwanted: str | None = None
    #: What it is for, where no token fired it: then it counts as `final`, too.
    handling: Handling | None = None
    #: Whether it is undone when its scope fails: if it is `done`, or if it has `started`.
    undo: Literal["", "done", "started"] = ""
    #: Whether something is to be run behind its end, and whether that has been.
    cleanup: Literal["", "wanted", "done"] = ""
    #: The regions that it is a part of, the inner ones first.
    regions: tuple[str, ...] = ()
    #: It was taken out of the execution, and is only there until it is cleaned up.
    withdrawn: bool = False
    #: Whether its step is done although iterations of its loop run on: it is to be routed, or has
    #: been.
    released: Literal["no", "due", "routed"] = "no"

    @property
    def ended(self) -> bool:
        return self.status not in ("running", "waiting")

    @property
    def undoes(self) -> bool:
        """Whether it undoes another one: where that fails, others still have to be undone."""
        return self.handling is not None and self.handling.purpose == "compensate"

    @property
    def puts_tokens(self) -> bool:
        """Whether it is still to be routed."""
        return self.released != "routed"

    @property
    def is_done(self) -> bool:
        """Whether its step is done, and it is to be routed."""
        return self.released == "due" or (self.status == "done" and self.puts_tokens)

    @property
    def takes(self) -> bool:
        """Whether something of an earlier execution stands in it."""
        return self.reuse is not None and self.reuse.how != "none"


@dataclass(frozen=True, slots=True)
class Child:
    """A task that waits for a playbook, at most until `due_at`: `id` is that of the execution, once
    it was made. `number` tells the calls of one pipeline apart. `waits`: only somebody outside
    makes the child go on, as it was at its version `heard`."""

    run_id: str
    step: str
    iteration: int | None
    task: str
    call: ChildCall
    number: int
    due_at: str | None = None
    id: str | None = None
    waits: bool = False
    heard: int = 0


@dataclass(frozen=True, slots=True)
class Timer:
    """An instant that a run, or an iteration, has. `due_at` None: it is scheduled anew, `seconds`
    from the next turn on. `awaited` names what of a wait it is."""

    id: str
    purpose: TimerPurpose
    run_id: str
    iteration: int | None
    seconds: float | None
    due_at: str | None
    awaited: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that nothing has taken yet, and the version of its event."""

    version: int
    fact: SignalReceived
    principal: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody answered to an approval of a wait that has not ended, and the version of its
    event."""

    version: int
    step: str
    iteration: int | None
    fact: ApprovalAnswered
    principal: str


@dataclass(frozen=True, slots=True)
class Undoable:
    """A run that has ended, at `version`, and has done something that may have to be undone. Of a
    loop it is what the iterations of the bits in `left` have done, over `items` and what was
    `added` to them."""

    run_id: str
    step: str
    version: int
    status: RunStatus
    args: JsonMap
    result: Json = None
    error: ErrorInfo | None = None
    items: Json = None
    added: tuple[tuple[int, Json], ...] = ()
    results: SparseValues | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class RegionState:
    """The last time that a region was entered: at `version`, for the `number`th time. `unwanted`:
    why it is to be cancelled; `cancelled`: it is, with an `error` where that is a failure. `ran`
    are its handlers that have been run."""

    number: int
    version: int
    is_open: bool = True
    unwanted: str | None = None
    cancelled: str | None = None
    error: ErrorInfo | None = None
    ran: tuple[HandlerPurpose, ...] = ()
    #: How often each step had been done when it was entered.
    done_before: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_leaving(self) -> bool:
        """Whether it is, or is about to be, cancelled."""
        return self.unwanted is not None or self.cancelled is not None


@dataclass(frozen=True, slots=True)
class PendingWait:
    """A task that waits, since `version`, at most `until` then (UTC, ISO 8601). `number` tells the
    waits of one pipeline apart; `matched` are those that have come, of a wait for all; `reminded`
    says how often approvals were brought up again, by their names."""

    run_id: str
    step: str
    iteration: int | None
    task: str
    wait: Wait
    number: int
    version: int
    until: str | None = None
    matched: Mapping[str, JsonMap] = field(default_factory=dict)
    reminded: Mapping[str, int] = field(default_factory=dict)

    @property
    def left(self) -> list[Awaited]:
        """What has not come."""
        return [one for one in self.wait.awaited if one.name not in self.matched]

    @property
    def needs_somebody(self) -> bool:
        """Whether something from outside may end it: a signal, or a change of ctx."""
        return any(not one.is_time for one in self.left)


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A run (`part` `-`), a lane of one, or (with no run) the execution: what it asked for at the
    version `since`, and whether it has that."""

    run_id: str
    part: str
    slots: tuple[AskedSlot, ...]
    priority: int
    since: int
    generation: int = 0
    granted: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """The last round in which a `first` or `count` join fired.

    `outstanding` are the tokens and runs that lived when it fired, followed through their moves: as
    long as one of them can reach the join, the round is not over.
    """

    number: int
    arrived: frozenset[str]
    outstanding: frozenset[str]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Termination:
    """A step that has ended the whole execution: with which status, and with which error where that
    is `failed`."""

    step: str
    status: EndStatus
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
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
    undoable: tuple[Undoable, ...] = ()
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
    #: The step that ended well last.
    last_step: str | None = None
    result_step: str | None = None
    error: ErrorInfo | None = None
    notices: Notices = field(default_factory=Notices)
    #: What it runs again, and the runs there that its own have taken.
    retry: RetryOf | None = None
    #: What it is a fork of.
    forked_from: str | None = None
    taken: tuple[str, ...] = ()
    #: The version there of what was last given from outside that it has a copy of.
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
