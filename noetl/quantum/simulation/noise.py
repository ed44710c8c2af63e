"""Noise models: channels behind the gates of a circuit, and errors of its readout.

Channels come after the moment of their gates, in the order of the spec. A gate is whatever is
unitary: identities (with which waiting is spelled), basis changes for observables and pulses of
dynamical decoupling too; measurements, resets and channels that the circuit has itself get none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, TypeAlias, cast, get_args

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.quantum.circuits.figures import is_number, is_probability, show
from noetl.quantum.circuits.measurements import unroll
from noetl.quantum.config import shapes
from noetl.quantum.config.shapes import On

Spec: TypeAlias = Mapping[str, Json] | Sequence[Mapping[str, Json]]

#: Channels of one qubit: the name of their parameter, and what makes them.
_ONE_QUBIT: Final[Mapping[str, tuple[str, Callable[[float], cirq.Gate]]]] = {
    "amplitude_damping": ("gamma", cirq.amplitude_damp),
    "phase_damping": ("gamma", cirq.phase_damp),
    "bit_flip": ("p", cirq.bit_flip),
    "phase_flip": ("p", cirq.phase_flip),
}
_KEYS: Final = tuple(shapes.Noise.model_fields)
_ON: Final = get_args(On)
#: Kraus operators of depolarizing are 4^n: of larger gates they are too many.
_MOST_QUBITS: Final = 3
#: How far the sum of K†K may be from the identity.
_COMPLETE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class NoiseChannel:
    """A channel of `width` qubits behind gates: of one qubit, it comes behind each qubit of a gate;
    of more, behind gates of just so many. `width` 0: behind all qubits of a gate at once, `gate`
    then takes their number."""

    name: str
    on: On
    width: int
    gate: Callable[[int], cirq.Gate]

    def behind(self, op: cirq.Operation) -> Iterator[cirq.Operation]:
        """The operations of the channel behind a gate. Raises ToolError (`NoiseError`) of a gate
        that is too large."""
        qubits = op.qubits
        if not qubits or self.on == ("two_qubit" if len(qubits) == 1 else "one_qubit"):
            return
        if self.width == 1:
            yield from (self.gate(1).on(qubit) for qubit in qubits)
        elif self.width == 0:
            if len(qubits) > _MOST_QUBITS:
                raise _wrong(
                    self.name,
                    f"the gate {op} has {len(qubits)} qubits, and at most {_MOST_QUBITS} are "
                    "depolarized together; name a gateset under `compile`.",
                )
            yield self.gate(len(qubits)).on(*qubits)
        elif self.width == len(qubits):
            yield self.gate(self.width).on(*qubits)


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """A spec that was read. `readout`: how likely a 0 is read as 1, and a 1 as 0. `canonical`: the
    same spec with all that it leaves out, for hashes."""

    channels: tuple[NoiseChannel, ...]
    readout: tuple[float, float] | None
    canonical: tuple[JsonMap, ...]


def add_noise(circuit: cirq.AbstractCircuit, spec: Spec) -> cirq.Circuit:
    """`circuit` with the channels and readout errors of `spec`. The noise of a conditional gate
    comes when the gate does. Raises ToolError (`NoiseError`)."""
    noise = parse(spec)
    moments: list[cirq.Moment] = []
    for moment in unroll(circuit):
        ops = [_misread(op, noise.readout) if noise.readout else op for op in moment]
        moments.append(cirq.Moment(ops))
        gates = [op for op in moment if _is_gate(op)]
        for channel in noise.channels:
            behind = [
                one.with_classical_controls(*op.classical_controls) if op.classical_controls else one
                for op in gates
                for one in channel.behind(op)
            ]
            moments += [cirq.Moment(behind)] if behind else []
    return cirq.Circuit(moments)


def _is_gate(op: cirq.Operation) -> bool:
    bare = op.without_classical_controls()
    return not cirq.is_measurement(bare) and (cirq.is_parameterized(bare) or cirq.has_unitary(bare))


def _misread(op: cirq.Operation, readout: tuple[float, float]) -> cirq.Operation:
    if not cirq.is_measurement(op):
        return op
    gate = op.gate
    if not isinstance(gate, cirq.MeasurementGate) or gate.confusion_map:
        raise _wrong("readout", f"{op} is no plain measurement; measure qubits one by one.")
    p01, p10 = readout
    matrix = np.array([[1 - p01, p01], [p10, 1 - p10]])
    confused = cirq.MeasurementGate(
        gate.num_qubits(),
        key=gate.mkey,
        invert_mask=gate.invert_mask,
        confusion_map={(place,): matrix for place in range(gate.num_qubits())},
    )
    return confused.on(*op.qubits).with_tags(*op.tags)


def parse(spec: Spec) -> NoiseModel:
    """Reads a spec: one mapping, or a list of them. Raises ToolError (`NoiseError`) that names the
    key."""
    channels: list[NoiseChannel] = []
    canonical: list[JsonMap] = []
    readout: tuple[float, float] | None = None
    for entry in [spec] if isinstance(spec, Mapping) else spec:
        for key, value in entry.items():
            if key == "readout":
                if readout is not None:
                    raise _wrong(key, "is there twice.")
                readout = _readout(value)
                canonical.append({key: {"p01": readout[0], "p10": readout[1]}})
            else:
                channel, full = _channel(key, value)
                channels.append(channel)
                canonical.append({key: full})
    return NoiseModel(tuple(channels), readout, tuple(canonical))


def _wrong(place: str, what: str) -> ToolError:
    return ToolError("client_error", f"noise.{place}: {what}", type="NoiseError")


def _channel(key: str, value: Json) -> tuple[NoiseChannel, JsonMap]:
    if key == "custom":
        return _custom(value)
    if key == "depolarize":
        p, on = _parameter(key, value, "p")
        return NoiseChannel(key, on, 0, cache(partial(cirq.depolarize, p))), {"p": p, "on": on}
    if key in _ONE_QUBIT:
        name, make = _ONE_QUBIT[key]
        p, on = _parameter(key, value, name)
        gate = make(p)
        return NoiseChannel(key, on, 1, lambda _: gate), {name: p, "on": on}
    raise _wrong(key, f"there is no such channel; there are {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}")


def _parameter(key: str, value: Json, name: str) -> tuple[float, On]:
    if not isinstance(value, Mapping):
        return _probability(key, value), "all"
    _only(key, value, (name, "on"))
    if name not in value:
        raise _wrong(key, f"needs `{name}`.")
    return _probability(f"{key}.{name}", value[name]), _on(key, value)


def _only(key: str, value: Mapping[str, Json], known: Sequence[str]) -> None:
    for name in value:
        if name not in known:
            raise _wrong(
                f"{key}.{name}", f"is unknown; there are {', '.join(known)}.{did_you_mean(name, known)}"
            )


def _on(key: str, value: Mapping[str, Json]) -> On:
    on = value.get("on", "all")
    if on not in _ON:
        raise _wrong(f"{key}.on", f"is one of {', '.join(_ON)}, not {show(on)}.")
    return cast(On, on)


def _probability(place: str, value: Json) -> float:
    if not is_probability(value):
        raise _wrong(place, f"is a number from 0 to 1, not {show(value)}.")
    return float(value)


def _readout(value: Json) -> tuple[float, float]:
    if not isinstance(value, Mapping):
        p = _probability("readout", value)
        return p, p
    _only("readout", value, tuple(shapes.Readout.model_fields))
    if not value:
        raise _wrong("readout", "needs `p01` (how likely a 0 is read as 1), `p10`, or both.")
    return _probability("readout.p01", value.get("p01", 0)), _probability("readout.p10", value.get("p10", 0))


def _custom(value: Json) -> tuple[NoiseChannel, JsonMap]:
    if not isinstance(value, Mapping) or ("kraus" in value) == ("pauli" in value):
        raise _wrong("custom", "needs `kraus`, a list of matrices, or `pauli`, a mapping such as {X: 0.01}.")
    _only("custom", value, tuple(shapes.Custom.model_fields))
    on = _on("custom", value)
    gate, width, full = _kraus(value["kraus"]) if "kraus" in value else _pauli(value["pauli"])
    if width > 1 and on == "one_qubit":
        raise _wrong("custom.on", f"a channel of {width} qubits cannot come behind gates of one.")
    return NoiseChannel("custom", on, width, lambda _: gate), {**full, "on": on}


def _pauli(value: Json) -> tuple[cirq.Gate, int, JsonMap]:
    place = "custom.pauli"
    if not isinstance(value, Mapping) or not value:
        raise _wrong(place, "is a mapping of Pauli strings to probabilities, such as {X: 0.01, Z: 0.02}.")
    width = len(str(next(iter(value)))) or 1
    for text in map(str, value):
        if len(text) != width or not set(text) <= set("IXYZ"):
            raise _wrong(
                f"{place}.{text}",
                f"is no string of {width} of the letters I, X, Y, Z; all have the same length.",
            )
    chances = {text: _probability(f"{place}.{text}", chance) for text, chance in value.items()}
    none = "I" * width
    rest = 1 - sum(chance for text, chance in chances.items() if text != none)
    if rest < -1e-9 or (none in chances and not math.isclose(chances[none], rest, abs_tol=1e-9)):
        raise _wrong(place, f"the probabilities add up to {sum(chances.values()):g}, and 1 is the most.")
    chances[none] = max(rest, 0.0)
    ordered = {text: chances[text] for text in sorted(chances)}
    return cirq.asymmetric_depolarize(error_probabilities=ordered), width, {"pauli": ordered}


def _kraus(value: Json) -> tuple[cirq.Gate, int, JsonMap]:
    place = "custom.kraus"
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise _wrong(place, "is a list of matrices; complex numbers are [re, im].")
    matrices = [_matrix(one, f"{place}[{number}]") for number, one in enumerate(value)]
    size = len(matrices[0])
    if size not in (2, 4) or any(len(matrix) != size for matrix in matrices):
        raise _wrong(place, "all matrices are 2×2, or all are 4×4.")
    with np.errstate(over="ignore", invalid="ignore"):
        off = float(np.abs(sum(matrix.conj().T @ matrix for matrix in matrices) - np.eye(size)).max())
    if not off <= _COMPLETE:
        raise _wrong(place, f"the sum of K†K is not the identity; an entry is off by {off:.3g}.")
    gate = cirq.KrausChannel(matrices, validate=False)
    parts = [[[[entry.real, entry.imag] for entry in row] for row in matrix.tolist()] for matrix in matrices]
    return gate, size.bit_length() - 1, {"kraus": parts}


def _matrix(value: Json, place: str) -> NDArray[np.complex128]:
    if not isinstance(value, list) or not all(
        isinstance(row, list) and len(row) == len(value) for row in value
    ):
        raise _wrong(place, "is no square matrix: a list of rows.")
    return np.array([[_complex(entry, place) for entry in row] for row in value], dtype=np.complex128)


def _complex(value: Json, place: str) -> complex:
    parts = value if isinstance(value, list) else [value, 0]
    if len(parts) != 2 or not all(map(is_number, parts)):
        raise _wrong(place, f"{show(value)} is no number; complex ones are [re, im].")
    return complex(*parts)
