"""One execution on trial: started, brought to rest with time passing at once, and looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from noetl.dsl.document import PlaybookTest
from noetl.errors import BadRequest, ConfigError, NoetlError
from noetl.expressions.instants import instant
from noetl.facts.events import Event, StepScheduled, StepSkipped
from noetl.facts.json import Json, JsonMap, assign
from noetl.net.model import Net
from noetl.store.library import FileLibrary
from noetl.trial.simulation import START, NeverRests, Outside, Simulation
from noetl.trial.stage import TrialStage
from noetl.trial.stand_ins import Answers, SeenCall, StandIns
from noetl.usecases import control, history, inspect

#: Messages and delays after which an execution is taken for endless.
MOST_MOVES = 10_000
#: Called executions whose logs count as covered.
MOST_TRACES = 1_000


@dataclass(frozen=True, slots=True)
class Scenario:
    """What an execution is given: `inputs` are its payload, `overrides` what `--set` would say."""

    inputs: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    stand_ins: Mapping[str, Answers] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    clock: datetime = START
    #: Of ctx, by dotted names: each is made once the execution waits.
    patches: Sequence[JsonMap] = ()


def scenario_of(test: PlaybookTest) -> Scenario:
    """What a test as it is written gives."""
    clock = START if test.clock is None else instant(test.clock)
    overrides = assign({}, test.set or {})
    return Scenario(
        test.inputs or {}, overrides, test.stand_ins or {}, test.env or {}, clock, test.patches or ()
    )


@dataclass(frozen=True, slots=True)
class Trace:
    """The log of one of the executions, and the net that it ran."""

    net: Net
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class Played:
    """How it went. `status` is `refused` where nothing was started; `faults` say what is wrong with
    the test itself: calls that nothing stands in for. `waits` says what an execution that is not
    over waits for. `traces` begin with the execution itself; those that it called follow."""

    status: str
    result: Json = None
    ctx: JsonMap = field(default_factory=dict)
    error: JsonMap | None = None
    steps: JsonMap = field(default_factory=dict)
    calls: Sequence[SeenCall] = field(default=(), repr=False)
    faults: Sequence[str] = ()
    waits: Sequence[str] = ()
    traces: Sequence[Trace] = field(default=(), repr=False)

    @property
    def path(self) -> list[str]:
        """The steps that ran, in the order in which they began."""
        events = self.traces[0].events if self.traces else ()
        skipped = {event.draft.run_id for event in events if isinstance(event.fact, StepSkipped)}
        return [
            str(event.draft.step)
            for event in events
            if isinstance(event.fact, StepScheduled) and event.draft.run_id not in skipped
        ]

    def calls_of(self, name: str) -> list[Any]:
        """The calls of a step, a task (`step.task`), or of tools of a kind, in their order."""
        return [one.as_json() for one in self.calls if name in one.names]


def play(stage: TrialStage, playbook: str, file: Path, scenario: Scenario) -> Played:
    """Plays the text of a playbook, which stands in `file`. Raises PlaybookInvalid where it cannot
    be run."""
    stage.directories = tuple(dict.fromkeys((file.absolute().parent, Path.cwd())))
    stand_ins = StandIns(scenario.stand_ins, stage.tools)
    outside = Outside(
        scenario.clock,
        dict(scenario.env),
        FileLibrary(file.absolute().parent),
        stand_ins,
        stage.results,
        # What stands in for a call is what the test says.
        caching=False,
    )
    with _simulation(playbook, stage, file, outside) as simulation:
        stand_ins.find_path = _PathFinder(simulation)
        try:
            execution_id = simulation.start(scenario.inputs, **scenario.overrides)
        except (BadRequest, ConfigError) as error:
            return Played("refused", error={"kind": "client_error", "message": refusal_text(error)})
        stand_ins.steps = inspect.net_of(simulation.rt, execution_id).steps.keys()
        endless = [*_rest(simulation), *_patch(simulation, execution_id, scenario.patches, stand_ins)]
        return _look(simulation, execution_id, stand_ins, endless)


def refusal_text(error: NoetlError) -> str:
    """Why nothing was started: every fault of the inputs."""
    faults = getattr(error, "faults", ())
    return "; ".join(f"{one['path']}: {one['message']}" for one in faults) or error.message


@contextmanager
def _simulation(playbook: str, stage: TrialStage, file: Path, outside: Outside) -> Iterator[Simulation]:
    simulation = Simulation(playbook, kinds=stage.kinds, file=str(file), outside=outside)
    try:
        yield simulation
    finally:
        simulation.rt.store.close()


@dataclass(slots=True)
class _PathFinder:
    """The paths of called playbooks, by the ids of executions."""

    simulation: Simulation
    known: dict[str, str | None] = field(default_factory=dict)

    def __call__(self, execution_id: str) -> str | None:
        if execution_id not in self.known:
            row = inspect.execution(self.simulation.rt, execution_id)
            self.known[execution_id] = row.path if row.parent_id else None
        return self.known[execution_id]


def _rest(simulation: Simulation) -> list[str]:
    try:
        simulation.rest(MOST_MOVES)
    except NeverRests as error:
        return [str(error)]
    return []


def _patch(
    simulation: Simulation, execution_id: str, patches: Sequence[JsonMap], stand_ins: StandIns
) -> Iterator[str]:
    """Makes each patch once the execution waits. Why it never does, where it does not come to
    rest."""
    for number, patch in enumerate(patches, 1):
        status = inspect.execution(simulation.rt, execution_id).status
        try:
            if status != "waiting":
                raise BadRequest(f"the execution is {status}, and does not wait for it.")
            control.patch_ctx(simulation.rt, execution_id, patch)
        except BadRequest as error:
            stand_ins.faults.append(f"Patch {number} is not made: {error.message}")
            return
        yield from _rest(simulation)


def _look(simulation: Simulation, execution_id: str, stand_ins: StandIns, endless: list[str]) -> Played:
    report = simulation.report(execution_id)
    return Played(
        report.row.status,
        report.result,
        report.ctx,
        report.error,
        report.steps,
        stand_ins.calls,
        list(dict.fromkeys(stand_ins.faults)),
        [*endless, *_waits(simulation, execution_id)],
        list(_traces(simulation, execution_id)),
    )


def _waits(simulation: Simulation, execution_id: str) -> Iterator[str]:
    for step in history.explain(simulation.rt, execution_id).steps:
        for wait in step.waits:
            yield f"step {step.step!r} waits: {wait.text}"


def _traces(simulation: Simulation, execution_id: str) -> Iterator[Trace]:
    rt = simulation.rt
    called = (row.execution_id for row in inspect.executions(rt, limit=MOST_TRACES))
    for one in (execution_id, *(other for other in called if other != execution_id)):
        yield Trace(inspect.net_of(rt, one), inspect.events(rt, one))
