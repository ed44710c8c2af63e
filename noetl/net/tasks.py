"""Tasks as a net has them: calls with their inputs, rules, results, repetitions and loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import ResultScope, Retention
from noetl.net.kinds import Effects
from noetl.net.limits import Concurrency

#: JSON in which strings may be (or contain) Jinja expressions.
Template: TypeAlias = Json

Scope = Literal["ctx", "iter", "step", "local"]
CountedTries = Literal["all", "alike"]
Backoff = Literal["none", "fixed", "linear", "exponential"]
Reducer = Literal["append", "sum", "min", "max", "merge", "last"]
OnLarge = Literal["fail", "fetch"]
Unmatched = Literal["continue", "fail"]
PageKind = Literal["page", "offset", "cursor", "link"]
#: What a demand may say of a value.
ValueType = Literal["any", "string", "integer", "number", "boolean", "list", "mapping"]
#: The inputs of tasks that run after every call of another one: the body of its answer, and twice
#: all of it.
EACH_INPUTS: Final = ("data", "result", "response")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`set: {ctx.total: "{{ ... }}"}`: `name` is dotted, without its scope."""

    scope: Scope
    name: str
    value: Template


@dataclass(frozen=True, slots=True)
class Directive:
    """`then` of a rule. `attempts` counts the tries that `count` says; `delay` and `jitter` are
    seconds or templates."""

    do: Literal["continue", "retry", "jump", "break", "fail"] = "continue"
    attempts: Template = 3
    backoff: Backoff = "none"
    delay: Template = 1.0
    jitter: Template = 0.0
    #: Task that a jump goes to, already resolved from `previous`.
    to: str | None = None
    set: tuple[Assignment, ...] = ()
    #: All tries of the task, or those that ended alike: after a success all that went well, after
    #: an error those that failed since the last success.
    count: CountedTries = "all"


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
    #: For a selected part that is too large to be kept with the reference.
    on_large: OnLarge = "fail"

    @property
    def aliased(self) -> bool:
        """Whether a part has an alias: then the result is kept by reference at every size."""
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
class Caching:
    """What a call of the task came to stands in for equal calls, of any execution, for `ttl`: in
    seconds, or a template; 0: it does not. Calls are equal where their kind, code, configuration
    and inputs are; with a `key`, a template, where their kind and what is written of them are, and
    it comes to the same. `scope`: those of one playbook, or of all. With `lock` a call waits for an
    equal one that is being made."""

    ttl: Template
    key: Template = None
    scope: Literal["playbook", "global"] = "playbook"
    lock: bool = False


@dataclass(frozen=True, slots=True)
class OlderRepeat:
    """What tasks of nets of schema 1 say besides (`noetl.pipeline.older`): `repeat` was several.

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
    #: What follows an error that none of `rules` takes. Nets that were stored before do not say it.
    unmatched: Unmatched = "continue"
    set: tuple[Assignment, ...] = ()
    spec: JsonMap = field(default_factory=dict)
    line: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)
    #: Keys of `config` that are handed over as written (`code`; SQL that comes with `params`).
    verbatim: tuple[str, ...] = ()
    #: Keys under which texts of `config` are guards that are asked later than the call.
    deferred: tuple[str, ...] = ()
    #: Keys of `config` whose texts a shell reads: values in them are quoted.
    quoted: tuple[str, ...] = ()
    #: The task's code names `context`: it depends on every name there is.
    wants_context: bool = False
    #: Keys of `config` (`*`: the args) that may hold references to results when the tool is called.
    by_reference: tuple[str, ...] = ()
    #: Keys of `config` in which rows of SQL results come together with their types.
    takes_rows: tuple[str, ...] = ()
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
    #: Names of `args` by who says them, the caller first; each group sees those before it. Empty:
    #: all at once.
    stages: tuple[tuple[str, ...], ...] = ()
    after: Template = None
    #: The task is called again after a success.
    repeat: Repeat | None = None
    #: It runs after every call of the task of that name, which it stands behind, with `EACH_INPUTS`
    #: for inputs.
    each_of: str = ""
    #: What its calls change: what the document says, else its kind of such a configuration. Nets
    #: that were stored before do not say it.
    effects: Effects = "external"
    cache: Caching | None = None
    #: What nets of schema 1 say besides; None in all others.
    older: OlderRepeat | None = None

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


def file_of(config: Mapping[str, Template]) -> str:
    """The name of the file that the code of a task with such a configuration stands in; empty where
    it stands elsewhere, or the name is a template."""
    script = config.get("script")
    found = script.get("file") or script.get("path") if isinstance(script, Mapping) else script
    return found if isinstance(found, str) and "://" not in found and "{" not in found else ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What the failure of a branch, or of a loop's iteration, means for the rest.

    `tolerate_count` and `tolerate_percent` bound how many iterations may fail: under best_effort
    the loop ends as soon as more have, under run_all behind its last iteration. Without bounds
    best_effort tolerates every failure, and run_all none.
    """

    mode: Literal["fail_fast", "best_effort", "run_all"] = "fail_fast"
    tolerate_count: int | None = None
    tolerate_percent: float | None = None

    def tolerates(self, failed: int, total: int) -> bool:
        """Whether a loop over `total` items of which `failed` have failed ends well."""
        if not failed or self.mode == "fail_fast":
            return not failed
        bounds = ((self.tolerate_count, failed), (self.tolerate_percent, 100 * failed / total))
        within = [found <= bound for bound, found in bounds if bound is not None]
        return any(within) or (not within and self.mode == "best_effort")

    def goes_on(self, failed: int, total: int) -> bool:
        """Whether such a loop begins further iterations."""
        return self.mode == "run_all" or self.tolerates(failed, total)


@dataclass(frozen=True, slots=True)
class EnoughRule:
    """When a loop has come to enough: `when`, a guard, is asked whenever an iteration has ended.
    What becomes of the `rest`: it is cancelled, or runs on while its step is routed."""

    when: Template
    rest: Literal["cancel", "run"] = "cancel"


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
    #: What its iterations need a slot of, each.
    concurrency: tuple[Concurrency, ...] = ()
    #: Whether its step waits for the iterations.
    sync: bool = True
    enough: EnoughRule | None = None
    #: What each iteration that has ended brings: a list of further items, or null.
    grow: Template = None
    #: A guard: the loop is not over before it holds.
    close: Template = None

    @property
    def asks(self) -> bool:
        """Whether something is asked whenever an iteration has ended."""
        return self.enough is not None or self.grow is not None

    @property
    def paced(self) -> bool:
        """Whether the scheduler begins its iterations one by one, each once the ends of others have
        been considered. Rows of a cursor are taken by lanes."""
        return self.asks and self.cursor is None

    @property
    def guards(self) -> tuple[Template, ...]:
        """Those that are asked while it runs."""
        enough = () if self.enough is None else (self.enough.when,)
        return (*enough, *(() if self.close is None else (self.close,)))
