"""What goes into a pipeline and what comes out of it.

A pipeline is driven by its owner: `interpreter.run` is a generator whose every item must have been
made durable before the next is asked for. It never sleeps and never commits by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from noetl.expressions import BeginQuoting, NoQuoting
from noetl.facts.children import ChildCall
from noetl.facts.events import Draft, TaskKeyKept, Wait
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import Log
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Load
from noetl.net.model import ResultPolicy, Task


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a call: what events, keys and messages name."""

    execution_id: str
    run_id: str
    step: str
    iteration: int | None = None
    #: Digest of the net: what runs the same code may share the processes that run it.
    net: str = ""
    #: Which claim of a loop's cursor it is: the lane's name, and a number. Empty elsewhere.
    claim: str = ""
    #: The id of the event `command.issued` that the call follows; empty where there is none.
    event: str = ""

    @property
    def owner(self) -> str:
        """Whose a process for user code is: the net's, or the execution's where no net is known."""
        return self.net or self.execution_id


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of one task, rendered: no template is left in it, and no reference to a result
    but where its kind takes them (`KindInfo.by_reference`). References to secrets are: only the
    tools open them.

    `context` yields the whole template context, lazily, for code that names `context`. `deadline_s`
    is `spec.timeout` in seconds; for a task that was asked to wait, what is left of it.
    """

    kind: str
    config: Mapping[str, Json]
    args: Mapping[str, Json]
    spec: JsonMap
    where: Where
    task: str
    attempt: int
    idempotency_key: str
    deadline_s: float | None = None
    context: Callable[[], Mapping[str, Json]] | None = None
    #: What the tool handed over when it last said `Later`; None at its first call.
    checkpoint: Json = None
    #: Versions of the secrets that earlier attempts used, by the secret's name: this one uses the
    #: same.
    secrets: Mapping[str, str] = field(default_factory=dict)
    #: `spec.result`: a tool that writes its result to the store by itself keeps it like that.
    result: ResultPolicy = field(default_factory=ResultPolicy)
    #: Nothing waits for it any more: the tool ends what its earlier calls began elsewhere
    #: (`KindInfo.abandons`), and fails as `cancelled` once nothing is left of that. Another error
    #: says what is.
    abandoned: bool = False
    #: Takes what the call's code prints; None: it is not kept.
    log: Log | None = None


@dataclass(frozen=True, slots=True)
class CachedCall:
    """A call as the cache knows it: `key` is the digest of what it is, but for the place of its
    playbook, and for the text of `file`, where its code stands in one. What it comes to counts for
    `ttl` seconds."""

    key: str
    where: Where
    task: str
    kind: str
    ttl: float
    scope: Literal["playbook", "global"] = "playbook"
    lock: bool = False
    file: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """The tool wants to be called again in `seconds`, with `checkpoint`: a job that runs elsewhere,
    a poll. `reason` is what is recorded of why."""

    seconds: float
    checkpoint: Json = None
    reason: str = "later"


#: What a tool may yield in the place of an outcome: its task waits, and nothing waits with it.
Suspension: TypeAlias = Later | ChildCall | Wait


class ToolPort(Protocol):
    """Runs a call. Never raises for what the call did: failures are outcomes.

    In errors, `line` is a line of the call's code (from 1); the interpreter maps it to the file.
    """

    def run(self, call: Call) -> Outcome | Suspension: ...

    def interrupt(self, call: Call) -> None:
        """Ends `call` (the very object) if it runs here: it returns soon, failed as `cancelled`."""


class CachePort(Protocol):
    """What calls have come to, for others that are equal."""

    def find(self, call: CachedCall, /) -> Outcome | Later | None:
        """What stands in for the call, with `meta.reused` saying whose it was; None: it is to be
        made. `Later`: an equal one is being made, and is waited for."""

    def settle(self, call: CachedCall, outcome: Outcome | None, /) -> None:
        """The call was made and has come to that, or (None) to nothing that another may have. It
        counts once it is recorded."""


@dataclass(frozen=True, slots=True)
class Names:
    """What templates of a pipeline can see, outermost last.

    `builtins` (`execution_id`, `job`, `env`, `keychain`, `loop_index`...) win over the pipeline's
    own names, those over `steps`, `args`, `ctx` and `workload`. `iter` is the iteration's scope:
    the iterator, `index`, `parent`; None outside of loops.
    """

    workload: JsonMap = field(default_factory=dict)
    ctx: JsonMap = field(default_factory=dict)
    args: JsonMap = field(default_factory=dict)
    steps: JsonMap = field(default_factory=dict)
    builtins: JsonMap = field(default_factory=dict)
    iter: JsonMap | None = None
    #: Steps without a result that templates read, and why they have none.
    absent: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline and its place. `parallel_loop`: ctx writes are kept for the loop's reducers."""

    tasks: tuple[Task, ...]
    where: Where
    file: str = ""
    parallel_loop: bool = False
    #: The name of the item in the scope of the iteration that it is a part of; empty outside of a
    #: loop.
    iterator: str = ""
    reducers: frozenset[str] = frozenset()

    @property
    def length(self) -> int:
        """How many tasks the pipeline proper has; behind them stand those that run `after` it."""
        return sum(1 for task in self.tasks if task.after is None)

    def owner(self, pc: int) -> int | None:
        """The task after each of whose calls the task at `pc` runs; None where it runs for
        itself."""
        name = self.tasks[pc].each_of
        return next((at for at in range(pc, -1, -1) if self.tasks[at].name == name), None) if name else None

    def behind(self, pc: int) -> int:
        """Where the pipeline goes on after the task at `pc`, and after those that run after each of
        its calls."""
        name = self.tasks[pc].name
        pc += 1
        while pc < len(self.tasks) and self.tasks[pc].each_of == name:
            pc += 1
        return pc


