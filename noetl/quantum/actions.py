"""The actions of the tool, one function each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.choice import choose_backend
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.backends.ports import LocalBackend
from noetl.quantum.circuits import canonical, checks
from noetl.quantum.circuits.compiling import compile_circuit, size_report
from noetl.quantum.circuits.measurements import unroll
from noetl.quantum.experiments.experiment import Experiment
from noetl.quantum.experiments.limits import PointCost, point_budget
from noetl.quantum.experiments.planning import plan
from noetl.quantum.experiments.results import earlier
from noetl.quantum.experiments.running import on_simulator
from noetl.quantum.jobs import actions as job_actions
from noetl.quantum.jobs.elsewhere import on_machine, orders_of
from noetl.quantum.model import Estimate, Point
from noetl.quantum.session import TaskSession
from noetl.quantum.simulation import mitigation
from noetl.quantum.verifying import verify


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
    backend = choose_backend(session)
    experiment = plan(session, backend.capabilities())
    if isinstance(backend, LocalBackend):
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
    backend = choose_backend(session)
    experiment = plan(session, backend.capabilities())
    orders = orders_of(experiment, 0, len(experiment.points))
    try:
        told = Estimate(0.0, "", 0, 0.0) if isinstance(backend, LocalBackend) else backend.estimate(orders)
    except Throttled as error:
        return Later(error.seconds)
    first = experiment.points[0]
    circuit = unroll(experiment.as_sent(first)[0].circuit)
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
    backend = choose_backend(session)
    experiment = plan(session, backend.capabilities())
    found = [_compile(experiment, point) for point in experiment.points]
    shared = {"resolved_sha256": canonical.sha256(experiment.text), "gateset": experiment.gateset or None}
    if len(found) == 1:
        return succeeded({**found[0], **shared})
    return succeeded({"points": found, **shared})


def _compile(experiment: Experiment, point: Point) -> JsonMap:
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
