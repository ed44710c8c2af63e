"""Samples: from Cirq's results to bitstrings, and the seeds that they are drawn with.

A bitstring holds the bits of all measurements in the order of their keys, `c_2` before `c_10`. That order depends neither
on moments nor on qubits, so neither compilation nor routing changes it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.quantum.model import Measured, Samples

Bits = NDArray[np.uint8]
#: Where the digits of a key are.
_DIGITS: Final = re.compile(r"(\d+)")


def drawn_seed(idempotency_key: str) -> int:
    """The seed of a command that names none: the same however often the command is tried, in [0, 2^63)."""
    digest = hashlib.sha256(f"seed:{idempotency_key}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def seed_of(seed: int, *place: int) -> int:
    """The seed, in [0, 2^63), of what stands at `place` (point, basis, part): independent streams by the spawn keys of
    `numpy.random.SeedSequence`, so nothing depends on what else is drawn, or on when."""
    low, high = np.random.SeedSequence(seed, spawn_key=place).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) >> 1


def random_state(seed: int) -> np.random.RandomState:
    """A generator of its own for Cirq, which by itself takes seeds of 32 bits only."""
    return np.random.RandomState(np.random.PCG64(np.random.SeedSequence(seed)))


def natural(text: str) -> tuple[str | int, ...]:
    """Orders texts with numbers in them by the numbers: `c_2` before `c_10`."""
    return tuple(int(part) if place % 2 else part for place, part in enumerate(_DIGITS.split(text)))


def unrolled(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """`circuit` with its subcircuits written out. Raises ToolError (`UnboundedLoop`) of one that runs until a condition
    holds: repetitions would have different numbers of bits."""
    if not any(isinstance(op.untagged, cirq.CircuitOperation) for op in circuit.all_operations()):
        return circuit.unfreeze(copy=False)
    try:
        return cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None).unfreeze()
    except ValueError as error:
        raise ToolError(
            "client_error",
            f"The circuit has a subcircuit whose repetitions are not known before it runs: {error}.",
            type="UnboundedLoop",
        ) from error


def measured(circuit: cirq.AbstractCircuit) -> tuple[Measured, ...]:
    """The measurements of a circuit in the order of their bits. A key that is measured more than once is `key[0]`,
    `key[1]`, ...; a measurement of a Pauli product has one bit, and its qubits as one name."""
    found: dict[str, list[tuple[str, ...]]] = {}
    # Moments know whether they measure; asking every gate takes long enough to be seen in a sweep.
    moments = (moment for moment in unrolled(circuit) if cirq.measurement_key_objs(moment))
    for op in (op for moment in moments for op in moment):
        for key in sorted(cirq.measurement_key_names(op)):
            found.setdefault(key, []).append(_names(op))
    return tuple(
        Measured(key if len(found[key]) == 1 else f"{key}[{place}]", names)
        for key in sorted(found, key=natural)
        for place, names in enumerate(found[key])
    )


def _names(op: cirq.Operation) -> tuple[str, ...]:
    names = tuple(str(qubit) for qubit in op.qubits)
    return ("*".join(names),) if isinstance(op.gate, cirq.PauliMeasurementGate) else names


def samples_of(circuit: cirq.AbstractCircuit, records: Mapping[str, NDArray[np.generic]]) -> Samples:
    """What a run of `circuit` measured; `records` as in `cirq.Result.records`: by key, shape (repetitions, instances,
    bits)."""
    columns = [
        records[key][:, place, :]
        for key in sorted(records, key=natural)
        for place in range(records[key].shape[1])
    ]
    bits = np.concatenate(columns, axis=1).astype(np.uint8)
    return Samples(measured(circuit), counted(bits), bits)


def counted(bits: Bits) -> dict[str, int]:
    """How often each bitstring came, in the order of the bitstrings; `bits` has shape (repetitions, bits)."""
    # Each row is read as one text by numpy, not bit by bit.
    texts = np.ascontiguousarray(bits + ord("0"), dtype=np.uint8).view(f"S{bits.shape[1]}").ravel()
    found, counts = np.unique(texts, return_counts=True)
    return dict(zip(found.astype(str).tolist(), counts.tolist(), strict=True))


def histogram(samples: Samples) -> dict[str, int]:
    """How often each bitstring came, in the order of the bitstrings, without those that never came."""
    return {text: samples.counts[text] for text in sorted(samples.counts) if samples.counts[text]}


def merged(parts: Sequence[Samples]) -> Samples:
    """The samples of all parts of one order's repetitions, in their order. At least one part."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.counts)
    bits = [part.bits for part in parts if part.bits is not None]
    whole = np.concatenate(bits) if len(bits) == len(parts) else None
    return Samples(parts[0].measured, {text: total[text] for text in sorted(total)}, whole)
