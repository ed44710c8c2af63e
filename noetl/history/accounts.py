"""What is said of an execution and of its steps: frozen data, for the text and the JSON of
`explain`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from noetl.facts import json
from noetl.facts.json import Json, JsonMap

#: Where a step is. `done`, `failed`, `cancelled`, `skipped`: how its last run, or the token that
#: came last, ended. `waiting`: it goes on when something happens; `not_run`: no token is before it.
Standing: TypeAlias = Literal["done", "failed", "cancelled", "skipped", "running", "waiting", "not_run"]

#: What became of an arc. `taken`: it put a token down. `missed`: its guard did not hold.
#: `passed_over`: another arc was taken in its place. `success_only`: the step failed, and the arc
#: is not about failures. `broken`: a guard or an assignment could not be evaluated. `ended`: the
#: source ended without asking its arcs. `open`: the source has not ended. `not_run`: nor begun.
Fate: TypeAlias = Literal[
    "taken", "missed", "passed_over", "success_only", "broken", "ended", "open", "not_run"
]

#: What a step, or the execution, waits for.
WaitKind: TypeAlias = Literal[
    "admission",
    "milestone",
    "join",
    "delay",
    "wait",
    "lock",
    "slot",
    "pause",
    "ending",
    "child",
    "worker",
    "loop",
    "others",
    "halt",
    "scheduler",
]


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression that was evaluated: what it read, by dotted name, and what came of it. `when`
    None: there was none, or it is the `else`."""

    when: str | None
    names: JsonMap
    said: str

    @property
    def text(self) -> str:
        """`{{ n > 5 }} with n = 3`."""
        read = ", ".join(f"{name} = {_text(value)}" for name, value in self.names.items())
        return (self.when or "otherwise") + (f" with {read}" if read else "")


def _text(value: Json) -> str:
    """A value as JSON; one that was cut has been written so already."""
    is_cut = isinstance(value, str) and value[:1] in ("{", "[", "<")
    return str(value) if is_cut else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Way:
    """An arc that leads to a step, as it was asked last. `source` None: the entry.

    `asked` and `taken` count the ends of the source at which it was asked, and led on. `why` is
    said of the arc, or of its source; `run` and `version` are those of the last time.
    """

    arc: str
    source: str | None
    step: str
    fate: Fate
    why: str
    guard: Asked | None = None
    asked: int = 0
    taken: int = 0
    run: str | None = None
    version: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """A token that came to a step and never fired it; `rules` are those of the admission that was
    denied, the one that matched last."""

    token: str
    why: str
    version: int
    rules: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitAccount:
    """What a step, or a run of it, or with neither the execution waits for. `until` is UTC, ISO
    8601; `execution` a playbook that was called; `arcs` those that a join waits for; `rules` as in
    `Dropped`."""

    kind: WaitKind
    text: str
    run: str | None = None
    until: str | None = None
    execution: str | None = None
    arcs: tuple[str, ...] = ()
    rules: tuple[Asked, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyAccount:
    """A rule of a task's policy that matched. `do` is what it decided, `to` the task that it jumps
    to, `delay` seconds until then."""

    task: str
    iteration: int | None
    rule: int | None
    guard: Asked
    do: str
    to: str | None
    delay: float
    version: int


@dataclass(frozen=True, slots=True)
class TaskAccount:
    """A task of a run: how its last attempt ended, how many there were, and the error of the last
    one that failed. `went_on`: it failed, and its pipeline went on all the same."""

    task: str
    status: Literal["running", "done", "failed"]
    attempts: int
    went_on: bool = False
    duration_ms: float | None = None
    error: JsonMap | None = None
    #: Whose result stood in for its call, where it came from the cache: `{execution_id, run_id,
    #: iteration, task, at}`.
    reused: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class FailedIteration:
    iteration: int
    item: str | None
    error: JsonMap


@dataclass(frozen=True, slots=True)
class CancelledIterations:
    """How many iterations were cancelled for one reason."""

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class LoopAccount:
    """How far a loop came; `failures` are the first ones. `open` iterations have neither ended nor
    wait; `waiting` ones wait for an instant or a called playbook. `cancelled_for` says why those
    were cancelled that were."""

    total: int
    completed: int
    failed: int
    waiting: int
    open: int
    failures: tuple[FailedIteration, ...] = ()
    cancelled: int = 0
    cancelled_for: tuple[CancelledIterations, ...] = ()


@dataclass(frozen=True, slots=True)
class RunAccount:
    """One firing of a step: `because` are the arcs whose tokens it took, `next` what became of its
    own. `duration_ms` counts from when it was scheduled until it ended. Of `policies` the first
    ones are shown, and `policies_more` says how many follow; of `children`, the executions that it
    called, the last ones, and `child_count` are all of them. `admission` are the rules that were
    asked, the one that matched last. `reuse` says what it takes of the execution that is run again,
    in one sentence; empty where none is. `undone` says who undid what it had called. `handled` says
    what it ran for where no token fired it: `undid start#1`."""

    run: str
    version: int
    scheduled_at: datetime
    status: Standing
    because: tuple[Way, ...]
    admission: tuple[Asked, ...] = ()
    ended_at: datetime | None = None
    duration_ms: float | None = None
    worker: str | None = None
    reuse: str = ""
    handled: str = ""
    reason: str = ""
    error: JsonMap | None = None
    tasks: tuple[TaskAccount, ...] = ()
    policies: tuple[PolicyAccount, ...] = ()
    policies_more: int = 0
    loop: LoopAccount | None = None
    children: tuple[str, ...] = ()
    child_count: int = 0
    undone: tuple[str, ...] = ()
    next: tuple[Way, ...] = ()


@dataclass(frozen=True, slots=True)
class StepAccount:
    """Why a step ran, did not run, or waits: `why` in one sentence, the rest as evidence.

    Of its runs the last ones are shown; `run_count` are all of them. `ways` are the arcs that lead
    to it; `stopped_at` those further up at which the way to a step ended that did not run.
    """

    step: str
    standing: Standing
    why: str
    run_count: int = 0
    runs: tuple[RunAccount, ...] = ()
    ways: tuple[Way, ...] = ()
    stopped_at: tuple[Way, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    waits: tuple[WaitAccount, ...] = ()
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """An execution as of `version`, step by step, in the order of the document."""

    execution_id: str
    path: str
    playbook_version: int
    version: int
    status: str
    file: str
    error: JsonMap | None
    steps: tuple[StepAccount, ...]
    #: What its policy made of its failure, in a sentence; None where it was not asked.
    retry: str | None = None
    #: What it waits for as a whole, or a region of it, and what is left to be done at its end.
    waits: tuple[WaitAccount, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenCommand:
    """What the table of commands knows besides the log: whether the command was sent, which worker
    holds it until when, and whether none serves its queue."""

    command_id: str
    sent: bool
    owner: str | None = None
    lease_until: datetime | None = None
    unserved: bool = False
