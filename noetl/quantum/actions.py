"""The actions of the tool, one function each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Later
from noetl.quantum.backends.choice import chosen
from noetl.quantum.circuits import canonical, checks
from noetl.quantum.circuits.compiling import compiled, counted
from noetl.quantum.experiment import Experiment
from noetl.quantum.jobs import actions as job_actions
from noetl.quantum.jobs.elsewhere import on_machine, orders_of
from noetl.quantum.jobs.limiter import Throttled
from noetl.quantum.limits import Need, room
from noetl.quantum.model import Estimate, LocalBackend, Point
from noetl.quantum.planning import planned
from noetl.quantum.results import earlier
from noetl.quantum.running import on_simulator
from noetl.quantum.session import Session
from noetl.quantum.simulation import mitigation
from noetl.quantum.simulation.sampling import unrolled
from noetl.quantum.verifying import verify


def act(session: Session) -> Outcome | Later:
    """One call of a task. Raises ToolError."""
    came = _acted(session)
    if isinstance(came, Later) and isinstance(came.checkpoint, Mapping):
        return replace(came, checkpoint={**came.checkpoint, **session.pins})
    return came


def _acted(session: Session) -> Outcome | Later:
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


def run(session: Session) -> Outcome | Later:
    """Samples circuits, or yields expectation values. Raises ToolError."""
    session = _with_seed(session)
    backend = chosen(session)
    experiment = planned(session, backend.capabilities())
    if isinstance(backend, LocalBackend):
        return on_simulator(session, experiment, backend)
    return on_machine(session, experiment, backend)


def _with_seed(session: Session) -> Session:
    """A task that goes on with a sweep goes on with its seed."""
    config = session.config
    if config.resume is None or config.seed is not None:
        return session
    found = earlier(config.resume, session.services.results, "resume")
    seed = found["provenance"].get("seed")
    return replace(session, config=config.model_copy(update={"seed": seed}))


def estimate(session: Session) -> Outcome | Later:
    """What a run would take; nothing is sent but the question. Raises ToolError."""
    backend = chosen(session)
    experiment = planned(session, backend.capabilities())
    orders = orders_of(experiment, 0, len(experiment.points))
    try:
        told = Estimate(0.0, "", 0, 0.0) if isinstance(backend, LocalBackend) else backend.estimate(orders)
    except Throttled as error:
        return Later(error.seconds)
    first = experiment.points[0]
    circuit = unrolled(experiment.sent(first)[0].circuit)
    qubits, after = len(circuit.all_qubits()), counted(circuit)
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
            "report": {"before": counted(unrolled(experiment.resolved(first))), "after": after},
            "bytes": checks.state_bytes(qubits, experiment.capabilities),
            "cost": told.cost,
            "currency": told.currency,
            "queue": told.queue,
            "queue_s": told.queue_s,
            **_fitting(experiment, told),
        }
    )


def _fitting(experiment: Experiment, told: Estimate) -> JsonMap:
    """How many of the points the limits let run. What a point costs is taken to be the same for all of them."""
    points = len(experiment.points)
    need = Need(
        points,
        experiment.shots,
        experiment.calibration_shots,
        lambda some: (told.cost or 0.0) * some / points,
    )
    try:
        fits = room(experiment.config.limits, need)
    except ToolError as error:
        return {"fits": 0, "stopped": error.extras["quantum"]["stopped"]}
    return {"fits": fits.points, "stopped": fits.stopped}


def compile_(session: Session) -> Outcome:
    """The circuits that would be sent, in Cirq's JSON. Raises ToolError."""
    backend = chosen(session)
    experiment = planned(session, backend.capabilities())
    found = [_compiled(experiment, point) for point in experiment.points]
    shared = {"resolved_sha256": canonical.sha256(experiment.text), "gateset": experiment.gateset or None}
    if len(found) == 1:
        return succeeded({**found[0], **shared})
    return succeeded({"points": found, **shared})


def _compiled(experiment: Experiment, point: Point) -> JsonMap:
    done = compiled(experiment.resolved(point), experiment.config.compile, experiment.capabilities)
    circuit = mitigation.decoupled(done.circuit, experiment.mitigation.decoupling)
    text, after = canonical.text(circuit), counted(circuit)
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
