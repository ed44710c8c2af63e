"""What is true of one firing of a step, and of the iterations of its loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Literal

from noetl.facts.json import Json, JsonMap
from noetl.facts.lineage import Reuse
from noetl.facts.loops import IterationSuspended
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import Handling
from noetl.facts.steps import StepSuspended
from noetl.facts.waits import find_lock

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


RunStatus = Literal["running", "waiting", "done", "failed", "skipped", "cancelled"]


@dataclass(frozen=True, slots=True)
class CursorState:
    """How far the claims of a loop over a cursor have come.

    `drained`: the last one found no row, and no iteration has ended since. `wanted` is how many
    more lanes would have something to do. `error` is the failure of a claim. `lost` is the last
    generation of which a lane was given up: nobody has heard of its last claim.
    """

    drained: bool = False
    wanted: int = 0
    error: ErrorInfo | None = None
    lost: int = 0


@dataclass(frozen=True)
class LoopState:
    """How far a loop has come. `ended`, `failed`, `cancelled` and `started` (as far as that was
    recorded) are bit sets over the indices. `ended_at` are the versions of their ends, where they
    may have to be undone.

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
    ended_at: SparseValues
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
    #: The locks that iterations wait for.
    locked: Mapping[int, LockedCall] = field(default_factory=dict)

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
        return not self.may_have_rows and self.ended.bit_count() == self.count

    @property
    def may_have_rows(self) -> bool:
        """Whether its cursor, if it has one, may yield more."""
        cursor = self.cursor
        return cursor is not None and (not cursor.drained or cursor.lost == self.generation)


@dataclass(frozen=True, slots=True)
class LastTask:
    """What the task that ended last said besides its result: `meta`, and its tool's own section
    (`http`, `pg`). `fatal` where its failure is that of the run."""

    fatal: bool
    meta: JsonMap
    extras: JsonMap


@dataclass(frozen=True, slots=True)
class LockedCall:
    """A call of `task` that waits for an equal one to end, which has the lock of that `key`."""

    task: str
    key: str

    @staticmethod
    def of(fact: StepSuspended | IterationSuspended) -> LockedCall | None:
        """None where the suspension is for something else."""
        key = find_lock(fact.reason)
        return None if key is None else LockedCall(fact.task, key)


@dataclass(frozen=True)
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
    #: The lock that it waits for, as far as its worker has said.
    locked: LockedCall | None = None
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
    #: The queue of its commands, where the step's is a template.
    queue: str = ""
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
