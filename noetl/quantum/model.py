"""What the parts of the quantum tool hand to each other.

Bits are big-endian throughout: the first bit of a bitstring is the first qubit of the measurement, as in Cirq's
`big_endian_bits_to_int`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from noetl.errors import ToolError
from noetl.facts.json import JsonMap

if TYPE_CHECKING:
    import cirq
    import numpy

    from noetl.quantum.circuits.observables import Observable


@dataclass(frozen=True, slots=True)
class Loaded:
    """A circuit as it was given. `form` is the key it came from (`qasm2` and `qasm3` tell the version); `sha256` is of
    the text as given (of a builder: of its canonical JSON). `idle` are qubits that it has by what was written, and on which
    nothing acts: of a register of OpenQASM, of a builder."""

    circuit: cirq.Circuit
    form: str
    sha256: str
    idle: tuple[cirq.Qid, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep: its place in the sweep, from 0, and the values of the symbols."""

    index: int
    params: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Order:
    """One circuit that is to be sampled: nothing is left to resolve, and it measures.

    `name` is unique within a task and stays the same whenever the task is run again: `p3`, `p3.zz` for a basis in
    which observables are measured, `p3/2` for the third part of its repetitions. `seed` is of this order alone.
    """

    name: str
    point: int
    circuit: cirq.Circuit
    repetitions: int
    seed: int


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement of a circuit: its key, and its qubits in the order of its bits."""

    key: str
    qubits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """What came of an order. Bitstrings have the bits of all `measured` in their order.

    `bits` are the repetitions one by one, shape (repetitions, bits), dtype uint8; None where a vendor tells only
    how often each bitstring came.
    """

    measured: tuple[Measured, ...]
    counts: Mapping[str, int]
    bits: numpy.ndarray | None = None

    @property
    def repetitions(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do. Where `max_qubits` is None memory is the bound: `bytes_per_amplitude` times
    2^n, or 4^n where `mixed`. `local`: it runs in the worker, for nothing, and waits for nobody."""

    provider: str
    local: bool
    max_qubits: int | None = None
    max_repetitions: int | None = None
    exact: bool = False
    noise: bool = False
    mixed: bool = False
    clifford_only: bool = False
    bytes_per_amplitude: int | None = None
    #: The gate set that circuits are compiled to before they are sent; empty: none.
    gateset: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What orders would take. None: the vendor does not tell. `currency` is that of `cost` (`usd`, `credits`)."""

    cost: float | None = None
    currency: str = ""
    queue: int | None = None
    queue_s: float | None = None


JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class JobState:
    """How a job stands. Instants are ISO 8601 in UTC; `queue_s`, `run_s` seconds; empty or None: not told. `retryable`:
    it failed, and the same job may go well another time."""

    id: str
    status: JobStatus
    submitted_at: str = ""
    started_at: str = ""
    finished_at: str = ""
    queue_s: float | None = None
    run_s: float | None = None
    cost: float | None = None
    currency: str = ""
    message: str = ""
    retryable: bool = False
    calibration: JsonMap = field(default_factory=dict)


class LocalBackend(ABC):
    """A simulator. One instance is of one call; nothing in it is shared among threads."""

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def sample(self, order: Order) -> Samples:
        """The same order, seed included, yields the same bits wherever it runs. Raises ToolError."""

    @abstractmethod
    def expect(
        self,
        circuit: cirq.Circuit,
        observables: Sequence[Observable],
        qubits: Sequence[cirq.Qid] | None = None,
    ) -> Sequence[float]:
        """Exact expectation values in the state of a resolved circuit before its last measurements. `qubits` are those
        that the observables number, where they are not the circuit's own in their order. Raises ToolError."""

    @abstractmethod
    def state(self, circuit: cirq.Circuit, qubits: Sequence[cirq.Qid] | None = None) -> numpy.ndarray:
        """The state of a resolved circuit before its last measurements, in the order of `qubits`: shape (2^n,), or
        (2^n, 2^n) where `mixed`. Raises ToolError."""


class MaybeSubmitted(ToolError):
    """An order was sent and its answer never came: there may be a job, and there may be none."""


class RemoteBackend(ABC):
    """A vendor's machine. One job is one order. Every method is one or a few short requests and none of them waits
    for the job or tries again by itself: the task is called again (`noetl.pipeline.model.Later`). Raises ToolError,
    retryable where another try may help."""

    #: Whether `find` can tell what was submitted. Where it cannot, an order whose answer got lost is not sent again,
    #: unless the author would rather pay twice (`resubmits`).
    finds: bool = True
    resubmits: bool = False
    #: How long after a submission, in seconds, `find` may still miss its job.
    settle_s: float = 10.0

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def estimate(self, orders: Sequence[Order]) -> Estimate: ...

    @abstractmethod
    def submit(self, order: Order, token: str) -> JobState:
        """Sends the order with `token`, by which `find` finds it again. Raises MaybeSubmitted where nobody knows
        whether there is a job now; any other error means that there is none."""

    @abstractmethod
    def find(self, tokens: Sequence[str], since: datetime) -> Mapping[str, Sequence[JobState]]:
        """The jobs that were submitted with these tokens since then, by token, the oldest first."""

    @abstractmethod
    def poll(self, job_id: str) -> JobState: ...

    def look(self, job_ids: Sequence[str]) -> Mapping[str, JobState]:
        """How some jobs stand, by id: those that could be asked for in a few requests."""
        return {one: self.poll(one) for one in job_ids[:8]}

    @abstractmethod
    def fetch(self, job_id: str, order: Order) -> Samples:
        """What a job that is done measured."""

    @abstractmethod
    def cancel(self, job_id: str) -> JobState:
        """Cancels a job that has not ended; of one that has, says how it stands."""
