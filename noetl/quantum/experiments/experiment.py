"""What a task asks for, checked: the circuits that run at each point, and the results of their
samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import cirq

from noetl.errors import ToolError
from noetl.quantum.circuits import canonical, observables
from noetl.quantum.circuits.compiling import compile_circuit
from noetl.quantum.circuits.observables import Basis, Observable
from noetl.quantum.circuits.params import resolve
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.model import Capabilities, CircuitRun, LoadedCircuit, Point, Samples
from noetl.quantum.simulation import mitigation, noise, sampling
from noetl.quantum.simulation.mitigation import Calibrate, ConfusionMatrices, MitigationPlan

#: Repetitions that are held in memory one by one.
MOST_AT_ONCE: Final = 1_000_000
#: Orders that repetitions of one circuit are divided into.
_MOST_PARTS: Final = 10_000


@dataclass(frozen=True, slots=True)
class CircuitVariant:
    """One way of looking at a point: the circuit as it is (`name` is empty, `number` 0), or
    measured in a basis. `qubits` are those that the numbers in observables are places of; `sha256`
    is of what is sent, where it was compiled."""

    name: str
    number: int
    circuit: cirq.Circuit
    qubits: tuple[cirq.Qid, ...]
    sha256: str = ""


@dataclass(frozen=True)
class Experiment:
    """A task whose circuit is there. `histogram`: whether the circuit's own measurements are
    sampled; `sampled`: whether expectation values are. `repetitions` of each setting; 0 where
    everything is exact."""

    config: QuantumConfig
    capabilities: Capabilities
    loaded: LoadedCircuit
    points: tuple[Point, ...]
    observables: tuple[Observable, ...]
    histogram: bool
    sampled: bool
    repetitions: int
    seed: int

    @property
    def exact(self) -> bool:
        """Whether expectation values are computed."""
        return bool(self.observables) and not self.sampled

    @cached_property
    def qubits(self) -> tuple[cirq.Qid, ...]:
        """Those of the circuit as it was given: the numbers in observables are places here."""
        return tuple(sorted(self.loaded.circuit.all_qubits()))

    @cached_property
    def bases(self) -> tuple[Basis, ...]:
        return tuple(observables.bases(self.observables)) if self.sampled else ()

    @property
    def gateset(self) -> str:
        """What circuits are compiled to; empty: they run as they are."""
        return str((self.config.compile or {}).get("gateset", "") or self.capabilities.gateset)

    @property
    def compiles(self) -> bool:
        return self.config.compile is not None or bool(self.capabilities.gateset)

    @property
    def shots(self) -> int:
        """Repetitions of one point, all of its settings together."""
        return self.repetitions * (self.histogram + len(self.bases))

    def resolve(self, point: Point) -> cirq.Circuit:
        """The circuit with the values of a point in it."""
        return resolve(self.loaded.circuit, point)

    @cached_property
    def mitigation(self) -> MitigationPlan:
        return mitigation.parse(self.config.mitigation or {})

    @property
    def keeps_state(self) -> bool:
        return not {"state_vector", "density_matrix"}.isdisjoint(self.config.keep)

    @cached_property
    def _as_asked(self) -> tuple[CircuitVariant, ...]:
        """The settings as they were asked for: with the symbols in them, for no machine, without
        noise."""
        circuit, number = self.loaded.circuit, 0
        own = [CircuitVariant("", number, circuit, self.qubits)] if self.has_own else []
        return (
            *own,
            *(
                CircuitVariant(
                    basis.name, number, observables.measure_in(circuit, basis, self.qubits), self.qubits
                )
                for number, basis in enumerate(self.bases, 1)
            ),
        )

    @property
    def has_own(self) -> bool:
        """Whether the circuit itself is looked at, and not only in bases."""
        return not self.bases or self.histogram or self.keeps_state

    @cached_property
    def _ready(self) -> tuple[CircuitVariant, ...]:
        """Where nothing is compiled: the settings with pulses and noise, once for all points."""
        return tuple(self._noisy(self._compile_variant(one)) for one in self._as_asked)

    def at(self, point: Point) -> tuple[CircuitVariant, ...]:
        """The settings of a point as they run."""
        if not self.compiles:
            return tuple(_resolve(one, point) for one in self._ready)
        return tuple(map(self._noisy, self.compile_variants(point)))

    def compile_variants(self, point: Point) -> tuple[CircuitVariant, ...]:
        """The settings of a point as they are sent, and run without noise."""
        return tuple(self._compile_variant(_resolve(one, point)) for one in self._as_asked)

    def compilation_sha256(self, point: Point | None) -> str:
        """Of what is sent first for a point; None: of what is not compiled, whose symbols stay."""
        first = self._as_asked[0] if point is None else _resolve(self._as_asked[0], point)
        if first.circuit is self.loaded.circuit and not self.compiles and self.mitigation.decoupling is None:
            return canonical.sha256(self.loaded.text)
        sent = self._compile_variant(first)
        return sent.sha256 or canonical.sha256(canonical.text(sent.circuit))

    def _compile_variant(self, setting: CircuitVariant) -> CircuitVariant:
        """The setting as it is sent: compiled, with its pulses."""
        circuit, qubits, sha256 = setting.circuit, setting.qubits, ""
        if self.compiles:
            found = compile_circuit(circuit, self.config.compile, self.capabilities)
            circuit, qubits = found.circuit, found.qubits
        if self.mitigation.decoupling is not None:
            circuit = mitigation.decouple(circuit, self.mitigation.decoupling)
        if self.compiles:
            sha256 = canonical.sha256(canonical.text(circuit))
        return replace(setting, circuit=circuit, qubits=qubits, sha256=sha256)

    def _noisy(self, setting: CircuitVariant) -> CircuitVariant:
        if self.config.noise is None:
            return setting
        return replace(setting, circuit=noise.add_noise(setting.circuit, self.config.noise))

    def calibrations(self) -> list[CircuitRun]:
        """What has to be sampled so that errors of readout are known; nothing where they are, or
        where this is not asked for. Raises ToolError where that cannot be sampled."""
        readout = self.mitigation.readout
        if not isinstance(readout, Calibrate):
            return []
        if readout.repetitions > self._most:
            raise ToolError(
                "limit",
                f"mitigation.readout.calibrate: {readout.repetitions} repetitions do not go into "
                "one job, which has"
                f" {self._most} at most.",
                type="TooManyRepetitions",
            )
        measured = cirq.Circuit(op for one in self.at(self.points[0]) for op in one.circuit.all_operations())
        spec = {key: value for key, value in (self.config.compile or {}).items() if key != "placement"}
        orders = []
        for number, circuit in enumerate(mitigation.calibrations(measured)):
            sent = compile_circuit(circuit, spec, self.capabilities).circuit if self.compiles else circuit
            runs = self._noisy(CircuitVariant("", 0, sent, ())).circuit
            seed = sampling.seed_of(self.seed, number)
            orders.append(CircuitRun(f"calibration{number}", -1, runs, readout.repetitions, seed))
        return orders

    @property
    def calibration_shots(self) -> int:
        readout = self.mitigation.readout
        return 2 * readout.repetitions if isinstance(readout, Calibrate) else 0

    def readout(self, calibrated: Sequence[Samples]) -> ConfusionMatrices | None:
        """What is known of errors of readout; `calibrated` are the samples of `calibrations`."""
        found = self.mitigation.readout
        return mitigation.read_calibration(*calibrated) if isinstance(found, Calibrate) else found

    def orders(self, point: Point, setting: CircuitVariant) -> list[CircuitRun]:
        """What is sampled of a setting: one order, or as many as its repetitions are divided
        into."""
        if not (setting.number or self.histogram):
            return []
        return self.more(point, setting, 0, self.repetitions)

    def more(self, point: Point, setting: CircuitVariant, parts: int, repetitions: int) -> list[CircuitRun]:
        """Orders of so many further repetitions, where `parts` of the setting were there before."""
        stem = f"p{point.index}.{setting.name}" if setting.name else f"p{point.index}"
        return [
            CircuitRun(
                f"{stem}/{part}" if part else stem,
                point.index,
                setting.circuit,
                size,
                sampling.seed_of(self.seed, point.index, setting.number, part),
            )
            for part, size in enumerate(_parts(repetitions, self._most), parts)
        ]

    @property
    def _most(self) -> int:
        """Repetitions of one order."""
        bounds = (
            self.capabilities.max_repetitions or MOST_AT_ONCE,
            self.config.split and self.config.split.max_per_job,
        )
        return min(bound for bound in bounds if bound)


def _resolve(setting: CircuitVariant, point: Point) -> CircuitVariant:
    return replace(setting, circuit=resolve(setting.circuit, point)) if point.params else setting


def _parts(repetitions: int, most: int) -> list[int]:
    """`repetitions` in parts of at most `most`. Raises ToolError where they are too many."""
    whole, rest = divmod(repetitions, most)
    if whole > _MOST_PARTS:
        raise ToolError(
            "limit",
            f"{repetitions} repetitions would be {whole} jobs of {most}; {_MOST_PARTS} is the most.",
            type="TooManyJobs",
        )
    return [most] * whole + ([rest] if rest else [])
