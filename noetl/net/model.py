"""Place, Transition, Arc, Net: what the compiler yields and the engine interprets.

A step is a transition. Every arc owns the place in which its tokens wait before the arc's step; the
entry has a place of its own, `ENTRY`. Strings inside `Template` values may hold expressions;
nothing here is evaluated. The classes of a net are frozen and survive JSON (`noetl.net.codec`)
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

from pydantic import ConfigDict
from pydantic_core import ErrorDetails

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import ResultScope, Retention

#: JSON in which strings may be (or contain) Jinja expressions.
Template: TypeAlias = Json

#: The arc id of the token that enters the net.
ENTRY = "entry"

Scope = Literal["ctx", "iter", "step", "local"]
Backoff = Literal["none", "fixed", "linear", "exponential"]
FailureMode = Literal["fail_fast", "best_effort"]
Reducer = Literal["append", "sum", "min", "max", "merge", "last"]
OnLarge = Literal["fail", "fetch"]
PageKind = Literal["page", "offset", "cursor", "link"]
#: What a demand may say of a value.
ValueType = Literal["any", "string", "integer", "number", "boolean", "list", "mapping"]
#: The inputs of tasks that run after every call of another one: the body of its answer, and twice
#: all of it.
EACH_INPUTS: Final = ("data", "result", "response")
#: The inputs of the final step.
FINAL_INPUTS: Final = ("status", "steps", "errors")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`set: {ctx.total: "{{ ... }}"}`: `name` is dotted, without its scope."""

    scope: Scope
    name: str
    value: Template


@dataclass(frozen=True, slots=True)
class Directive:
    """`then` of a rule. `attempts` counts all tries; `delay` and `jitter` are seconds or
    templates."""

    do: Literal["continue", "retry", "jump", "break", "fail"] = "continue"
    attempts: Template = 3
    backoff: Backoff = "none"
    delay: Template = 1.0
    jitter: Template = 0.0
    #: Task that a jump goes to, already resolved from `previous`.
    to: str | None = None
    set: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """First match wins. `when` None means `else`; a boolean is itself."""

    when: Template
    then: Directive


@dataclass(frozen=True, slots=True)
class Selected:
    """A part of a result that is kept with its reference: `path` is canonical (`data.rows[0].id`),
    `name` what it is read by: the path itself, or an alias."""

    path: str
    name: str


@dataclass(frozen=True, slots=True)
class ResultPolicy:
    """How a task's result is kept (`spec.result`). `inline_bytes` None: as the settings say;
    `ttl_s` None: as long as `scope` says."""

    inline_bytes: int | None = None
    select: tuple[Selected, ...] = ()
    scope: ResultScope = "execution"
    ttl_s: float | None = None
    #: What becomes of a selected part that is too large to be kept with the reference: the task
    #: fails, or the part is read through the reference.
    on_large: OnLarge = "fail"

    @property
    def aliased(self) -> bool:
        """Whether a part has a name of its own: then the result is kept by reference at every
        size."""
        return any(part.name != part.path for part in self.select)

    def keep(self, execution_id: str, now: datetime) -> Retention:
        """For whom, and until when, a result that is there `now` (UTC) is kept."""
        until = None if self.ttl_s is None else now + timedelta(seconds=self.ttl_s)
        return Retention(execution_id, self.scope, until)


@dataclass(frozen=True, slots=True)
class Demand:
    """A value that has to be there (`assert`). `path` is dotted; `of` is the workbook task that
    demands it, empty where the task of the step does so itself."""

    path: str
    type: ValueType = "any"
    of: str = ""


@dataclass(frozen=True, slots=True)
class NextRequest:
    """Where `when` holds (None: always) another call follows. Its request is the last one with
    `changes` merged into it: keys of the tool, and `args`, the inputs."""

    when: Template = None
    changes: Mapping[str, Template] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pages:
    """How the pages of an http answer follow each other. Numbers are numbers or templates.

    `param` is the query parameter that says which page, `start` its first value. `size` is how many
    items a full page has (None: one); by `offset` it is sent as `limit`. `path` leads to the cursor
    of the next page in the body."""

    by: PageKind
    param: str = ""
    start: Template = None
    size: Template = None
    path: str = ""
    #: Whether a page is the last one, in the names of `set`.
    until: Template = None


