"""What is foreseen of an execution: frozen data, for the text and the JSON of `noetl plan`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

from noetl.facts.json import Json
from noetl.net.model import Admission, Demand, Effects, EndStatus, Join, Milestone, Provided, Template


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template, as far as it can be rendered before the execution.

    `value` holds what is known and, as it was written, what is not; `needs` are the names that are
    still missing (`fetch.rows`). `error` is the sentence with which it would fail, `warning` that
    with which it would be null. Where nothing is missing and nothing fails `worlds` holds its value
    in each of the worlds that were tried (see `noetl.forecast.worlds`).
    """

    value: Template
    needs: tuple[str, ...] = ()
    error: str = ""
    warning: str = ""
    worlds: tuple[Json, ...] = ()

    @property
    def known(self) -> bool:
        return bool(self.worlds)


@dataclass(frozen=True, slots=True)
class LoopForecast:
    """A loop. `count` None: known only when it begins, or has ended. `width` is how many iterations
    run at once; `cursor` the kind that claims its rows, whose call is the first of the step's
    tasks. Without `sync` the step does not wait for it; nor, where the guard `enough` holds, for
    the `rest`, which is cancelled or runs on. `grow` is what iterations bring; until the guard
    `close` holds it stays open."""

    iterator: str
    mode: str
    collection: Rendered
    width: Rendered
    count: int | None = None
    cursor: str | None = None
    sync: bool = True
    enough: Template = None
    rest: str = ""
    grow: Template = None
    close: Template = None


@dataclass(frozen=True, slots=True)
class RepeatForecast:
    """That a task is called again: `most` is how many calls there are at most. There is another one
    while any of `when` holds; or, where `pages` names how they follow each other (`link`), while
    there is another page and `until` does not hold. `changes` are the keys in which later requests
    differ from the first; `input` stands for the inputs."""

    when: tuple[Template, ...]
    pages: str
    until: Template
    most: Rendered
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AfterForecast:
    """That a task runs behind the end of its pipeline. `runs` True: always; False: never, with this
    workload; None: it depends. `when` True: without a guard."""

    when: Template
    guard: Rendered

    @property
    def runs(self) -> bool | None:
        return bool(self.guard.value) if self.guard.known else None


