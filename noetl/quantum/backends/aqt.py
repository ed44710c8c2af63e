"""AQT's cloud Arnica: simulators and ion traps, by its public API v1.

The gate set is that of `cirq_aqt`. The form of circuits is our own: `cirq_aqt` sends angles as they
are, and the API refuses those outside of its ranges; and it blocks until the job has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote

import cirq
import numpy

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.quantum.backends.api import VendorApi, api_of, check_options
from noetl.quantum.backends.ports import RemoteBackend, answer_error
from noetl.quantum.circuits.measurements import on_line, readout, width
from noetl.quantum.config.task import Backend, as_mapping
from noetl.quantum.model import Capabilities, CircuitRun, Estimate, JobState, JobStatus, Samples
from noetl.quantum.simulation.sampling import count_bitstrings
from noetl.tools.kit.base import Services
from noetl.tools.kit.http.transport import HttpClient

HOST: Final = "https://arnica.aqt.eu/api"
_OPTIONS: Final = ("requests_per_minute", "resubmit")
_STATUS: Final[Mapping[str, JobStatus]] = {
    "queued": "queued",
    "ongoing": "running",
    "finished": "done",
    "error": "failed",
    "cancelled": "cancelled",
}
#: Bounds of the API: qubits and repetitions of a circuit, and its operations.
_QUBITS, _REPETITIONS, _OPERATIONS = 20, 2000, 2000
#: An angle this near to a whole turn is none.
_NOTHING: Final = 1e-9


class Aqt(RemoteBackend):
    """`target` is `workspace/resource`, for instance `default/simulator_noise`. AQT has no list of
    jobs: an order whose answer got lost is not sent again, unless `backend.options` say `resubmit:
    true`."""

    finds = False

    def __init__(self, config: Backend, services: Services, client: HttpClient) -> None:
        workspace, slash, resource = (config.target or "").partition("/")
        if not (workspace and slash and resource) or "/" in resource:
            raise ToolError(
                "client_error",
                "The backend aqt needs `target: workspace/resource`, for instance `default/simulator_noise`.",
                type="UnknownTarget",
            )
        check_options("aqt", config.options, _OPTIONS)
        self.resubmits = config.options.get("resubmit") is True
        self._place = f"{quote(workspace, safe='')}/{quote(resource, safe='')}"
        base = f"{(config.host or HOST).rstrip('/')}/v1"
        self._api: VendorApi = api_of("aqt", base, "Bearer", config, services, client, 60.0)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            "aqt", local=False, max_qubits=_QUBITS, max_repetitions=_REPETITIONS, gateset="aqt"
        )

    def estimate(self, orders: Sequence[CircuitRun]) -> Estimate:  # noqa: ARG002 - the API tells neither price nor queue
        return Estimate()

    def submit(self, order: CircuitRun, token: str) -> JobState:
        body = {"job_type": "quantum_circuit", "label": token, "payload": {"circuits": [_circuit(order)]}}
        return self._api.submit(f"submit/{self._place}", body, _state)

    def find(self, tokens: Sequence[str], since: datetime) -> Mapping[str, Sequence[JobState]]:  # noqa: ARG002
        raise ToolError("internal", "AQT has no list of jobs.", type="NoList")

    def poll(self, job_id: str) -> JobState:
        return _state(self._result(job_id))

    def fetch(self, job_id: str, order: CircuitRun) -> Samples:
        said = as_mapping(as_mapping(self._result(job_id)).get("response")).get("result")
        reads, qubits = readout(order.circuit), width(order.circuit)
        try:
            shots = numpy.array(as_mapping(said)["0"])
        except (KeyError, ValueError) as error:
            raise answer_error("aqt", f"the result of job {job_id} holds no repetitions") from error
        if shots.shape != (order.repetitions, qubits) or shots.dtype != int or not set(shots.flat) <= {0, 1}:
            raise answer_error(
                "aqt", f"the result of job {job_id} is not {order.repetitions} times {qubits} bits"
            )
        bits = shots.astype(numpy.uint8)[:, list(reads.places)] ^ numpy.array(reads.flips, dtype=numpy.uint8)
        return Samples(reads.measured, count_bitstrings(bits), bits)

    def cancel(self, job_id: str) -> JobState:
        state = self.poll(job_id)
        if state.status not in ("queued", "running"):
            return state
        self._api.end("DELETE", f"jobs/{quote(job_id, safe='')}")
        return self.poll(job_id)

    def _result(self, job_id: str) -> Json:
        said = self._api.get(f"result/{quote(job_id, safe='')}")
        if as_mapping(said).get("message") == "unknown job_id":
            raise ToolError("client_error", f"aqt knows no job {job_id[:100]}.", type="UnknownJob")
        return said


def _state(said: Json) -> JobState:
    job, response = (as_mapping(as_mapping(said).get(name)) for name in ("job", "response"))
    status = _STATUS.get(str(response.get("status")))
    if status is None or not job.get("job_id"):
        raise answer_error("aqt", f"a job has the status {str(response.get('status'))[:40]!r}")
    return JobState(str(job["job_id"]), status, message=str(response.get("message") or "")[:300])


def _circuit(order: CircuitRun) -> JsonMap:
    """The circuit as the API takes it: rotations in units of π, and one measurement of all qubits
    at the end."""
    if not readout(order.circuit).measured:
        raise ToolError(
            "client_error", f"The circuit of {order.name} measures nothing.", type="NoMeasurement"
        )
    operations: list[JsonMap] = []
    for op in on_line(order.circuit).all_operations():
        if not cirq.is_measurement(op):
            operations += _operation(order.name, op)
    if len(operations) >= _OPERATIONS:
        raise ToolError(
            "limit",
            f"The circuit of {order.name} has more than {_OPERATIONS} operations.",
            type="TooManyOperations",
        )
    return {
        "repetitions": order.repetitions,
        "quantum_circuit": [*operations, {"operation": "MEASURE"}],
        "number_of_qubits": width(order.circuit),
    }


def _operation(name: str, op: cirq.Operation) -> Iterator[JsonMap]:
    places = [one.x for one in op.qubits if isinstance(one, cirq.LineQubit)]
    gate = op.gate
    if gate is None or cirq.is_parameterized(gate):
        raise _not_native(name, op)
    match gate:
        case cirq.ZPowGate():
            yield {"operation": "RZ", "qubit": places[0], "phi": float(gate.exponent)}
        case cirq.PhasedXPowGate():
            yield from _rotation(places[0], float(gate.exponent), float(gate.phase_exponent))
        case cirq.XPowGate():
            yield from _rotation(places[0], float(gate.exponent), 0.0)
        case cirq.YPowGate():
            yield from _rotation(places[0], float(gate.exponent), 0.5)
        case cirq.XXPowGate():
            yield from _entangling(places, float(gate.exponent))
        case _:
            raise _not_native(name, op)


def _rotation(qubit: int, theta: float, phi: float) -> Iterator[JsonMap]:
    """R(θ, φ): 0 ≤ θ ≤ 1, 0 ≤ φ < 2. A turn the other way round is one about the opposite axis."""
    theta = _wrap(theta)
    if theta < 0:
        theta, phi = -theta, phi + 1
    if theta > _NOTHING:
        # Once more: what is a little below zero becomes 2, which is no angle of the API.
        yield {"operation": "R", "qubit": qubit, "theta": theta, "phi": phi % 2 % 2}


def _entangling(qubits: Sequence[int], theta: float) -> Iterator[JsonMap]:
    """RXX(θ): 0 ≤ θ ≤ 1/2. XX² is the identity but for a phase, so a turn beyond a quarter is a
    flip of both qubits and one back; and Z on one qubit turns the direction round."""
    theta = _wrap(theta)
    if abs(theta) > 0.5:
        for one in qubits:
            yield from _rotation(one, 1.0, 0.0)
        theta -= 1.0 if theta > 0 else -1.0
    if abs(theta) <= _NOTHING:
        return
    turned = {"operation": "RZ", "qubit": qubits[0], "phi": 1.0}
    if theta < 0:
        yield turned
    yield {"operation": "RXX", "qubits": list(qubits), "theta": abs(theta)}
    if theta < 0:
        yield turned


def _wrap(theta: float) -> float:
    """The angle in (-1, 1]: two are a whole turn, but for a phase."""
    return 1.0 - (1.0 - theta) % 2.0


def _not_native(name: str, op: cirq.Operation) -> ToolError:
    return ToolError(
        "client_error",
        f"The circuit of {name} has {str(op)[:100]}, which AQT cannot run; compile it for the "
        "gate set `aqt`.",
        type="NotSerializable",
    )