@dataclass(frozen=True, slots=True)
class CollectPolicy:
    """What is kept of every call: what stands at `path`, all of it where that is empty. `into` is
    the variable that the whole is assigned to, instead of being the `data` of the result."""

    path: str = ""
    strategy: Literal["append", "replace", "merge"] = "append"
    into: Assignment | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A task is called again after a success: as the first entry of `next` that holds says, or page
    after page.

    `max` bounds all calls together. `delay` (seconds, or a template) stands between two calls, and
    grows with their number as `backoff` says. The tasks that run after every call stand behind this
    one (`Task.each_of`)."""

    next: tuple[NextRequest, ...] = ()
    pages: Pages | None = None
    max: Template = 100
    delay: Template = 0.0
    backoff: Backoff = "fixed"
    collect: CollectPolicy | None = None

    @property
    def key(self) -> str:
        """How the playbook calls it."""
        return "repeat" if self.pages is None else "pagination"

    @property
    def call(self) -> str:
        """What one call is called, behind the name of the task: `fetch.page`."""
        return "call" if self.pages is None else "page"

    @property
    def into(self) -> Assignment | None:
        """What is assigned the whole; its value means nothing."""
        return self.collect.into if self.collect is not None else None

    @property
    def guards(self) -> tuple[Template, ...]:
        """Its templates that are conditions."""
        return (*(one.when for one in self.next), self.pages.until if self.pages else None)

    @property
    def values(self) -> tuple[Template, ...]:
        """Its other templates."""
        pages = (self.pages.start, self.pages.size) if self.pages else ()
        return (self.max, self.delay, *pages, *(dict(one.changes) for one in self.next))


@dataclass(frozen=True, slots=True)
class Older:
    """What tasks of nets of schema 1 say besides, where `repeat` was written as several tasks
    (`noetl.pipeline.older`).

    `over` yields `{<key of config>: value, ..., args: {...}}`, which stand over the task's own at
    each attempt. Where it ended well, the first rule of `then` that holds assigns its `set`. Values
    of `appended` names are one more entry of the mapping there, those of `merged` names are merged
    into it."""

    over: Template = None
    then: tuple[Rule, ...] = ()
    appended: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One labelled tool call of a pipeline.

    `config` is the tool mapping without `kind`, `name`, `spec`, `set` and inputs; `args` its inputs
    (`input`, `args`, `with`), to be overlaid on the step's. `rules` None means no policy was given:
    ok continues and an error fails. `spec` is the effective spec (kind defaults → executor → step →
    loop → task). `line` is where the task begins in its file; `lines` where the keys of `config` do
    (for `code: |` the first line of the code itself). `after` (`True`, or a guard) puts the task
    behind the end of the pipeline proper: such tasks stand last in their step.
    """

    name: str
    kind: str
    config: Mapping[str, Template] = field(default_factory=dict)
    args: Mapping[str, Template] = field(default_factory=dict)
    rules: tuple[Rule, ...] | None = None
    set: tuple[Assignment, ...] = ()
    spec: JsonMap = field(default_factory=dict)
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)
    #: Keys of `config` that are handed over as written (`code`; SQL that comes with `params`).
    verbatim: tuple[str, ...] = ()
    #: Keys of `config` whose texts a shell reads: values in them are quoted.
    quoted: tuple[str, ...] = ()
    #: The task's code names `context`: it depends on every name there is.
    wants_context: bool = False
    #: Keys of `config` (`*`: the args) that may hold references to results when the tool is called.
    by_reference: tuple[str, ...] = ()
    #: The inputs that the task's code can read; None: all of them. Others are not fetched.
    reads: tuple[str, ...] | None = None
    result: ResultPolicy = ResultPolicy()
    #: The task runs once for each item, one after another, and yields `{results, stats[, errors]}`.
    loop: Loop | None = None
    #: Inputs over those of the step, which the task's own ones see.
    given: Mapping[str, Template] = field(default_factory=dict)
    #: Inputs without which it is not called, and what its result has to have.
    expects: tuple[Demand, ...] = ()
    returns: tuple[Demand, ...] = ()
    #: Names of `args` by who says them: the call, then the workbook task that it calls, and so on.
    #: Each group is rendered after the one before it, and sees it. Empty: all at once.
    stages: tuple[tuple[str, ...], ...] = ()
    after: Template = None
    #: The task is called again after a success.
    repeat: Repeat | None = None
    #: It runs after every call of the task of that name, which it stands behind, with `EACH_INPUTS`
    #: for inputs.
    each_of: str = ""
    #: What nets of schema 1 say besides; None in all others.
    older: Older | None = None

    @property
    def handed(self) -> tuple[str, ...]:
        """The names of inputs that it gets from elsewhere than its step's and its own."""
        return (*self.given, *(EACH_INPUTS if self.each_of else ()))

    @property
    def assigns(self) -> tuple[Assignment, ...]:
        """What it and its policy assign."""
        rules = (one for rule in self.rules or () for one in rule.then.set)
        into = self.repeat.into if self.repeat is not None else None
        return (*self.set, *rules, *((into,) if into is not None else ()))


