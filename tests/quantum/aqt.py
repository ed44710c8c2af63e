"""A mock of AQT's Arnica: it knows its jobs by id only, refuses angles out of range, and samples
for real."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import cirq

from tests.httpd import Handler, Server

TOKEN = "token-of-the-mock-that-nobody-may-see"


@dataclass
class Job:
    id: str
    label: str
    circuit: dict[str, Any]
    status: str = "queued"
    #: What it is said to have measured, where that is not what its circuit would.
    shots: Any = None


class AqtServer(Server):
    """Jobs stay as their `status` says until a test changes it."""

    def __init__(self) -> None:
        super().__init__()
        self.RequestHandlerClass = _Handler
        self.jobs: dict[str, Job] = {}
        self.drop_next = False


class _Handler(Handler):
    server: AqtServer

    def _ask(self) -> None:
        body = self.receive()
        path = self.path.removeprefix("/v1/").split("/")
        if self.headers.get("authorization") != f"Bearer {TOKEN}":
            return self.json({"detail": "Unauthorized"}, 401)
        match self.command, path:
            case "POST", ["submit", "default", "simulator"]:
                return self._submit(json.loads(body))
            case "GET", ["result", job_id]:
                job = self.server.jobs.get(job_id)
                return self.json(
                    {"job_id": job_id, "message": "unknown job_id"} if job is None else told(job)
                )
            case "DELETE", ["jobs", job_id]:
                self.server.jobs[job_id].status = "cancelled"
                return self.answer(status=204)
            case _:
                return self.json({"detail": "Resource not available in workspace."}, 404)

    do_GET = do_POST = do_DELETE = _ask  # noqa: N815 - the names of the base class

    def _submit(self, body: dict[str, Any]) -> None:
        (circuit,) = body["payload"]["circuits"]
        if not all(map(in_range, circuit["quantum_circuit"])):
            return self.json({"detail": [{"loc": ["body"], "msg": "out of range", "type": "value"}]}, 422)
        job = Job(str(uuid.uuid4()), body["label"], circuit)
        self.server.jobs[job.id] = job
        if self.server.drop_next:
            self.close_connection = True
            return None
        return self.json(told(job))


def in_range(operation: dict[str, Any]) -> bool:
    match operation["operation"]:
        case "R":
            return 0 <= operation["theta"] <= 1 and 0 <= operation["phi"] < 2
        case "RXX":
            return 0 <= operation["theta"] <= 0.5
        case name:
            return name in ("RZ", "MEASURE")


def told(job: Job) -> dict[str, Any]:
    response: dict[str, Any] = {"status": job.status}
    if job.status == "finished":
        response["result"] = {"0": sampled(job.circuit) if job.shots is None else job.shots}
    if job.status == "error":
        response["message"] = "the trap is empty"
    return {
        "job": {"job_id": job.id, "label": job.label, "job_type": "quantum_circuit"},
        "response": response,
    }


def rebuilt(circuit: dict[str, Any]) -> cirq.Circuit:
    """The circuit that was sent, without its measurement."""
    qubits = cirq.LineQubit.range(circuit["number_of_qubits"])
    return cirq.Circuit(_operation(one, qubits) for one in circuit["quantum_circuit"][:-1])


def _operation(said: dict[str, Any], qubits: list[cirq.LineQubit]) -> cirq.Operation:
    match said["operation"]:
        case "R":
            gate = cirq.PhasedXPowGate(exponent=said["theta"], phase_exponent=said["phi"])
            return gate.on(qubits[said["qubit"]])
        case "RZ":
            return cirq.Z(qubits[said["qubit"]]) ** said["phi"]
        case _:
            return cirq.XX(*(qubits[one] for one in said["qubits"])) ** said["theta"]


def sampled(circuit: dict[str, Any]) -> list[list[int]]:
    qubits = cirq.LineQubit.range(circuit["number_of_qubits"])
    measured = rebuilt(circuit) + cirq.measure(*qubits, key="m")
    ran = cirq.Simulator(seed=5).run(measured, repetitions=circuit["repetitions"])
    shots: list[list[int]] = ran.measurements["m"].tolist()
    return shots
