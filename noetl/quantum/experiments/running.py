"""The actions that run circuits and yield points: `run` and `expect`, and `fetch` of a simulator's
job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.local import Simulator
from noetl.quantum.circuits import canonical
from noetl.quantum.circuits.measurements import measurements_of
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.kept import Parts
from noetl.quantum.experiments.limits import PointCost, point_budget
from noetl.quantum.experiments.results import (
    IDENTITY,
    earlier,
    keep_points,
    provenance,
    with_only_point,
)
from noetl.quantum.experiments.sweep import Sweep, SweepPoints
from noetl.quantum.session import TaskSession, now


@dataclass(frozen=True, slots=True)
class EarlierPoints:
    """What an earlier task has finished of the same sweep: its points and its tables, by name."""

    points: Sequence[dict[str, Any]] = ()
    tables: Parts = field(default_factory=dict)


def on_simulator(session: TaskSession, experiment: Experiment, backend: Simulator) -> Outcome | Later:
    """Runs a sweep, or goes on with it. Raises ToolError."""
    story = provenance(session, experiment)
    before = before_of(session, story)
    need = PointCost(
        len(experiment.points) - len(before.points), experiment.shots, experiment.calibration_shots
    )
    allowed = point_budget(experiment.config.limits, need)
    came = Sweep(session, experiment, backend, len(before.points), allowed, before.tables).run(
        identity(story)
    )
    if isinstance(came, Later):
        return came
    points = [*before.points, *came.points]
    stopped = came.stopped or allowed.stopped
    result = report(session, experiment, points, stopped, local_job(experiment, came), story)
    return succeeded({**result, **came.tables})


def identity(story: JsonMap) -> str:
    """A hash of what has to be the same for points to belong together."""
    return canonical.sha256(canonical.dumps({name: story[name] for name in IDENTITY}))


def before_of(session: TaskSession, story: JsonMap) -> EarlierPoints:
    """What `resume` hands over. Raises ToolError where it is of another experiment."""
    given = session.config.resume
    if given is None:
        return EarlierPoints()
    found = earlier(given, session.services.results, "resume")
    if differs := [name for name in IDENTITY if found["provenance"].get(name) != story.get(name)]:
        raise ToolError(
            "client_error",
            f"`resume` is the result of another experiment: {', '.join(differs)} differ from "
            "this task's. Give it the same circuit,"
            " sweep, noise, seed and backend.",
            type="OtherExperiment",
        )
    if found.get("complete"):
        raise ToolError(
            "client_error",
            "`resume` is the result of a sweep that is complete; nothing is left to run.",
            type="Complete",
        )
    tables: Parts = {name: [found[name]] for name in session.config.keep if name in found}
    return EarlierPoints(found["points"], tables)


def report(
    session: TaskSession,
    experiment: Experiment,
    points: list[dict[str, Any]],
    stopped: JsonMap | None,
    job: JsonMap,
    story: dict[str, Any],
) -> dict[str, Json]:
    """The result of a task whose points are there."""
    complete = len(points) == len(experiment.points)
    measurements = measurements_of(experiment.loaded.circuit) if experiment.histogram else ()
    return with_only_point(
        points,
        {
            "points": keep_points(points, session),
            "bits": {
                "order": "big-endian",
                "measured": [{"key": one.key, "qubits": list(one.qubits)} for one in measurements],
            },
            "seed": experiment.seed,
            "complete": complete,
            "next": None if complete else len(points),
            "stopped": None if complete else stopped,
            "job": job,
            "provenance": {**story, "compiled_sha256": compilation_sha256(experiment, points)},
        },
    )


def compilation_sha256(experiment: Experiment, points: Sequence[JsonMap]) -> str:
    """Of what was sent: of the circuit with its symbols where nothing is compiled, else of the only
    point's circuit, or of the hashes of the points' circuits, a line each."""
    if not experiment.compiles:
        return experiment.compilation_sha256(None)
    hashes = [str(point["compiled_sha256"]) for point in points]
    return hashes[0] if len(hashes) == 1 else canonical.sha256("\n".join(hashes))


def local_job(experiment: Experiment, came: SweepPoints) -> dict[str, Json]:
    return {
        "provider": experiment.capabilities.provider,
        "target": experiment.config.backend.target,
        "id": None,
        "submitted_at": came.started_at,
        "started_at": came.started_at,
        "finished_at": now(),
        "queue_s": 0.0,
        "run_s": round(came.run_s, 6),
        "cost": 0.0,
        "currency": "",
    }