@dataclass(frozen=True, slots=True)
class Failure:
    """What the failure of a branch, or of a loop's iteration, means for the rest.

    `tolerate_count` and `tolerate_percent` bound how many iterations may fail under best_effort.
    """

    mode: FailureMode = "fail_fast"
    tolerate_count: int | None = None
    tolerate_percent: float | None = None

    def tolerates(self, failed: int, total: int) -> bool:
        """Whether a loop over `total` items goes on after `failed` of them failed."""
        if not failed:
            return True
        if self.mode == "fail_fast":
            return False
        count, percent = self.tolerate_count, self.tolerate_percent
        if count is None and percent is None:
            return True
        return (count is not None and failed <= count) or (
            percent is not None and 100 * failed / total <= percent
        )


@dataclass(frozen=True, slots=True)
class Loop:
    """`in` is a template or a literal list. `iterator` names the element in `iter` and bare.

    With a `cursor` there is no collection: lanes make this call again and again, and every row that
    it yields is an element, until it yields none."""

    collection: Template
    iterator: str
    #: `cursor`: sequential where `max_in_flight`, a template, comes to 1, else parallel.
    mode: Literal["sequential", "parallel", "cursor"] = "sequential"
    #: None: the default of the settings. May be a template.
    max_in_flight: Template = None
    failure: Failure = Failure()
    reduce: Mapping[str, Reducer] = field(default_factory=dict)
    #: `each`: every iteration is committed by itself. None: decided by mode and the tools' effects.
    commit: Literal["each", "batch"] | None = None
    cursor: Task | None = None
    #: What an element of a cursor's loop is: a row, or the list of all rows that a claim yielded.
    process: Literal["row", "frame"] = "row"


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
    """How many tokens enable the step. `count` belongs to mode `count`."""

    mode: Literal["auto", "all", "any", "first", "count"] = "auto"
    count: int = 0
    cancel_rest: bool = False


@dataclass(frozen=True, slots=True)
class Arc:
    """An arc from `source` to `step`, and the place (of the same id) in which its tokens wait.

    `when` None is an unguarded arc: for success only. `boundary` says that the guard mentions the
    boundary (`event`, `outcome`, `output`, `error`), so that it is asked after failures too.
    `also`: it belongs to the choice of the arc before it. Without a `step` an arc only assigns: it
    has no place.
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
    failure: Failure = Failure()
    #: Worker queue of the pipeline: `spec.queue`, else that of its first task that is not a noop.
    queue: str = "default"
    description: str = ""
    line: int = 0

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
    def calls(self) -> tuple[Task, ...]:
        """All that its workers call: its tasks, behind the cursor that its loop may have."""
        cursor = self.loop.cursor if self.loop else None
        return self.tasks if cursor is None else (cursor, *self.tasks)


@dataclass(frozen=True)
class Net:
    """A compiled playbook. `transitions` keep the order of the document.

    `workload` values are templates over each other, the payload, `execution_id` and `env`; `ctx`
    holds those that variables of the execution begin with, which see the workload besides. `file`
    is how the source is named in problems and errors.
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
    failure: Failure = Failure()
    no_next_is_error: bool = False
    description: str = ""
    file: str = ""
    ctx: Mapping[str, Template] = field(default_factory=dict)

    @cached_property
    def steps(self) -> Mapping[str, Transition]:
        """Transitions by name, in document order."""
        return {transition.name: transition for transition in self.transitions}

    @cached_property
    def arcs(self) -> Mapping[str, Arc]:
        """All arcs that lead to a step by id, in document order."""
        return {arc.id: arc for transition in self.transitions for arc in transition.ways}

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


