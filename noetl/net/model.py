"""Place, Transition, Arc, Net: what the compiler yields and the engine interprets. Tasks and kinds
of tools stand in other modules, and are imported from here as well.

A step is a transition. Every arc owns the place in which its tokens wait before the arc's step; the
entry has one more, `ENTRY`. Strings inside `Template` values may hold expressions;
nothing here is evaluated. The classes of a net are frozen and survive JSON (`noetl.net.codec`)
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Final, Literal

from pydantic import ConfigDict

from noetl.facts.business_key import OnConflict
from noetl.facts.json import JsonMap
from noetl.facts.scopes import EndStatus
from noetl.net.inputs import Input
from noetl.net.kinds import Effects, KindInfo, Spelling
from noetl.net.limits import Concurrency, RunLimits, StartRate
from noetl.net.scopes import Compensation, Region
from noetl.net.tasks import (
    EACH_INPUTS,
    Assignment,
    Backoff,
    Caching,
    CollectPolicy,
    CountedTries,
    Demand,
    Directive,
    Failure,
    Loop,
    NextRequest,
    OlderRepeat,
    OnLarge,
    PageKind,
    Pages,
    Reducer,
    Repeat,
    ResultPolicy,
    Rule,
    Scope,
    Selected,
    Task,
    Template,
    ValueType,
)

__all__ = [
    "EACH_INPUTS",
    "ENTRY",
    "FINAL_INPUTS",
    "MOST_TIMES",
    "Admission",
    "AdmitRule",
    "Arc",
    "Assignment",
    "Backoff",
    "Caching",
    "CollectPolicy",
    "Compensation",
    "Concurrency",
    "CountedTries",
    "Demand",
    "Directive",
    "Effects",
    "EndStatus",
    "Failure",
    "Input",
    "Join",
    "KindInfo",
    "Loop",
    "Milestone",
    "Net",
    "NextRequest",
    "OlderRepeat",
    "OnLarge",
    "PageKind",
    "Pages",
    "Place",
    "Provided",
    "Reducer",
    "Region",
    "Repeat",
    "ResultPolicy",
    "RetryPolicy",
    "Rule",
    "RunLimits",
    "Scope",
    "Selected",
    "Spelling",
    "StartRate",
    "Task",
    "Template",
    "Transition",
    "ValueType",
    "find_assigned_names",
]

#: Tokens that one arc may put down at once.
MOST_TIMES: Final = 1_000
#: The arc id of the token that enters the net.
ENTRY = "entry"
#: The inputs of the final step.
FINAL_INPUTS: Final = ("status", "steps", "errors")
#: Those of a step that undoes another one.
UNDO_INPUTS: Final = ("of", "run", "iteration", "item", "given", "result", "status", "error")
#: Those of a step that is run behind every end of another one.
CLEANUP_INPUTS: Final = ("of", "run", "given", "status", "result", "error")
#: Those of a step that is run when a region has ended, or the execution was cancelled.
END_INPUTS: Final = ("status", "reason", "error")


@dataclass(frozen=True, slots=True)
class AdmitRule:
    """`when` None means `else`."""

    when: Template
    allow: bool


@dataclass(frozen=True, slots=True)
class Admission:
    """First match wins; no match admits. Denied with `pass`, a token goes on behind the step, which
    is skipped."""

    rules: tuple[AdmitRule, ...]
    on_deny: Literal["pending", "skip", "pass", "fail"] = "pending"


@dataclass(frozen=True, slots=True)
class Join:
    """How many tokens enable the step. `count` belongs to mode `count`, and to `tokens`: so many,
    whichever arcs they came over."""

    mode: Literal["auto", "all", "any", "first", "count", "tokens"] = "auto"
    count: int = 0
    cancel_rest: bool = False


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc from `source` to `step`, and the place (of the same id) in which its tokens wait.

    `when` None is an unguarded arc: for success only. `boundary` says that the guard mentions the
    boundary (`event`, `outcome`, `output`, `error`), so that it is asked after failures too.
    `also`: it belongs to the choice of the arc before it. Without a `step` an arc only assigns: it
    has no place. `times` is how many tokens it puts down.
    """

    id: str
    source: str
    step: str
    when: Template = None
    boundary: bool = False
    args: Mapping[str, Template] = field(default_factory=dict)
    set: tuple[Assignment, ...] = ()
    line: int = 0
    also: bool = False
    times: Template = 1


