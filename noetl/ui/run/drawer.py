"""One step of an execution from close by: the drawer beside the steps.

`/executions/ID?step=charge`, with `run=charge%232` and `iteration=17` for one run and one iteration
of it, and `about=logs` for one thing about it in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from noetl.errors import NotFound
from noetl.facts.events import Event, StepScheduled
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import ErrorInfo
from noetl.history.accounts import RunAccount, Standing, StepAccount
from noetl.history.run_details import RunResults, TaskAttempt, find_answer, find_attempts, find_failure
from noetl.history.sentences import say_loop, say_milliseconds
from noetl.net.model import Transition
from noetl.ui.run import drawer_decision, drawer_logs, drawer_source, drawer_values
from noetl.ui.run.again import find_agains
from noetl.ui.run.drawer_cells import IterationMap, map_iterations
from noetl.ui.run.look import RunLook
from noetl.ui.values import ShownValue, show_value
from noetl.usecases import history
from noetl.usecases.catalog import UNNAMED
from noetl.usecases.fixtures import TESTABLE
from noetl.usecases.history import StepLook
from noetl.usecases.step_inputs import inputs_of_tasks

Section: TypeAlias = Literal["", "attempts", "values", "logs", "decision", "events"]

#: What can be looked at alone, and how it is called.
SECTIONS: Final[Mapping[Section, str]] = {
    "": "Overview",
    "attempts": "Attempts",
    "values": "Values",
    "logs": "Logs",
    "decision": "Decision",
    "events": "Events",
}
#: Attempts in the overview, and alone; events, and runs that are named.
_FEW: Final = 8
_MANY: Final = 200
MOST_EVENTS: Final = 100
MOST_RUNS: Final = 20
#: Lines that were printed, in the overview, and alone.
_FEW_LINES: Final = 12
_MANY_LINES: Final = 200

#: Where a step or an iteration is, as the shapes of statuses have it.
SHAPES: Final[Mapping[str, str]] = {
    "done": "completed",
    "failed": "failed",
    "lost": "failed",
    "cancelled": "cancelled",
    "skipped": "cancelled",
    "running": "running",
    "waiting": "waiting",
    "not_run": "pending",
    "open": "pending",
}


def gather(look: RunLook) -> Mapping[str, Any]:
    """`drawer`, which is None where no step is looked at, `shapes` of statuses, and `agains`, what
    one may begin from somewhere in the execution. Raises NotFound for a step, a run or an iteration
    that is not there."""
    drawer = None if look.step is None else _open(look, look.step)
    return {"drawer": drawer, "shapes": SHAPES, "agains": find_agains(look)}


def _open(look: RunLook, name: str) -> StepDrawer:
    about = _read_about(look)
    found = history.look_at_step(look.visitor.rt, look.execution_id, name, look.at)
    begun = found.runs
    drawer = StepDrawer(look, found, about, begun, _pick(begun, look, name))
    _check_iteration(look, drawer)
    return drawer


def _read_about(look: RunLook) -> Section:
    given = look.asked.get("about", "")
    for known in SECTIONS:
        if known == given:
            return known
    raise NotFound(f"Nothing of a step is called {given[:40]!r}.{did_you_mean(given, SECTIONS)}")


def _pick(begun: Sequence[Event], look: RunLook, name: str) -> Event | None:
    """The run that is looked at: the newest one, unless another one is named."""
    if look.run is None:
        return begun[-1] if begun else None
    for one in begun:
        if one.draft.run_id == look.run:
            return one
    moment = "" if look.at is None else f" until version {look.at}"
    times = "once" if len(begun) == 1 else f"{len(begun)} times" if begun else "not once"
    raise NotFound(f"Step {name!r} ran {times}{moment}, and {look.run[:80]!r} is no run of it.")


def _check_iteration(look: RunLook, drawer: StepDrawer) -> None:
    index, run = look.iteration, drawer.run
    if index is None:
        return
    if run is None or run.loop is None:
        raise NotFound(f"Step {drawer.step.name!r} has run without a loop: it has no iteration {index}.")
    if index >= run.loop.total:
        total = run.loop.total
        raise NotFound(f"Run {run.run} has {total} iterations, counted from 0: {index} is none of them.")


@dataclass(frozen=True)
class StepDrawer:
    """What is shown of a step, of the run of it that `scheduled` began, and of one iteration of
    that. All of it is found when the page asks for it: what is not shown costs nothing."""

    look: RunLook
    found: StepLook
    about: Section
    begun: Sequence[Event]
    scheduled: Event | None

    @property
    def step(self) -> Transition:
        return self.found.plan.net.steps[self.account.step]

    @property
    def account(self) -> StepAccount:
        return self.found.account

    @cached_property
    def run(self) -> RunAccount | None:
        """The run that is looked at; None where the step has not run."""
        return None if self.scheduled is None else self.found.find_run(self.scheduled)

    @property
    def is_newest(self) -> bool:
        """Whether the sentence about the step is one about the run that is shown."""
        return self.scheduled is None or self.scheduled is self.begun[-1]

    @property
    def standing(self) -> Standing:
        return self.account.standing if self.run is None or self.is_newest else self.run.status

    @property
    def shape(self) -> str:
        return "waiting" if self.hold else SHAPES[self.standing]

    @property
    def hold(self) -> str:
        """Why it does not run, as of now; empty where nothing holds it."""
        is_now = self.look.at is None and self.is_newest and self.standing in ("running", "waiting")
        step = self.look.report.steps.get(self.step.name, {})
        return step.get("hold", {}).get("text", "") if is_now else ""

    @property
    def kinds(self) -> Sequence[str]:
        """Those of its tasks."""
        return tuple(dict.fromkeys(task.kind for task in self.step.calls))

    @property
    def file(self) -> str:
        """What its playbook is called as a file; empty where it came as text alone."""
        file = self.found.plan.net.file
        return "" if file == UNNAMED else file

    @property
    def took(self) -> str:
        """How long the run took; empty where it has not ended."""
        spent = None if self.run is None else self.run.duration_ms
        return "" if spent is None else say_milliseconds(spent)

    @property
    def sections(self) -> Mapping[Section, str]:
        """What there is to be looked at alone."""
        return SECTIONS if self.run is not None else {"": SECTIONS[""]}

    def shows(self, section: Section) -> bool:
        """Whether the page is to show something of it."""
        return self.about in ("", section)

    @property
    def is_whole(self) -> bool:
        """Whether one section is shown alone, with all that it has."""
        return self.about != ""

    @cached_property
    def newest_runs(self) -> list[tuple[int, str]]:
        """Numbers and ids of the newest runs, newest first, where there are several."""
        every = list(enumerate((str(one.draft.run_id) for one in self.begun), 1))
        return every[: -MOST_RUNS - 1 : -1] if len(every) > 1 else []

    @cached_property
    def status_of_run(self) -> Mapping[str, Standing]:
        return {one.run: one.status for one in self.account.runs}

    # --- the run ----------------------------------------------------------------------------------

    @cached_property
    def events_of_run(self) -> list[Event]:
        run = None if self.scheduled is None else self.scheduled.draft.run_id
        return [one for one in self.found.events if run is not None and one.draft.run_id == run]

    @cached_property
    def events_here(self) -> list[Event]:
        """Those of the iteration that is looked at, or of the run without its iterations."""
        return [one for one in self.events_of_run if one.draft.iteration == self.look.iteration]

    @cached_property
    def loop_text(self) -> str:
        return "" if self.run is None or self.run.loop is None else say_loop(self.run.loop)

    @cached_property
    def cells(self) -> IterationMap | None:
        if self.run is None or self.run.loop is None:
            return None
        over = self.found.state.ended
        return map_iterations(self.events_of_run, self.run.loop.total, over=over, address=self._go_to)

    def _go_to(self, iteration: int) -> str:
        return self.look.to(iteration=iteration, about=self.about or None)

    @cached_property
    def attempts(self) -> list[TaskAttempt]:
        """The newest ones first."""
        return list(find_attempts(self.events_here))[::-1][: _MANY if self.is_whole else _FEW]

    @cached_property
    def attempt_count(self) -> int:
        return sum(1 for _ in find_attempts(self.events_here))

    @cached_property
    def error(self) -> ErrorInfo | None:
        return find_failure(self.events_here)

    @cached_property
    def answer(self) -> ShownValue | None:
        """The body of the answer that failed the call."""
        body = None if self.error is None else find_answer(self.events_here)
        return None if body is None else show_value(body)

    @cached_property
    def source(self) -> Sequence[drawer_source.SourceLine]:
        """The lines of the playbook around the one at which the error points."""
        return drawer_source.read_lines(self.look, self.error)

    @cached_property
    def values(self) -> Sequence[drawer_values.ValueGroup]:
        """What went in, and what came out."""
        scheduled = None if self.scheduled is None else self.scheduled.fact
        if not isinstance(scheduled, StepScheduled):
            return ()
        reader = drawer_values.ValueReader(self.look.visitor.rt.load, self.is_whole)
        events, iteration = self.events_of_run, self.look.iteration
        tasks = inputs_of_tasks(self.look.visitor.rt, self.found.plan, events, iteration)
        inputs = reader.inputs(scheduled.args, tasks, events, iteration)
        return *inputs, reader.outcome(self.events_here, self._kept_result)

    @property
    def _kept_result(self) -> RunResults:
        """What the execution remembers of the step: the result of its newest run, once there is
        one."""
        record = self.found.state.steps.get(self.step.name)
        is_its_own = self.is_newest and self.look.iteration is None
        if record is None or not is_its_own or record.status != "done":
            return RunResults({})
        return RunResults({}, record.result, known=True)

    @cached_property
    def printed(self) -> drawer_logs.PrintedEnd:
        run = "" if self.run is None else self.run.run
        return drawer_logs.read_end(self.look, run, _MANY_LINES if self.is_whole else _FEW_LINES)

    @cached_property
    def decision(self) -> Sequence[drawer_decision.Reason]:
        return drawer_decision.find_reasons(self.account, self.run)

    @cached_property
    def events(self) -> list[Event]:
        """The newest ones first."""
        return self.events_here[: -MOST_EVENTS - 1 : -1]

    @property
    def is_testable(self) -> bool:
        """Whether a test can be made of the execution."""
        return self.look.row.status in TESTABLE
