"""Samples: from Cirq's results to bitstrings, and the seeds that they are drawn with.

A bitstring holds the bits of all measurements in the order of their keys, `c_2` before `c_10`. That
order depends neither on moments nor on qubits, so neither compilation nor routing changes it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.quantum.circuits.measurements import measurements_of, natural
from noetl.quantum.model import Samples

Bits = NDArray[np.uint8]


def draw_seed(idempotency_key: str) -> int:
    """The seed of a command that names none: the same however often the command is tried, in [0,
    2^63)."""
    digest = hashlib.sha256(f"seed:{idempotency_key}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def seed_of(seed: int, *place: int) -> int:
    """The seed, in [0, 2^63), of what stands at `place` (point, basis, part): independent streams
    by the spawn keys of `numpy.random.SeedSequence`, so nothing depends on what else is drawn, or
    on when."""
    low, high = np.random.SeedSequence(seed, spawn_key=place).generate_state(2, np.uint32)
    return (int(high) << 32 | int(low)) >> 1


def random_state(seed: int) -> np.random.RandomState:
    """A generator for Cirq, which takes only seeds of 32 bits."""
    return np.random.RandomState(np.random.PCG64(np.random.SeedSequence(seed)))


def samples_of(circuit: cirq.AbstractCircuit, records: Mapping[str, NDArray[np.generic]]) -> Samples:
    """What a run of `circuit` measured; `records` as in `cirq.Result.records`: by key, shape
    (repetitions, instances, bits)."""
    columns = [
        records[key][:, place, :]
        for key in sorted(records, key=natural)
        for place in range(records[key].shape[1])
    ]
    bits = np.concatenate(columns, axis=1).astype(np.uint8)
    return Samples(measurements_of(circuit), count_bitstrings(bits), bits)


def count_bitstrings(bits: Bits) -> dict[str, int]:
    """How often each bitstring came, in the order of the bitstrings; `bits` has shape (repetitions,
    bits)."""
    # Each row is read as one text by numpy, not bit by bit.
    texts = np.ascontiguousarray(bits + ord("0"), dtype=np.uint8).view(f"S{bits.shape[1]}").ravel()
    found, counts = np.unique(texts, return_counts=True)
    return dict(zip(found.astype(str).tolist(), counts.tolist(), strict=True))


def histogram(samples: Samples) -> dict[str, int]:
    """How often each bitstring came, in the order of the bitstrings, without those that never
    came."""
    return {text: samples.counts[text] for text in sorted(samples.counts) if samples.counts[text]}


def merge(parts: Sequence[Samples]) -> Samples:
    """The samples of all parts of one order's repetitions, in their order. At least one part."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.counts)
    bits = [part.bits for part in parts if part.bits is not None]
    whole = np.concatenate(bits) if len(bits) == len(parts) else None
    return Samples(parts[0].measured, {text: total[text] for text in sorted(total)}, whole)
