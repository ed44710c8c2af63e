"""Experiments on machines elsewhere: which of their orders are sent, and the results of the
answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.backends.ports import RemoteBackend
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.kept import KeptTables
from noetl.quantum.experiments.limits import PointBudget, PointCost, check_estimate, point_budget
from noetl.quantum.experiments.reading import RecentCache
from noetl.quantum.experiments.results import provenance
from noetl.quantum.experiments.running import EarlierPoints, before_of, identity, report
from noetl.quantum.experiments.sweep import assemble, means_of
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.jobs.job_pass import JobContext, JobResults
from noetl.quantum.model import CircuitRun, Estimate, JobState
from noetl.quantum.session import TaskSession
from noetl.quantum.simulation import sampling

#: Which status several jobs have together: the first of these that one of them has.
_WORST_FIRST: Final = ("failed", "cancelled", "queued", "running", "done")


#: Orders of the tasks that were called last: those that wait are called often, and compilation
#: takes its time.
_orders: Final = RecentCache[list[CircuitRun]](8)


def get_orders(
    session: TaskSession, story: JsonMap, experiment: Experiment, first: int, points: int
) -> list[CircuitRun]:
    """What a task sends: `orders_of`, made once for its calls in this worker."""
    call = session.call
    key = f"{call.idempotency_key}/{call.attempt}/{identity(story)}/{first}/{points}"
    return _orders.get(key, lambda: orders_of(experiment, first, points))


def orders_of(experiment: Experiment, first: int, points: int) -> list[CircuitRun]:
    """What is sent for so many points from `first` on."""
    chosen = experiment.points[first : first + points]
    return [
        *experiment.calibrations(),
        *(
            order
            for point in chosen
            for setting in experiment.at(point)
            for order in experiment.orders(point, setting)
        ),
    ]


def context(session: TaskSession, backend: RemoteBackend) -> JobContext:
    """What jobs are made with; what `note_decisions` put around their checkpoint is taken off
    it."""
    recorded = session.call.checkpoint
    call = replace(session.call, checkpoint=recorded["jobs"] if isinstance(recorded, Mapping) else None)
    held = session.held
    return JobContext(
        backend,
        call,
        session.config.polling,
        held.send_tokens,
        session.check_cancellation,
        held.clocks.now,
        held.clocks.monotonic,
    )


def on_machine(session: TaskSession, experiment: Experiment, backend: RemoteBackend) -> Outcome | Later:
    """One call of a task that submits, waits and fetches. Raises ToolError."""
    story = provenance(session, experiment)
    before = before_of(session, story)
    allowed = sendable(session, experiment, backend, len(before.points))
    if isinstance(allowed, Later):
        return allowed
    orders = get_orders(session, story, experiment, len(before.points), allowed.points)
    came = jobs.run(context(session, backend), orders)
    if isinstance(came, Later):
        return note_decisions(came, allowed)
    return finish(session, experiment, came, before, allowed, story)


def sendable(
    session: TaskSession, experiment: Experiment, backend: RemoteBackend, first: int
) -> PointBudget | Later:
    """How many points are sent: found out once, before anything is, and the same in all later
    calls. Raises ToolError where not even one may be sent."""
    recorded = session.call.checkpoint
    if isinstance(recorded, Mapping):
        return PointBudget(recorded["points"], recorded["stopped"])
    config, capabilities = experiment.config, experiment.capabilities
    if config.target_stderr is not None:
        raise ToolError(
            "client_error",
            f"`target_stderr` samples again and again, and every job of {capabilities.provider} "
            "is paid for; give `repetitions`.",
            type="Estimator",
        )

    @cache
    def estimate(points: int) -> Estimate:
        return backend.estimate(orders_of(experiment, first, points))

    points = len(experiment.points) - first
    try:
        if config.limits.max_cost is not None or config.limits.max_queue is not None:
            check_estimate(config.limits, estimate(points), capabilities.provider)
        need = PointCost(
            points, experiment.shots, experiment.calibration_shots, lambda some: estimate(some).cost or 0.0
        )
        return point_budget(config.limits, need)
    except Throttled as error:
        return Later(error.seconds)


def note_decisions(later: Later, allowed: PointBudget) -> Later:
    """The wait of jobs, with what was decided before they were sent."""
    inner = later.checkpoint
    return replace(
        later,
        checkpoint={
            "phase": inner["phase"],
            "points": allowed.points,
            "stopped": allowed.stopped,
            "jobs": inner,
        },
    )


def finish(
    session: TaskSession,
    experiment: Experiment,
    done: JobResults,
    before: EarlierPoints,
    allowed: PointBudget,
    story: dict[str, Any],
) -> Outcome:
    """The result of a task whose jobs were fetched. Raises ToolError."""
    readout = experiment.readout([done.samples[order.name] for order in experiment.calibrations()])
    first, points = len(before.points), list(before.points)
    has_samples = True
    with KeptTables(session, before.tables) as keeper:
        for point in experiment.points[first : first + allowed.points]:
            settings = experiment.at(point)
            orders = {one.number: experiment.orders(point, one) for one in settings}
            for order in (order for some in orders.values() for order in some):
                has_samples &= keeper.samples(point.index, order.name, done.samples[order.name])
            sampled = {
                number: sampling.merge([done.samples[order.name] for order in some])
                for number, some in orders.items()
                if some
            }
            means = means_of(experiment, sampled, readout)
            points.append(assemble(point, settings, sampled, means, readout))
        tables = keeper.tables()
    job = job_of(experiment, done.jobs)
    calibrations = (dict(one.calibration) for one in done.jobs.values() if one.calibration)
    story = {**story, "calibration": next(calibrations, None)}
    result = {**report(session, experiment, points, allowed.stopped, job, story), **tables}
    note = (
        f"{experiment.capabilities.provider} tells only how often each bitstring came: `samples` are "
        "not there."
    )
    return succeeded(result, {} if has_samples else {"warnings": [note]})


def job_of(experiment: Experiment, states: Mapping[str, JobState]) -> dict[str, Json]:
    """The jobs of a task as one: `id`, or `ids` by order where there are several. Times are
    seconds, null where they are not reported; `queue_s` is the longest wait, `run_s` and `cost` are
    sums."""
    every = list(states.values())
    ids: dict[str, Json] = (
        {"id": every[0].id} if len(every) == 1 else {"ids": {name: one.id for name, one in states.items()}}
    )
    return {
        "provider": experiment.capabilities.provider,
        "target": experiment.config.backend.target,
        **ids,
        "submitted_at": min((one.submitted_at for one in every if one.submitted_at), default=None),
        "started_at": min((one.started_at for one in every if one.started_at), default=None),
        "finished_at": max((one.finished_at for one in every if one.finished_at), default=None),
        "queue_s": max((one.queue_s for one in every if one.queue_s is not None), default=None),
        "run_s": _sum([one.run_s for one in every]),
        "cost": _sum([one.cost for one in every]),
        "currency": next((one.currency for one in every if one.currency), ""),
    }


def _sum(values: Sequence[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def status_of(states: Mapping[str, JobState]) -> str:
    """Several jobs' status as one."""
    seen = {one.status for one in states.values()}
    return next(status for status in _WORST_FIRST if status in seen)