@dataclass(frozen=True, slots=True)
class Spelling:
    """What a key means that authors write in the place of another one.

    `canonical` leads from the mapping of the key to the key of the canonical form (`spec/timeout`,
    `../input`); empty: the key has no effect. A value that is there wins, of mappings key by key;
    so does one at a place of `unless`.
    """

    canonical: str = ""
    unless: tuple[str, ...] = ()
    #: It means this with one of these values only; with any where there are none.
    values: tuple[Json, ...] = ()
    #: Why it has no effect, where that is worth a warning.
    warning: str = ""
    #: What the canonical form says beside it: key (from the same mapping) → value.
    adds: tuple[tuple[str, Json], ...] = ()
    #: The value as the canonical form has it.
    convert: Callable[[Json], Json] | None = None

    @property
    def meaning(self) -> str:
        """In a few words, for references."""
        if self.canonical:
            return f"The same as `{self.canonical.replace('/', '.')}`, which wins."
        return f"No effect: {self.warning}." if self.warning else "No effect."


def _parses(_text: str, _with_params: bool) -> tuple[int, str] | None:
    return None


def _no_faults(_config: JsonMap) -> Sequence[ErrorDetails]:
    return ()


#: What a call may change: nothing, what belongs to its worker, what is outside of NoETL.
Effects: TypeAlias = Literal["none", "internal", "external"]


@dataclass(frozen=True, slots=True)
class KindInfo:
    """What the language needs to know of a tool kind to compile and check playbooks.

    `schema` is the JSON Schema of the tool's configuration; `required` are groups of keys of which
    one must be there (`(("command", "commands"),)`). Keys in `verbatim` are never rendered (unless
    the task says `spec.render: true`), those in `verbatim_with_params` are not where the task has
    `params`. Texts in `quoted` (or in a list there) are command lines: what templates put into them
    is quoted, unless the task says `spec.quote: false`. `defaults` is the kind's default `spec`.
    `python_keys` hold python source (checked for syntax), `source_files` name files of it.
    `suspends`: its tasks may leave their worker before they end. Keys in `by_reference` may come to
    the tool as references to results (`noetl.facts.reference`), unopened, wherever one stands in
    them; `*` stands for the task's args. `sections` are what outcomes have besides `status`,
    `result`, `data`, `error` and `meta`, such as `pg`; None: not told. `abandons`: what calls of it
    began elsewhere it can end, called once more with `Call.abandoned`. `spellings` are other ways
    to write its keys, by the way to them (`source/type`). `credentials` are the places of the
    configuration where a credential is named, dotted, `*` for any key. `parse` says of a text of
    its SQL, and whether names in it are bound, at which character and why it is none. `faults`
    tells what of a configuration the kind cannot take, as pydantic tells it; it raises nothing.
    """

    kind: str
    queue: str
    effects: Effects = "external"
    description: str = ""
    schema: JsonMap = field(default_factory=dict)
    required: tuple[tuple[str, ...], ...] = ()
    verbatim: tuple[str, ...] = ()
    verbatim_with_params: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()
    python_keys: tuple[str, ...] = ()
    source_files: tuple[str, ...] = ()
    defaults: JsonMap = field(default_factory=dict)
    suspends: bool = False
    abandons: bool = False
    by_reference: tuple[str, ...] = ()
    sections: tuple[str, ...] | None = None
    credentials: tuple[str, ...] = ("auth",)
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    faults: Callable[[JsonMap], Sequence[ErrorDetails]] = _no_faults
    parse: Callable[[str, bool], tuple[int, str] | None] = _parses