@dataclass(frozen=True, slots=True)
class Items:
    """How far the loop of the task that is due has come. `items` is the list of its `count` items,
    or the reference that stands for it; `results` are those of the items that have ended, null for
    one that failed, and `errors` what went wrong, by index. `iter` is what `set` assigned to the
    scope of the item that is due."""

    count: int
    items: Json
    results: tuple[Json, ...] = ()
    errors: Mapping[int, ErrorInfo] = field(default_factory=dict)
    iter: JsonMap = field(default_factory=dict)

    @property
    def index(self) -> int:
        """The item that is due, from 0."""
        return len(self.results)

    @property
    def stats(self) -> dict[str, int]:
        failed = len(self.errors)
        return {"total": self.count, "completed": self.index - failed, "failed": failed}


@dataclass(frozen=True, slots=True)
class Calls:
    """How far a task that repeats has come: `count` of its calls ended well, the last of them with
    `page`.

    `request` is that of the call that is due, and `delay` what it waits for, in seconds; with
    `over` there is none, and the whole is due. `truncated`: the last answer asks for another call,
    or a call failed. `parts` were collected."""

    count: int = 0
    request: JsonMap = field(default_factory=dict)
    parts: tuple[Json, ...] = ()
    page: Json = None
    over: bool = False
    truncated: bool = False
    delay: float = 0.0
    #: The request of an earlier call: of the one behind the first, second, fourth, eighth… of them.
    earlier: JsonMap = field(default_factory=dict)
    #: What `PipelineProgress` had when the first call ended: its `last`, and its `ends`.
    before: Outcome | None = None
    ends: int = 0


