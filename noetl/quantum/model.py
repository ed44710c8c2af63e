"""What the parts of the quantum tool hand to each other.

Bits are big-endian throughout: the first bit of a bitstring is the first qubit of the measurement,
as in Cirq's `big_endian_bits_to_int`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from noetl.facts.json import JsonMap

if TYPE_CHECKING:
    import cirq
    import numpy


@dataclass(frozen=True, slots=True)
class LoadedCircuit:
    """A circuit as it was given. `form` is the key it came from (`qasm2` and `qasm3` tell the
    version); `sha256` is of the text as given (of a builder: of its canonical JSON). `idle` are
    qubits that it has by what was written, and on which nothing acts: of a register of OpenQASM, of
    a builder. `text` is the canonical JSON of the circuit: what runs is what that says, down to the
    order of the operations of a moment."""

    circuit: cirq.Circuit
    form: str
    sha256: str
    idle: tuple[cirq.Qid, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a sweep: its place in the sweep, from 0, and the values of the symbols."""

    index: int
    params: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CircuitRun:
    """One circuit that is to be sampled: nothing is left to resolve, and it measures.

    `name` is unique within a task and stays the same whenever the task is run again: `p3`, `p3.zz`
    for a basis in which observables are measured, `p3/2` for the third part of its repetitions.
    `seed` is of this order alone."""

    name: str
    point: int
    circuit: cirq.Circuit
    repetitions: int
    seed: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measurement of a circuit: its key, and its qubits in the order of its bits."""

    key: str
    qubits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """What an order measured. Bitstrings have the bits of all `measured` in their order.

    `bits` are the repetitions one by one, shape (repetitions, bits), dtype uint8; None where a
    vendor tells only how often each bitstring came."""

    measured: tuple[Measurement, ...]
    counts: Mapping[str, int]
    bits: numpy.ndarray | None = None

    @property
    def repetitions(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do. Where `max_qubits` is None memory is the bound: `bytes_per_amplitude`
    times 2^n, or 4^n where `mixed`. `local`: it runs in the worker, at once and for nothing."""

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
    """What orders would take. None: the vendor does not report it. `currency` is that of `cost`
    (`usd`, `credits`)."""

    cost: float | None = None
    currency: str = ""
    queue: int | None = None
    queue_s: float | None = None


JobStatus = Literal["queued", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class JobState:
    """How a job stands. Instants are ISO 8601 in UTC; `queue_s`, `run_s` seconds; empty or
    None: unknown. `retryable`: it failed, and the same job may go well another time."""

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
