"""Mitigation: readout errors that are known are taken out, and qubits that wait are kept busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, get_args

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.canonical import sort_moments
from noetl.quantum.circuits.figures import is_count, is_probability, show
from noetl.quantum.circuits.measurements import unroll
from noetl.quantum.config import shapes
from noetl.quantum.model import Samples

#: `matrix[i, j]`: how likely a qubit in state i is read as j.
Matrix: TypeAlias = NDArray[np.float64]

_KEYS: Final = tuple(shapes.Mitigation.model_fields)
_SCHEMAS: Final = get_args(shapes.Pulses)
#: All 2^n bitstrings get a probability.
_MOST_BITS: Final = 20
#: Below this a matrix cannot be inverted in any useful way.
_LEAST_CONTRAST: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Calibrate:
    """The confusion matrices are to be measured, with so many repetitions of each of two
    circuits."""

    repetitions: int


@dataclass(frozen=True, slots=True)
class ConfusionMatrices:
    """Confusion matrices of single qubits: one of all, or one of each by its name. Errors of
    different qubits are taken to be independent (the tensor-product model of Bravyi et al., Phys.
    Rev. A 103, 042605 (2021))."""

    common: Matrix | None = None
    by_qubit: Mapping[str, Matrix] = field(default_factory=dict)

    def matrix(self, qubit: str) -> Matrix:
        """Raises ToolError where there is none of this qubit."""
        found = self.by_qubit.get(qubit, self.common)
        if found is None:
            have = ", ".join(self.by_qubit)
            raise _wrong("readout", f"there is no matrix of the qubit {qubit}; there are those of {have}.")
        return found

    def signs(self, qubit: str) -> NDArray[np.float64]:
        """What a bit that is read as 0, and as 1, counts for Z: v with matrix · v = (1, -1), so
        that the mean over what is read is the mean over what was there."""
        return np.asarray(np.linalg.solve(self.matrix(qubit), np.array([1.0, -1.0])))

    def as_json(self) -> JsonMap:
        if self.common is not None:
            return {"matrix": self.common.tolist()}
        return {"matrix": {qubit: matrix.tolist() for qubit, matrix in self.by_qubit.items()}}


@dataclass(frozen=True, slots=True)
class MitigationPlan:
    """A spec that was read. `vendor` is handed to the backend as it is."""

    readout: ConfusionMatrices | Calibrate | None = None
    decoupling: str | None = None
    vendor: JsonMap = field(default_factory=dict)


def parse(spec: Mapping[str, Json]) -> MitigationPlan:
    """Reads `mitigation`. Raises ToolError (`MitigationError`) that names the key."""
    for key in spec:
        if key not in _KEYS:
            raise _wrong(key, f"is unknown; there are {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}")
    vendor = spec.get("vendor", {})
    if not isinstance(vendor, Mapping):
        raise _wrong("vendor", f"is a mapping, not {show(vendor)}.")
    readout = spec.get("readout")
    return MitigationPlan(
        None if readout is None else _readout(readout), _schema(spec.get("dynamical_decoupling")), vendor
    )


def _wrong(place: str, what: str) -> ToolError:
    return ToolError("client_error", f"mitigation.{place}: {what}", type="MitigationError")


def _schema(value: Json) -> str | None:
    if value is None or value is False:
        return None
    name = "DEFAULT" if value is True else value
    if name not in _SCHEMAS:
        raise _wrong("dynamical_decoupling", f"is one of {', '.join(_SCHEMAS)}, not {show(value)}.")
    return str(name)


def _readout(value: Json) -> ConfusionMatrices | Calibrate:
    keys = set(value) if isinstance(value, Mapping) else set()
    if keys == {"calibrate"}:
        repetitions = value["calibrate"]
        if not is_count(repetitions):
            raise _wrong(
                "readout.calibrate", f"is a number of repetitions, from 1 on, not {show(repetitions)}."
            )
        return Calibrate(repetitions)
    if keys == {"matrix"}:
        matrix = value["matrix"]
        if not isinstance(matrix, Mapping) or not matrix:
            return ConfusionMatrices(_matrix(matrix, "readout.matrix"))
        by_qubit = {qubit: _matrix(one, f"readout.matrix.{qubit}") for qubit, one in matrix.items()}
        return ConfusionMatrices(by_qubit=by_qubit)
    if keys and keys <= {"p01", "p10"}:
        p01, p10 = (_probability(f"readout.{key}", value.get(key, 0)) for key in ("p01", "p10"))
        return ConfusionMatrices(_check(np.array([[1 - p01, p01], [p10, 1 - p10]]), "readout"))
    raise _wrong(
        "readout", f"is {{matrix}}, {{p01, p10}} or {{calibrate: <repetitions>}}, not {show(value)}."
    )


def _matrix(value: Json, place: str) -> Matrix:
    rows = value if isinstance(value, list) else []
    if len(rows) != 2 or not all(isinstance(row, list) and len(row) == 2 for row in rows):
        raise _wrong(place, f"is [[P(0|0), P(1|0)], [P(0|1), P(1|1)]] of one qubit, not {show(value)}.")
    matrix = np.array([[_probability(place, entry) for entry in row] for row in rows])
    if not np.allclose(matrix.sum(axis=1), 1, atol=1e-6):
        raise _wrong(place, "the probabilities of a row (of what was there) do not add up to 1.")
    return _check(matrix, place)


def _probability(place: str, value: Json) -> float:
    if not is_probability(value):
        raise _wrong(place, f"a probability is a number from 0 to 1, not {show(value)}.")
    return float(value)


def _check(matrix: Matrix, place: str) -> Matrix:
    if abs(np.linalg.det(matrix)) < _LEAST_CONTRAST:
        raise _wrong(place, "0 and 1 are read alike, so what is read says nothing.")
    return matrix


def decouple(circuit: cirq.AbstractCircuit, schema: str | None) -> cirq.Circuit:
    """`circuit` with pulses where qubits wait among gates of one qubit, by
    `cirq.add_dynamical_decoupling`. Nothing but the noise changes. Compile before, for what is put
    in is put in last."""
    whole = unroll(circuit)
    return whole if schema is None else sort_moments(cirq.add_dynamical_decoupling(whole, schema=schema))


def calibrations(circuit: cirq.AbstractCircuit) -> tuple[cirq.Circuit, cirq.Circuit]:
    """Two circuits that prepare zeros, and ones, on all qubits that `circuit` measures, and measure
    them. They need the compilation and the noise of the backend like any other. Raises ToolError
    where it measures nothing."""
    qubits = sorted(
        {qubit for op in unroll(circuit).all_operations() if cirq.is_measurement(op) for qubit in op.qubits}
    )
    if not qubits:
        raise _wrong(
            "readout.calibrate", "nothing is measured; exact expectation values have no errors of readout."
        )
    measurement = cirq.Moment(cirq.measure(*qubits, key="calibration"))
    return cirq.Circuit(measurement), cirq.Circuit(cirq.Moment(cirq.X.on_each(*qubits)), measurement)


def read_calibration(zeros: Samples, ones: Samples) -> ConfusionMatrices:
    """The confusion matrices that the two circuits of `calibrations` measured. Raises ToolError."""
    names = [name for one in zeros.measured for name in one.qubits]
    low, high = _ones(zeros), _ones(ones)
    return ConfusionMatrices(
        by_qubit={
            name: _check(np.array([[1 - p01, p01], [1 - p11, p11]]), f"readout.calibrate, {name}")
            for name, p01, p11 in zip(names, low, high, strict=True)
        }
    )


def _ones(samples: Samples) -> list[float]:
    """How often each bit was 1, of 1."""
    bits = np.array([list(text) for text in samples.counts], dtype=np.uint8)
    counts = np.array(list(samples.counts.values()), dtype=np.float64)
    shares: list[float] = (counts @ bits / counts.sum()).tolist()
    return shares


def mitigate(samples: Samples, readout: ConfusionMatrices) -> dict[str, float]:
    """The probabilities of bitstrings before they were misread.

    The inverse of the tensored confusion matrix turns frequencies into quasi-probabilities, which
    may be negative; the result is the nearest probability distribution in the Euclidean sense
    (Smolin, Gambetta, Smith, Phys. Rev. Lett. 108, 070502 (2012)). Bitstrings of probability 0 are
    left out. Raises ToolError of kind limit above 20 bits, for all 2^n bitstrings take part;
    expectation values have no such limit."""
    names = [name for one in samples.measured for name in one.qubits]
    if len(names) > _MOST_BITS:
        raise ToolError(
            "limit",
            f"mitigation.readout: a histogram of {len(names)} bits is too large to be mitigated "
            f"({_MOST_BITS} at most);"
            " measure fewer qubits, or give observables.",
            type="TooManyBits",
        )
    quasi = np.zeros((2,) * len(names))
    for text, count in samples.counts.items():
        quasi[tuple(map(int, text))] = count / samples.repetitions
    for axis, name in enumerate(names):
        inverse = np.linalg.inv(readout.matrix(name).T)
        quasi = np.moveaxis(np.tensordot(inverse, quasi, axes=(1, axis)), 0, axis)
    nearest = _nearest_distribution(quasi.reshape(-1))
    return {f"{place:0{len(names)}b}": float(nearest[place]) for place in np.flatnonzero(nearest)}


def _nearest_distribution(quasi: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distribution p that minimizes |p - quasi|, where `quasi` adds up to 1."""
    falling = np.sort(quasi)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    nearest: NDArray[np.float64] = np.maximum(quasi - excess[last], 0.0)
    return nearest