@dataclass(frozen=True, slots=True)
class Milestone:
    """When a step may begin: once a run of `after` is done, until one of `before` begins. Empty: no
    such bound."""

    after: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where tokens wait before a step: one for each arc, and the entry's."""

    id: str
    step: str


@dataclass(frozen=True, slots=True)
class Transition:
    """A step. No tasks: it only routes. `result` of such a step is its args.

    `router`: the first choice that fires routes and no further arc is asked (`exclusive`), every
    arc that holds routes (`inclusive`), or every arc that holds assigns and the first choice that
    fires routes (`first`).
    """

    name: str
    tasks: tuple[Task, ...] = ()
    arcs: tuple[Arc, ...] = ()
    router: Literal["exclusive", "inclusive", "first"] = "exclusive"
    #: A router whose arcs all miss fails its branch. None: as the net says.
    no_next_is_error: bool | None = None
    loop: Loop | None = None
    admit: Admission | None = None
    join: Join = Join()
    #: Where ctx has the scope of the iteration, of several steps, that this one is a part of;
    #: empty: of none.
    iteration: str = ""
    args: Mapping[str, Template] = field(default_factory=dict)
    set: tuple[Assignment, ...] = ()
    failure: Failure = field(default_factory=Failure)
    #: How long it may take from when it is scheduled. None: as long as it takes.
    deadline: Template = None
    #: What undoes its runs.
    compensate: Compensation | None = None
    #: The handler behind every end of a run of it.
    cleanup: str | None = None
    #: Worker queue of the pipeline: `spec.queue`, else that of its first task that is not a noop.
    queue: str = "default"
    limits: RunLimits = field(default_factory=RunLimits)
    description: str = ""
    line: int = 0
    #: How the whole execution ends once a run of it has ended well; None: it goes on.
    terminate: EndStatus | None = None
    #: The steps whose runs end as done once a run of it has ended well.
    completes: tuple[str, ...] = ()
    milestone: Milestone | None = None

    @property
    def ways(self) -> tuple[Arc, ...]:
        """The arcs that lead to a step."""
        return tuple(arc for arc in self.arcs if arc.step)

    @property
    def choices(self) -> tuple[tuple[Arc, ...], ...]:
        """The same, those together that are taken together."""
        found: list[list[Arc]] = []
        for arc in self.arcs:
            if not arc.also or not found:
                found.append([])
            if arc.step:
                found[-1].append(arc)
        return tuple(tuple(choice) for choice in found if choice)

    @property
    def assigns(self) -> tuple[Assignment, ...]:
        """What it, its tasks with their policies, and its arcs assign."""
        tasks = (one for task in self.tasks for one in task.assigns)
        return (*self.set, *tasks, *(one for arc in self.arcs for one in arc.set))

    @property
    def calls(self) -> tuple[Task, ...]:
        """All that its workers call: its tasks, behind the cursor that its loop may have."""
        cursor = self.loop.cursor if self.loop else None
        return self.tasks if cursor is None else (cursor, *self.tasks)


