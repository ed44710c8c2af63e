"""IonQ's cloud: its simulators and its machines, by API v0.4
(https://docs.ionq.com/api-reference/v0.4).

The gate set and the form of circuits are those of `cirq_ionq`; the requests are our own (see
`api`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Protocol
from urllib.parse import quote

import cirq

from noetl.errors import ToolError
from noetl.facts.distribution import install_line
from noetl.facts.json import Json, JsonMap
from noetl.quantum.backends.api import VendorApi, api_of, check_options, number
from noetl.quantum.backends.ionq_answers import (
    CANCELLED,
    amount,
    are_before,
    jobs_of,
    number_of,
    state_of,
    weights_of,
)
from noetl.quantum.backends.ports import RemoteBackend
from noetl.quantum.circuits.measurements import counts_of, on_line, readout, width
from noetl.quantum.config.task import Backend, as_mapping
from noetl.quantum.model import Capabilities, CircuitRun, Estimate, JobState, Samples
from noetl.tools.kit.base import Services
from noetl.tools.kit.http.transport import HttpClient

HOST: Final = "https://api.ionq.co"
#: The key of the metadata of our jobs that the token stands under.
LABEL: Final = "noetl"
#: Keys that the metadata of a job may have.
_METADATA: Final = 10
#: Jobs on a page of a list, and pages that one look goes through.
_PAGE, _PAGES = 100, 50
#: Ids in one question after jobs.
_IDS: Final = 40
_OPTIONS: Final = ("noise", "settings", "sharpen", "settle_s", "requests_per_minute")
#: What the ideal simulator can hold. The machines differ, and refuse what is too large before it
#: costs anything.
_SIMULATOR_QUBITS: Final = 29


class IonQ(RemoteBackend):
    """`target` is `simulator` (the default) or a machine: `qpu.aria-1`, `qpu.forte-1`...
    `backend.options`: `noise` (`{model, seed}`, of the simulator), `settings` (`{error_mitigation:
    {debiasing: false}}`), `sharpen`, `settle_s`, `requests_per_minute`. `vendor` is laid over the
    settings."""

    def __init__(
        self, config: Backend, services: Services, client: HttpClient, vendor: JsonMap | None = None
    ) -> None:
        self._cirq_ionq = _module()
        self._target = config.target or "simulator"
        if self._target != "simulator" and not self._target.startswith("qpu."):
            raise ToolError(
                "client_error",
                f"IonQ has no target '{self._target[:100]}'; there are `simulator` and machines "
                "like `qpu.forte-1`.",
                type="UnknownTarget",
            )
        check_options("ionq", config.options, _OPTIONS)
        self._noise = as_mapping(config.options.get("noise"))
        self._settings = {**as_mapping(config.options.get("settings")), **(vendor or {})}
        self._sharpen = config.options.get("sharpen")
        self.settle_s = number(config.options, "settle_s", self.settle_s)
        base = f"{(config.host or HOST).rstrip('/')}/v0.4"
        self._api: VendorApi = api_of("ionq", base, "apiKey", config, services, client, 60.0)
        self._calibration: JsonMap | None = None
        #: All estimates of a call belong together: with one of them missing it begins again.
        self._has_estimated = False

    @property
    def _is_machine(self) -> bool:
        return self._target != "simulator"

    def capabilities(self) -> Capabilities:
        return Capabilities(
            provider="ionq",
            local=False,
            max_qubits=None if self._is_machine else _SIMULATOR_QUBITS,
            max_repetitions=1_000_000,
            gateset="ionq",
            versions={"cirq_ionq": str(self._cirq_ionq.__version__)},
        )

    def estimate(self, orders: Sequence[CircuitRun]) -> Estimate:
        """At most what IonQ asks for: jobs of the same size are priced by the largest of them."""
        cost, unit, queue_s = 0.0, "", 0.0
        sizes = sorted(_size(order) for order in orders)
        for (qubits, shots), group in groupby(sizes, key=lambda one: one[:2]):
            gates = [one[2:] for one in group]
            asked = {
                "backend": self._target,
                "qubits": qubits,
                "shots": shots,
                "1q_gates": max(one for one, _ in gates),
                "2q_gates": max(two for _, two in gates),
            }
            params = [(key, str(value)) for key, value in asked.items()]
            said = as_mapping(self._api.get("jobs/estimate", params, follows=self._has_estimated))
            self._has_estimated = True
            cost += len(gates) * number_of(said, "estimated_total_cost", "estimated_cost")
            unit = str(said.get("estimated_unit") or said.get("cost_unit") or unit)
            queue_s = max(queue_s, number_of(said, "current_predicted_queue_time") / 1000)
        return Estimate(cost=cost, currency=unit, queue_s=queue_s)

    def submit(self, order: CircuitRun, token: str) -> JobState:
        return self._api.submit("jobs", self._job(order, token), state_of)

    def find(self, tokens: Sequence[str], since: datetime) -> Mapping[str, Sequence[JobState]]:
        wanted = set(tokens)
        found: dict[str, list[JobState]] = {}
        for job in self._list(since):
            token = as_mapping(job.get("metadata")).get(LABEL)
            if isinstance(token, str) and token in wanted:
                found.setdefault(token, []).append(state_of(job))
        return {
            token: sorted(some, key=lambda job: (job.submitted_at, job.id)) for token, some in found.items()
        }

    def poll(self, job_id: str, *, follows: bool = False) -> JobState:
        return self._complete(state_of(self._api.get(f"jobs/{_path(job_id)}", follows=follows)))

    def look(self, job_ids: Sequence[str]) -> Mapping[str, JobState]:
        asked = list(job_ids[:_IDS])
        if len(asked) == 1:
            return {asked[0]: self.poll(asked[0])}
        said = self._api.get("jobs", [*(("ids", one) for one in asked), ("limit", str(_PAGE))])
        states = {state.id: state for state in map(state_of, jobs_of(said))}
        return {
            one: self._complete(states[one]) if one in states else self.poll(one, follows=True)
            for one in asked
        }

    def fetch(self, job_id: str, order: CircuitRun) -> Samples:
        params = [("sharpen", str(bool(self._sharpen)).lower())] if self._sharpen is not None else []
        said = self._api.get(f"jobs/{_path(job_id)}/results/probabilities", params)
        reads = readout(order.circuit)
        weights = weights_of(said, width(order.circuit), job_id)
        bits = ((reads.bits(_read_bit(state)), share) for state, share in weights)
        return Samples(reads.measured, counts_of(bits, order.repetitions))

    def cancel(self, job_id: str) -> JobState:
        # API v0.4 lets a job that is completed be cancelled, and its results are gone.
        state = self.poll(job_id)
        if state.status not in ("queued", "running"):
            return state
        said = self._api.end("PUT", f"jobs/{_path(job_id)}/status/cancel")
        # One that has just ended, or is to be stopped first, is asked for again.
        is_cancelled = as_mapping(said).get("status") in CANCELLED
        return replace(state, status="cancelled") if is_cancelled else self.poll(job_id, follows=True)

    def _job(self, order: CircuitRun, token: str) -> JsonMap:
        program = self._serialize(order)
        metadata = {LABEL: token, **program.metadata}
        if len(metadata) < _METADATA:
            metadata["shots"] = str(order.repetitions)
        job: dict[str, Json] = {
            "type": "ionq.circuit.v1",
            "name": f"noetl {order.name}",
            "backend": self._target,
            "shots": order.repetitions,
            "metadata": metadata,
            "input": program.input,
        }
        if self._settings:
            job["settings"] = self._settings
        if self._noise and not self._is_machine:
            job["noise"] = {"seed": order.seed % (1 << 31), **self._noise}
        return job

    def _serialize(self, order: CircuitRun) -> _Program:
        reads = readout(order.circuit)
        if not reads.measured:
            raise ToolError(
                "client_error", f"The circuit of {order.name} measures nothing.", type="NoMeasurement"
            )
        try:
            program: _Program = self._cirq_ionq.Serializer().serialize_single_circuit(on_line(order.circuit))
        except (ValueError, TypeError) as error:
            why = " ".join(str(error).split())[:300].rstrip(".")
            raise ToolError(
                "client_error",
                f"The circuit of {order.name} cannot be sent to IonQ: {why}.",
                type="NotSerializable",
            ) from error
        return program

    def _list(self, since: datetime) -> Iterator[JsonMap]:
        """The jobs of our target that were submitted since then. They come the newest first, which
        IonQ does not promise: a page in another order ends nothing."""
        after: str | None = None
        for _ in range(_PAGES):
            params = [("target", self._target), ("limit", str(_PAGE)), *([("next", after)] if after else [])]
            said = self._api.get("jobs", params, follows=after is not None)
            page = jobs_of(said)
            yield from page
            after = as_mapping(said).get("next")
            if not after or are_before(page, since):
                return
        raise ToolError(
            "limit",
            f"ionq: more than {_PAGE * _PAGES} jobs were submitted since this task began; ours "
            "cannot be distinguished from"
            " them by a list.",
            type="TooManyJobs",
        )

    def _complete(self, state: JobState) -> JobState:
        """The state of a job that is done, with what it has cost and how the machine was
        calibrated."""
        if state.status != "done" or not self._is_machine:
            return state
        cost = as_mapping(self._details(f"jobs/{_path(state.id)}/cost").get("cost"))
        value, unit = amount(cost.get("value")), str(cost.get("unit", ""))[:20]
        state = replace(state, calibration=self._calibration_of())
        return state if value is None else replace(state, cost=value, currency=unit)

    def _calibration_of(self) -> JsonMap:
        if self._calibration is None:
            said = self._details(f"backends/{_path(self._target)}/characterizations", [("limit", "1")])
            listed = said.get("characterizations")
            newest = as_mapping(next(iter(listed), None) if isinstance(listed, list) else None)
            self._calibration = {"id": newest.get("id"), "at": newest.get("date")} if newest else {}
        return self._calibration

    def _details(self, path: str, params: Sequence[tuple[str, str]] = ()) -> JsonMap:
        """What is good to know of a job that ran. Where IonQ refuses to tell it, its results are
        worth no less."""
        try:
            return as_mapping(self._api.get(path, params, follows=True))
        except ToolError as error:
            if error.kind != "client_error":
                raise
            return {}


class _Program(Protocol):
    """What of `cirq_ionq.SerializedProgram` is read."""

    input: JsonMap
    metadata: JsonMap


def _module() -> Any:
    try:
        # Imported here: it is an extra.
        import cirq_ionq
    except ImportError as error:
        raise ToolError(
            "client_error",
            f"The backend ionq needs the package cirq-ionq on the worker: {install_line('ionq')}.",
            type="NoDriver",
        ) from error
    return cirq_ionq


def _size(order: CircuitRun) -> tuple[int, int, int, int]:
    """Qubits, repetitions, gates on one qubit, gates on more."""
    gates = [op for op in order.circuit.all_operations() if not cirq.is_measurement(op)]
    several = sum(1 for op in gates if cirq.num_qubits(op) > 1)
    return cirq.num_qubits(order.circuit), order.repetitions, len(gates) - several, several


def _read_bit(state: int) -> Callable[[int], int]:
    """Qubit 0 is the lowest bit of a state's number."""
    return lambda qubit: state >> qubit & 1


def _path(part: str) -> str:
    return quote(part, safe="")
