"""What would run, as pages show it: the plan of `noetl plan`, in short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from noetl.engine.admission import admit
from noetl.engine.plan import Plan
from noetl.facts.json import JsonMap
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import Forecast, LoopForecast, StepForecast, errors_of, renderings, warnings_of
from noetl.forecast.tasks import Kinds
from noetl.net.model import Net
from noetl.tools.kit.registry import touches
from noetl.ui.site import Visitor

#: Steps that one page shows.
MOST: Final = 200
#: Characters of a guard or of what a task touches.
_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that may be reached: `about` says what it is, `does` what its tasks touch, `ways` are
    the steps that it leads to, each with its guard, and `faults` are what would go wrong."""

    name: str
    about: str
    queue: str | None
    does: Sequence[str]
    ways: Sequence[tuple[str, str]]
    errors: Sequence[str]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """What would run. `early` is what would go wrong before the first step; `needs` are secrets,
    variables of the environment and playbooks, each with those that use it."""

    key: str | None
    steps: Sequence[PlannedStep]
    more_steps: int
    unreached: Sequence[str]
    needs: Sequence[tuple[str, str, str]]
    queues: Mapping[str, Sequence[str]]
    early: Sequence[str]

    @classmethod
    def of(cls, ahead: Forecast) -> Self:
        key = () if ahead.key is None else (ahead.key,)
        early = (*key, *ahead.workload.values(), *ahead.ctx.values(), *ahead.entries)
        return cls(
            None if ahead.key is None or not ahead.key.known else str(ahead.key.value),
            [_show_step(ahead, step) for step in ahead.steps[:MOST]],
            max(len(ahead.steps) - MOST, 0),
            ahead.unreached,
            list(_find_needs(ahead)),
            ahead.queues,
            [*errors_of(early), *warnings_of(early)],
        )


def make_plan(visitor: Visitor, net: Net, payload: JsonMap) -> ShownPlan:
    """What an execution with that payload would do. Nothing is run, and no secret is opened. Raises
    InputsInvalid for what the playbook does not take."""
    rt = visitor.rt
    given = admit(Plan(net), payload, {}, foreseen=True)
    kinds = Kinds(rt.kinds, touches, rt.quoting)
    env, width = _find_environment(visitor), rt.limits.max_in_flight
    return ShownPlan.of(foresee(net, PlanInput(kinds, given.payload, given.overrides, env, width)))


def _find_environment(visitor: Visitor) -> dict[str, str]:
    """What templates read of the environment. Who may start nothing sees names of it alone."""
    knows = visitor.principal.has_some("run")
    return {name: str(value) if knows else f"<{name}>" for name, value in visitor.rt.env.items()}


def _show_step(ahead: Forecast, step: StepForecast) -> PlannedStep:
    notes = {ahead.final_step: "last, once", ahead.entry: "begins"}
    about = [notes.get(step.name, step.role), "" if step.loop is None else _say_loop(step.loop)]
    if step.joins:
        about.append(f"waits for {' and '.join(step.sources)}" if step.join.mode == "all" else "joins")
    found = list(renderings(step))
    return PlannedStep(
        step.name,
        ", ".join(filter(None, about)),
        step.queue,
        [_say(touch) for task in step.tasks if task.is_called for touch in (task.touches or (task.kind,))],
        [(arc.step, "" if arc.when in (None, True) else _say(arc.when)) for arc in step.arcs if arc.step],
        errors_of(found),
        warnings_of(found),
    )


def _say(value: object) -> str:
    line = " ".join(str(value)[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"


def _say_loop(loop: LoopForecast) -> str:
    count = "as often as its collection says" if loop.count is None else f"{loop.count:,} times"
    return f"{count}, {loop.mode}"


def _find_needs(ahead: Forecast) -> Iterator[tuple[str, str, str]]:
    for secret in ahead.secrets:
        yield secret.kind, secret.name, ", ".join(secret.used_by)
    for one in ahead.variables:
        name = one.name if one.given else f"{one.name} (is not there)"
        yield "environment", name, ", ".join(one.used_by)
    for called in ahead.playbooks:
        yield "playbook", called.path, ", ".join(called.used_by)
