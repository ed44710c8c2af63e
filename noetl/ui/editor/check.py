"""What is wrong with a text, and what a run of it would do. Nothing is run or kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from noetl.dsl import Compiled, Problem, compile_playbook
from noetl.engine.admission import admit
from noetl.engine.plan import Plan
from noetl.errors import NoetlError
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import Forecast, StepForecast, errors_of, renderings
from noetl.forecast.tasks import Kinds
from noetl.net.model import Net
from noetl.tools.kit.registry import touches
from noetl.ui.site import Visitor
from noetl.usecases.catalog import UNNAMED
from noetl.usecases.runtime import Runtime

#: Problems, and steps of a plan, that one page shows.
MOST: Final = 200
#: Characters of a guard or of what a task touches.
_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class EditedStep:
    """A step that may be reached. `works` are its tasks, each as its kind and what it touches;
    `faults` with what its templates would fail."""

    step: StepForecast
    number: int
    note: str
    works: tuple[tuple[str, str], ...]
    ways: tuple[tuple[str, str], ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """`plan` is None where the text cannot be run; `fault` says why there is no plan of what can
    be."""

    compiled: Compiled
    plan: Forecast | None = None
    fault: str = ""

    @property
    def path(self) -> str:
        return "" if self.compiled.net is None else self.compiled.net.path

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first ones: errors before warnings, each in the order of the text."""
        return (*self.compiled.errors, *self.compiled.warnings)[:MOST]

    @property
    def more_problems(self) -> int:
        return max(len(self.compiled.problems) - MOST, 0)

    @property
    def steps(self) -> tuple[EditedStep, ...]:
        plan = self.plan
        if plan is None:
            return ()
        return tuple(_describe(plan, step, number) for number, step in enumerate(plan.steps[:MOST], 1))

    @property
    def more_steps(self) -> int:
        return 0 if self.plan is None else max(len(self.plan.steps) - MOST, 0)


def check(visitor: Visitor, text: str) -> Checked:
    """Compiles the text as its registration does, and makes its plan."""
    rt = visitor.rt
    compiled = compile_playbook(text, file=UNNAMED, kinds=rt.kinds, parse_sql=True)
    if compiled.net is None:
        return Checked(compiled)
    try:
        return Checked(compiled, _foresee(rt, compiled.net, _environment(visitor)))
    except NoetlError as error:
        return Checked(compiled, fault=error.message)


def _environment(visitor: Visitor) -> dict[str, str]:
    """What templates read of the environment. Who may start nothing sees names of it alone."""
    knows = visitor.principal.has_some("run")
    return {name: str(value) if knows else f"<{name}>" for name, value in visitor.rt.env.items()}


def _foresee(rt: Runtime, net: Net, env: Mapping[str, str]) -> Forecast:
    given = admit(Plan(net), {}, {}, foreseen=True)
    kinds = Kinds(rt.kinds, touches, rt.quoting)
    return foresee(net, PlanInput(kinds, given.payload, given.overrides, env, rt.limits.max_in_flight))


def _describe(plan: Forecast, step: StepForecast, number: int) -> EditedStep:
    notes = {plan.final_step: "last, once", plan.entry: "begins"}
    works = tuple((task.kind, _short(", ".join(task.touches))) for task in step.tasks)
    ways = tuple((arc.step, "" if arc.when in (None, True) else _short(str(arc.when))) for arc in step.arcs)
    return EditedStep(
        step=step,
        number=number,
        note=notes.get(step.name, step.role),
        works=works,
        ways=tuple(one for one in ways if one[0]),
        faults=errors_of(renderings(step)),
    )


def _short(text: str) -> str:
    line = " ".join(text[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
