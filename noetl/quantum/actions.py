"""The actions of the tool, one function each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.backends.local import Simulator
from noetl.quantum.circuits import canonical, checks
from noetl.quantum.circuits.compiling import compile_circuit, size_report
from noetl.quantum.circuits.measurements import unroll
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.limits import PointBudget, PointCost, point_budget
from noetl.quantum.experiments.planning import plan
from noetl.quantum.experiments.results import earlier, open_task, provenance, repeat_config
from noetl.quantum.experiments.running import compilation_sha256, identity, on_simulator
from noetl.quantum.experiments.sweep import Sweep
from noetl.quantum.jobs import actions as job_actions
from noetl.quantum.jobs.elsewhere import on_machine, orders_of
from noetl.quantum.model import Estimate, Point
from noetl.quantum.session import TaskSession
from noetl.quantum.simulation import mitigation


def act(session: TaskSession) -> Outcome | Later:
    """One call of a task. Raises ToolError."""
    came = _act(session)
    if isinstance(came, Later) and isinstance(came.checkpoint, Mapping):
        return replace(came, checkpoint={**came.checkpoint, **session.pins})
    return came


def _act(session: TaskSession) -> Outcome | Later:
    match session.config.action:
        case "run" | "expect":
            return run(session)
        case "estimate":
            return estimate(session)
        case "compile":
            return compile_(session)
        case "submit":
            return job_actions.submit(session)
        case "poll":
            return job_actions.poll(session)
        case "fetch":
            return job_actions.fetch(session)
        case "cancel":
            return job_actions.cancel(session)
        case "verify":
            return verify(session)
        case _:
            assert_never(session.config.action)


def run(session: TaskSession) -> Outcome | Later:
    """Samples circuits, or yields expectation values. Raises ToolError."""
    session = _with_seed(session)
    experiment, backend = plan(session)
    if isinstance(backend, Simulator):
        return on_simulator(session, experiment, backend)
    return on_machine(session, experiment, backend)


def _with_seed(session: TaskSession) -> TaskSession:
    """A task that goes on with a sweep goes on with its seed."""
    config = session.config
    if config.resume is None or config.seed is not None:
        return session
    found = earlier(config.resume, session.services.results, "resume")
    seed = found["provenance"].get("seed")
    return replace(session, config=config.model_copy(update={"seed": seed}))


def estimate(session: TaskSession) -> Outcome | Later:
    """What a run would take; nothing is sent but the question. Raises ToolError."""
    experiment, backend = plan(session)
    orders = orders_of(experiment, 0, len(experiment.points))
    try:
        told = Estimate(0.0, "", 0, 0.0) if isinstance(backend, Simulator) else backend.estimate(orders)
    except Throttled as error:
        return Later(error.seconds)
    first = experiment.points[0]
    circuit = unroll(experiment.compile_variants(first)[0].circuit)
    qubits, after = len(circuit.all_qubits()), size_report(circuit)
    return succeeded(
        {
            "provider": experiment.capabilities.provider,
            "target": experiment.config.backend.target,
            "points": len(experiment.points),
            "orders": len(orders),
            "repetitions": sum(order.repetitions for order in orders),
            "qubits": qubits,
            "depth": after["depth"],
            "operations": after["operations"],
            "report": {"before": size_report(unroll(experiment.resolve(first))), "after": after},
            "bytes": checks.state_bytes(qubits, experiment.capabilities),
            "cost": told.cost,
            "currency": told.currency,
            "queue": told.queue,
            "queue_s": told.queue_s,
            **_fitting(experiment, told),
        }
    )


def _fitting(experiment: Experiment, told: Estimate) -> JsonMap:
    """How many of the points the limits let run. What a point costs is taken to be the same for all
    of them."""
    points = len(experiment.points)
    need = PointCost(
        points,
        experiment.shots,
        experiment.calibration_shots,
        lambda some: (told.cost or 0.0) * some / points,
    )
    try:
        fits = point_budget(experiment.config.limits, need)
    except ToolError as error:
        return {"fits": 0, "stopped": error.extras["quantum"]["stopped"]}
    return {"fits": fits.points, "stopped": fits.stopped}


def compile_(session: TaskSession) -> Outcome:
    """The circuits that would be sent, in Cirq's JSON. Raises ToolError."""
    experiment, _ = plan(session)
    found = [_compile_point(experiment, point) for point in experiment.points]
    shared = {
        "resolved_sha256": canonical.sha256(experiment.loaded.text),
        "gateset": experiment.gateset or None,
    }
    if len(found) == 1:
        return succeeded({**found[0], **shared})
    return succeeded({"points": found, **shared})