@dataclass(frozen=True, slots=True)
class TaskForecast:
    """A task. `touches` are what it reaches outside of NoETL, in a few words each; `tries` the most
    attempts that its policy allows, where it retries; `jumps` the tasks that it may send its
    pipeline back or on to. Of one that is called again they are those of its first call. `behind`
    names the task after each of whose calls it runs, and then `repeat` is that of the other one."""

    name: str
    kind: str
    effects: Effects
    touches: tuple[str, ...]
    loop: LoopForecast | None
    repeat: RepeatForecast | None
    after: AfterForecast | None
    config: Mapping[str, Rendered]
    args: Mapping[str, Rendered]
    tries: Template
    jumps: tuple[str, ...]
    line: int
    behind: str
    expects: tuple[Demand, ...]
    returns: tuple[Demand, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The names that its values still need, each once."""
        return needs_of((*self.config.values(), *self.args.values()))

    @property
    def is_called(self) -> bool:
        """Whether a run can come to it."""
        return self.after is None or self.after.runs is not False


@dataclass(frozen=True, slots=True)
class ArcForecast:
    """An arc. `taken` True: whenever its step ends well; False: never, with this workload; None: it
    depends. Without a `step` it only assigns. `also`: it is taken together with the arc before it.
    `sets` is what it assigns, by dotted name with its scope; `times` how many tokens it puts
    down."""

    step: str
    when: Template
    taken: bool | None
    guard: Rendered | None
    on_failure: bool
    args: Mapping[str, Rendered]
    line: int = 0
    also: bool = False
    sets: Mapping[str, Rendered] = field(default_factory=dict)
    times: Rendered = Rendered(1)


@dataclass(frozen=True, slots=True)
class StepEnds:
    """How a step ends the execution, which steps it ends as done, and its milestone."""

    terminate: EndStatus | None = None
    completes: tuple[str, ...] = ()
    milestone: Milestone | None = None


@dataclass(frozen=True, slots=True)
class StepForecast:
    """A step that may be reached. `queue` None: it needs no worker. `sources` are the steps whose
    arcs lead here; `ends` is what it does to others, and when it may begin."""

    name: str
    description: str
    queue: str | None
    sources: tuple[str, ...]
    join: Join
    admit: Admission | None
    args: Mapping[str, Rendered]
    loop: LoopForecast | None
    tasks: tuple[TaskForecast, ...]
    router: str
    arcs: tuple[ArcForecast, ...]
    line: int = 0
    ends: StepEnds = StepEnds()
    #: What it is run for, where no arc leads to it; empty for others.
    role: str = ""

    @property
    def joins(self) -> bool:
        """Whether branches come together here."""
        return len(self.sources) > 1 or self.join.mode == "tokens"


@dataclass(frozen=True, slots=True)
class SecretForecast:
    """A credential, an entry of the keychain, or the secret behind one. `needs`: its name is known
    only then.

    `exists` None: it was not looked for, and `note` says why; else `note` is what to know or to do.
    """

    name: str
    kind: str
    provider: str
    used_by: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    #: Of an entry of the keychain: what its provider knows it by.
    source: str = ""
    #: With what its entry would be refused.
    error: str = ""
    exists: bool | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment that templates read. `given`: the settings let them, and it is
    set."""

    name: str
    used_by: tuple[str, ...]
    given: bool


@dataclass(frozen=True, slots=True)
class CalledPlaybook:
    """A playbook that is called. `needs`: its path is known only then. `found`: where it is (`file
    ...`, `catalog version 3`), empty where there is none; None: it was not looked for."""

    path: str
    version: Template
    used_by: tuple[str, ...]
    needs: tuple[str, ...] = ()
    found: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would run. `steps` are in the order in which a reader follows them; `unreached` are the
    others."""

    name: str
    path: str
    file: str
    description: str
    entry: str
    final_step: str | None
    workload: Mapping[str, Rendered]
    #: What variables begin with.
    ctx: Mapping[str, Rendered]
    steps: tuple[StepForecast, ...]
    unreached: tuple[str, ...]
    cycles: tuple[tuple[str, ...], ...]
    secrets: tuple[SecretForecast, ...] = ()
    variables: tuple[Variable, ...] = ()
    playbooks: tuple[CalledPlaybook, ...] = field(default=())
    #: What the execution would be called by; None where the playbook makes no key.
    key: Rendered | None = None
    #: The names of what comes while it runs, as it says.
    provides: Provided = field(default_factory=Provided)

    @property
    def entries(self) -> tuple[Rendered, ...]:
        """The entries of the keychain that would be refused."""
        return tuple(Rendered(None, error=secret.error) for secret in self.secrets if secret.error)

    @property
    def queues(self) -> Mapping[str, tuple[str, ...]]:
        """Each worker queue, with the steps whose pipelines go there."""
        found: dict[str, list[str]] = {}
        for step in self.steps:
            if step.queue is not None:
                found.setdefault(step.queue, []).append(step.name)
        return {queue: tuple(steps) for queue, steps in found.items()}


def renderings(part: object) -> Iterator[Rendered]:
    """Everything in a part of a forecast that is rendered, in the order of its fields."""
    match part:
        case Rendered():
            yield part
        case Mapping():
            yield from renderings(tuple(part.values()))
        case tuple():
            for one in part:
                yield from renderings(one)
        case (
            LoopForecast()
            | RepeatForecast()
            | AfterForecast()
            | TaskForecast()
            | ArcForecast()
            | StepForecast()
        ):
            yield from renderings(tuple(getattr(part, one.name) for one in fields(part)))


def needs_of(values: Iterable[Rendered]) -> tuple[str, ...]:
    """What any of `values` needs, each name once."""
    return tuple(dict.fromkeys(name for value in values for name in value.needs))


def errors_of(values: Iterable[Rendered]) -> tuple[str, ...]:
    """With what `values` would fail, each sentence once."""
    return tuple(dict.fromkeys(value.error for value in values if value.error))


def warnings_of(values: Iterable[Rendered]) -> tuple[str, ...]:
    """Of what `values` would warn, each sentence once."""
    return tuple(dict.fromkeys(value.warning for value in values if value.warning))