def find_assigned_names(assignments: Iterable[Assignment], scope: Scope) -> set[str]:
    """The names in `scope` that are assigned to, whole or in part."""
    return {one.name.partition(".")[0] for one in assignments if one.scope == scope}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When an execution that has failed is retried by itself. `attempts` counts all executions, the
    first included; `delay` is in seconds; both may be templates. `when` None: always. Without
    `allow_effects` it is not where a call that may have had effects would be made again."""

    attempts: Template = 3
    backoff: Backoff = "none"
    delay: Template = 1.0
    when: Template = None
    allow_effects: bool = False


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """What the business key of an execution is made from when it starts, and what becomes of a
    start whose key an open execution has. `value` sees what values of the workload see, and
    those."""

    value: str
    on_conflict: OnConflict = "reject"


@dataclass(frozen=True, slots=True)
class Provided:
    """The names of what comes while an execution runs, so that it need not be there before."""

    credentials: tuple[str, ...] = ()
    playbooks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Net:
    """A compiled playbook. `transitions` keep the order of the document.

    `workload` values are templates over each other, the payload, `execution_id` and `env`; `ctx`
    holds those that variables of the execution begin with, which see the workload besides. `inputs`
    are the keys of the workload that are declared, in the order in which they are shown; with none
    any key may be given. `key` is what executions get a business key from, `labels` what they are
    told apart by. `file` is how the source is named in problems and errors.
    """

    #: For all classes of a net: what a stored one says and these do not know is an error, not
    #: dropped.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    path: str
    entry: str
    transitions: tuple[Transition, ...]
    workload: Mapping[str, Template] = field(default_factory=dict)
    workbook: Mapping[str, Task] = field(default_factory=dict)
    keychain: tuple[JsonMap, ...] = ()
    final_step: str | None = None
    failure: Failure = field(default_factory=Failure)
    no_next_is_error: bool = False
    description: str = ""
    file: str = ""
    ctx: Mapping[str, Template] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    retry: RetryPolicy | None = None
    key: KeyTemplate | None = None
    #: What is run when an execution was cancelled, before its final step.
    on_cancel: str | None = None
    #: Those inside of another one stand before it.
    regions: tuple[Region, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    provides: Provided = Provided()

    @cached_property
    def handlers(self) -> frozenset[str]:
        """The steps that no arc leads to, which are run when a scope ends; the final step is not
        counted as one."""
        undoing = (one.compensate.step for one in self.transitions if one.compensate is not None)
        behind = [one.cleanup for one in self.transitions] + [one.cleanup for one in self.regions]
        return frozenset([*undoing, *filter(None, [*behind, self.on_cancel])])

    def role_of(self, step: str) -> str:
        """What a handler is there for, in words; empty for other steps."""
        return self._roles.get(step, "")

    @cached_property
    def _roles(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for one in self.transitions:
            if one.compensate is not None:
                found.setdefault(one.compensate.step, f"undoes step {one.name!r}")
            if one.cleanup is not None:
                found.setdefault(one.cleanup, f"is the `finally` of step {one.name!r}")
        for region in self.regions:
            if region.cleanup is not None:
                found.setdefault(region.cleanup, f"is the `finally` of region {region.name!r}")
            if region.on_cancel is not None:
                told = f"is where the flow leaves region {region.name!r} that was cancelled"
                found.setdefault(region.on_cancel, told)
        if self.on_cancel is not None:
            found.setdefault(self.on_cancel, "is the `on_cancel` of the execution")
        return found

    def given_by_engine(self, step: str) -> frozenset[str]:
        """The names of the inputs that a step has because of what it is run for."""
        return self._given.get(step, frozenset())

    @cached_property
    def _given(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}

        def give(names: Iterable[str], steps: Iterable[str | None]) -> None:
            for step in filter(None, steps):
                found[step] = found.get(step, frozenset()).union(names)

        give(FINAL_INPUTS, [self.final_step])
        give(UNDO_INPUTS, [one.compensate.step for one in self.transitions if one.compensate is not None])
        give(CLEANUP_INPUTS, [one.cleanup for one in self.transitions])
        give(END_INPUTS, [name for one in self.regions for name in (one.cleanup, one.on_cancel)])
        give(END_INPUTS, [self.on_cancel])
        return found

    @cached_property
    def beginnings(self) -> tuple[str, ...]:
        """The steps that are run without an arc that leads to them."""
        behind = filter(None, (self.final_step, *sorted(self.handlers)))
        returned = (one.on_cancel for one in self.regions if one.on_cancel is not None)
        return tuple(dict.fromkeys((self.entry, *behind, *returned)))

    limits: RunLimits = field(default_factory=RunLimits)

    @cached_property
    def steps(self) -> Mapping[str, Transition]:
        """Transitions by name, in document order."""
        return {transition.name: transition for transition in self.transitions}

    @cached_property
    def arcs(self) -> Mapping[str, Arc]:
        """All arcs that lead to a step by id, in document order."""
        return {arc.id: arc for transition in self.transitions for arc in transition.ways}

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names in ctx that it begins with, and those that anything assigns."""
        return frozenset(self.ctx).union(
            *(find_assigned_names(one.assigns, "ctx") for one in self.transitions)
        )

    @cached_property
    def incoming(self) -> Mapping[str, tuple[str, ...]]:
        """For each step the ids of the places before it; the entry's first."""
        before: dict[str, list[str]] = {transition.name: [] for transition in self.transitions}
        before[self.entry].append(ENTRY)
        for arc in self.arcs.values():
            before[arc.step].append(arc.id)
        return {step: tuple(places) for step, places in before.items()}

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """All places by id."""
        return {place: Place(place, step) for step, places in self.incoming.items() for place in places}