def _compile_point(experiment: Experiment, point: Point) -> JsonMap:
    done = compile_circuit(experiment.resolve(point), experiment.config.compile, experiment.capabilities)
    circuit = mitigation.decouple(done.circuit, experiment.mitigation.decoupling)
    text, after = canonical.text(circuit), size_report(circuit)
    return {
        "index": point.index,
        "params": dict(point.params),
        "circuit": text,
        "sha256": canonical.sha256(text),
        "qubits": len(circuit.all_qubits()),
        "depth": after["depth"],
        "operations": after["operations"],
        "report": {**done.report, "after": after},
    }


#: Differences that are shown one by one.
_MOST_SHOWN: Final = 20
#: How far exact expectation values may be apart: amplitudes of 8 bytes have seven digits, and
#: processors differ in the last.
_TOLERANCE: Final = 1e-5
#: Hashes that have to be equal.
_HASHES: Final = ("resolved_sha256", "compiled_sha256", "sweep_sha256", "noise_sha256")


def verify(session: TaskSession) -> Outcome | Later:
    """Runs the experiment of `of` again, as many points as that has. Raises ToolError
    (`Differs`)."""
    of = earlier(session.config.of, session.services.results, "of")
    task = open_task(of["provenance"].get("task"), session, "of.provenance.task")
    inner = replace(session, config=repeat_config(task, "of.provenance.task"))
    experiment, backend = plan(inner)
    story = provenance(inner, experiment)
    was: list[Any] = of["points"]
    if isinstance(backend, Simulator):
        came = Sweep(inner, experiment, backend, 0, PointBudget(len(was))).run(identity(story))
        if isinstance(came, Later):
            return came
        points: list[dict[str, Any]] | None = came.points
    else:
        # What a machine measured cannot be measured again, and every try is paid for.
        points = None
    compiled: Sequence[JsonMap] = points or []
    if points is None and experiment.compiles:
        repeated = experiment.points[: len(was)]
        compiled = [{"compiled_sha256": experiment.compilation_sha256(point)} for point in repeated]
    now = {**story, "compiled_sha256": compilation_sha256(experiment, compiled)}
    return _judge(session, of["provenance"], now, was, points)


def _judge(
    session: TaskSession,
    before: JsonMap,
    now: JsonMap,
    was: Sequence[JsonMap],
    points: Sequence[JsonMap] | None,
) -> Outcome:
    found: list[JsonMap] = [
        {"what": name, "was": before.get(name), "is": now.get(name)}
        for name in _HASHES
        if before.get(name) != now.get(name)
    ]
    if points is not None:
        found += [one for pair in zip(was, points, strict=True) for one in _compare_points(*pair)]
    result: dict[str, Json] = {
        "verified": not found,
        "repeated": points is not None,
        "points": len(was),
        "differences": found[:_MOST_SHOWN],
        "differing": len(found),
        "versions_differ": [
            {"name": name, "was": old, "is": now["versions"].get(name)}
            for name, old in (before.get("versions") or {}).items()
            if now["versions"].get(name) != old
        ],
    }
    if found and session.config.on_difference == "fail":
        raise ToolError("client_error", _describe(result), type="Differs", extras={"quantum": result})
    return succeeded(result)


def _compare_points(was: JsonMap, now: JsonMap) -> Iterator[JsonMap]:
    place = f"points[{was.get('index')}]"
    for name in ("params", "histogram", "repetitions"):
        if was.get(name) != now[name]:
            yield {"what": f"{place}.{name}", "was": was.get(name), "is": now[name]}
    means = was.get("means") or {}
    for name, mean in now["means"].items():
        before = means.get(name)
        # NaN is close to nothing.
        known = float(before) if isinstance(before, int | float) else math.nan
        if not math.isclose(known, mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
            yield {"what": f"{place}.means.{name}", "was": before, "is": mean}


def _describe(result: JsonMap) -> str:
    first, versions = result["differences"][0]["what"], result["versions_differ"]
    others = f" and {result['differing'] - 1} more" if result["differing"] > 1 else ""
    why = ", ".join(f"{one['name']} {one['was']} then, {one['is']} now" for one in versions)
    return (
        f"The result could not be repeated: {first}{others} differ. "
        + (
            f"Versions differ: {why}."
            if why
            else "The versions are the same, so the result was changed or its seed is another one."
        )
        + " `on_difference: report` yields the differences as a result."
    )