@dataclass(frozen=True, slots=True)
class PipelineProgress:
    """How far a pipeline has come: a fold of the events that it recorded.

    `pc` is the index of the task to run next, `attempt` its next attempt (from 1), `repeats` how
    often it was asked again after a success, `failures` how many of its attempts failed since,
    `visits` how often each task was entered and left, or passed over. `last` is the outcome of the
    task that ended last; attempts that are followed by another do not count. `results` holds the
    last result of each task (None after an error that continued). `local`, `iter`, `step` are what
    `set` assigned and `ctx` its own ctx patches: dotted name → value, no name the beginning of
    another (see `pipeline.patches`); `writes` the ctx writes that wait for reducers. `items` is how
    far the task that is due has come with its own loop, once that has begun; `calls` how far a task
    has that repeats, once its first call has ended. `ends` are the ends of tasks that count against
    jumps without an end. `secrets` are the versions of secrets that attempts of the task that is
    due have used. `wait_s` is owed before the next attempt. `checkpoint` is the newest of the task
    that is due, and `checkpoints` their number; `since` when its attempt was first called (UTC, ISO
    8601), where it has waited and has a timeout; `answer` how the playbook that it called has
    ended, or what it waited for has. Where tasks stand behind the end of the pipeline proper,
    `proper` is what that has come to, and `entered` says that the guard of the task that is due has
    held.
    """

    pc: int = 0
    attempt: int = 1
    visits: Mapping[str, int] = field(default_factory=dict)
    results: Mapping[str, Json] = field(default_factory=dict)
    last: Outcome | None = None
    local: JsonMap = field(default_factory=dict)
    iter: JsonMap = field(default_factory=dict)
    step: JsonMap = field(default_factory=dict)
    ctx: JsonMap = field(default_factory=dict)
    writes: tuple[tuple[str, Json], ...] = ()
    wait_s: float = 0.0
    repeats: int = 0
    failures: int = 0
    checkpoint: Json = None
    checkpoints: int = 0
    since: str | None = None
    answer: Outcome | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    proper: Ending | None = None
    entered: bool = False
    items: Items | None = None
    calls: Calls | None = None
    ends: int = 0
    #: Whose key the next call has, until it is known how that ended.
    kept_key: TaskKeyKept | None = None
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The pipeline went well; its result is that of `task` (None: nothing ran, the result is
    null)."""

    task: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    error: ErrorInfo


Ending: TypeAlias = Completed | Failed


@dataclass(frozen=True, slots=True)
class Recorded:
    """Facts of one task's end or attempt: to be committed before the pipeline goes on."""

    drafts: tuple[Draft, ...]
    progress: PipelineProgress


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait this long in the worker (at most one second), then go on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Suspend:
    """Leave the worker: `drafts` are committed, and the pipeline goes on from the log: in
    `seconds`, or when the playbook of `child` has ended, or what it waits for (`wait`) has come (it
    has so many seconds for that, where there are any)."""

    drafts: tuple[Draft, ...]
    progress: PipelineProgress
    task: str
    reason: str
    seconds: float | None = None
    child: ChildCall | None = None
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The last item: `drafts` belong into one commit with the end of the step or iteration."""

    drafts: tuple[Draft, ...]
    progress: PipelineProgress
    ending: Ending


Move: TypeAlias = Recorded | Sleep | Suspend | Finished


@dataclass(frozen=True, slots=True)
class PipelinePorts:
    """What the interpreter may reach: the tool, references, and numbers in [0, 1) for jitter."""

    tool: ToolPort
    load: Load
    random: Callable[[], float]
    #: Everything a template could see, for `context`; None where names were not narrowed.
    context: Callable[[], Mapping[str, Any]] | None = None
    #: The instant, for what is recorded (`set`); ISO 8601. None: there is no clock.
    now: Callable[[], str] | None = None
    #: Whether the log keeps a value by reference: of such a one no part can be assigned, only the
    #: whole.
    is_large: Callable[[Json], bool] = lambda _: False
    #: An outcome as it is recorded: with the reference in the place of a large result.
    kept: Callable[[Outcome, Task], Outcome] = lambda outcome, _: outcome
    #: See `Call.log`.
    log: Log | None = None
    #: None: nothing is looked up, and nothing is kept.
    cache: CachePort | None = None
    #: How values are written into command lines (`Task.quoted`).
    quoting: BeginQuoting = NoQuoting
