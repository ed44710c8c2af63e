"""What would run, as the start form shows it: the plan of `noetl plan`, in short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from noetl.engine.admission import admit
from noetl.engine.plan import Plan
from noetl.facts.json import JsonMap
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import Forecast, LoopForecast, StepForecast, errors_of, renderings, warnings_of
from noetl.forecast.tasks import Kinds
from noetl.net.model import Net
from noetl.tools.kit.registry import touches
from noetl.usecases.runtime import Runtime


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that may be reached: `about` says what it is, `does` what it touches, `faults` what
    would go wrong."""

    name: str
    about: str
    does: Sequence[str]
    faults: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """What would run. `early` is what would go wrong before the first step; `needs` are secrets,
    variables of the environment and playbooks, each with those that use it."""

    key: str | None
    steps: Sequence[PlannedStep]
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
            [_show_step(step) for step in ahead.steps],
            ahead.unreached,
            list(_find_needs(ahead)),
            ahead.queues,
            [*errors_of(early), *warnings_of(early)],
        )


def make_plan(rt: Runtime, net: Net, payload: JsonMap) -> ShownPlan:
    """What an execution with that payload would do. Nothing is run, and no secret is opened. Raises
    InputsInvalid for what the playbook does not take."""
    given = admit(Plan(net), payload, {}, foreseen=True)
    env = {name: str(value) for name, value in rt.env.items()}
    return ShownPlan.of(
        foresee(net, PlanInput(Kinds(rt.kinds, touches, rt.quoting), given.payload, given.overrides, env))
    )


def _show_step(step: StepForecast) -> PlannedStep:
    about = [step.role, *([_say_loop(step.loop)] if step.loop is not None else [])]
    if step.joins:
        about.append(f"waits for {' and '.join(step.sources)}" if step.join.mode == "all" else "joins")
    tasks = [task for task in step.tasks if task.is_called]
    does = [touch for task in tasks for touch in (task.touches or (task.kind,))]
    found = list(renderings(step))
    return PlannedStep(
        step.name, ", ".join(filter(None, about)), does, [*errors_of(found), *warnings_of(found)]
    )


def _say_loop(loop: LoopForecast) -> str:
    count = "as often as its collection says" if loop.count is None else f"{loop.count:,} times"
    return f"{count}, {loop.mode}"


def _find_needs(ahead: Forecast) -> Iterator[tuple[str, str, str]]:
    for secret in ahead.secrets:
        yield secret.kind, secret.name, ", ".join(secret.used_by)
    for one in ahead.variables:
        yield (
            "environment",
            one.name if one.given else f"{one.name} (is not there)",
            ", ".join(one.used_by),
        )
    for called in ahead.playbooks:
        yield "playbook", called.path, ", ".join(called.used_by)
