"""Means of observables: estimates from samples with their standard errors, and exact ones in the
states of Clifford circuits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.quantum.circuits.observables import KEY, Basis, Factors, Observable
from noetl.quantum.model import Samples
from noetl.quantum.simulation.mitigation import ConfusionMatrices

Reals: TypeAlias = NDArray[np.float64]

#: Repetitions of each basis that run before the standard error is looked at again.
_MOST_AT_ONCE: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its standard error: 0 of an exact mean, None where one repetition tells nothing of
    it."""

    observable: str
    mean: float
    stderr: float | None


def from_samples(
    observables: Sequence[Observable],
    sampled: Sequence[tuple[Basis, Samples]],
    readout: ConfusionMatrices | None = None,
) -> list[Mean]:
    """Means and standard errors from what was measured in each basis.

    Each term is taken from the first basis that covers it. Within a basis b the terms of an
    observable add up to one value y per repetition, so that their covariances are those of the
    samples: with s_b^2 the unbiased sample variance of y over the N_b repetitions, var(mean) = sum
    over b of s_b^2 / N_b (for the covariances of terms that are measured together see McClean et
    al., New J. Phys. 18, 023023 (2016)).

    With `readout` the sign of each bit is replaced by its mitigated value (see
    `mitigation.Readout.signs`), which is unbiased; the standard error is that of the mitigated
    values, larger than that of the raw ones."""
    seen = [_tally(basis, samples, readout) for basis, samples in sampled]
    bases = [frozenset(basis.letters) for basis, _ in sampled]
    needed = dict.fromkeys(factors for one in observables for _, factors in one.terms if factors)
    homes = {
        factors: next(place for place, letters in enumerate(bases) if letters.issuperset(factors))
        for factors in needed
    }
    return [_mean(one, seen, homes) for one in observables]


@dataclass(frozen=True, slots=True)
class _Tally:
    """What was measured in a basis: how often each bitstring came, and for each number of a qubit
    what it counts for Z in each of them."""

    counts: Reals
    signs: Mapping[int, Reals]

    @property
    def repetitions(self) -> int:
        return int(self.counts.sum())

    def sums(self, terms: Sequence[tuple[float, Factors]]) -> Reals:
        """The value of the sum of `terms` in each bitstring."""
        values = np.zeros(len(self.counts))
        for coefficient, factors in terms:
            product = np.full(len(values), coefficient)
            for place, _ in factors:
                product *= self.signs[place]
            values += product
        return values


def _tally(basis: Basis, samples: Samples, readout: ConfusionMatrices | None) -> _Tally:
    start, names = _columns(samples)
    texts = np.array([list(text[start : start + len(names)]) for text in samples.counts], dtype=np.uint8)
    weights = [np.array([1.0, -1.0]) if readout is None else readout.signs(name) for name in names]
    signs = {place: weights[column][texts[:, column]] for column, (place, _) in enumerate(basis.letters)}
    return _Tally(np.array(list(samples.counts.values()), dtype=np.float64), signs)


def _mean(observable: Observable, seen: Sequence[_Tally], homes: Mapping[Factors, int]) -> Mean:
    by_home: dict[int, list[tuple[float, Factors]]] = {}
    for coefficient, factors in observable.terms:
        if factors:
            by_home.setdefault(homes[factors], []).append((coefficient, factors))
    mean = sum(coefficient for coefficient, factors in observable.terms if not factors)
    variance: float | None = 0.0
    for home, terms in sorted(by_home.items()):
        values, counts, total = seen[home].sums(terms), seen[home].counts, seen[home].repetitions
        part = float(values @ counts) / total
        mean += part
        if total < 2:
            variance = None
        elif variance is not None:
            variance += float((values - part) ** 2 @ counts) / (total - 1) / total
    return Mean(observable.name, mean, None if variance is None else math.sqrt(variance))


def _columns(samples: Samples) -> tuple[int, tuple[str, ...]]:
    """Where the bits under `KEY` start, and their qubits."""
    start = 0
    for one in samples.measured:
        if one.key == KEY:
            return start, one.qubits
        start += len(one.qubits)
    raise ValueError(f"these samples have no measurement {KEY!r}")


def more_repetitions(means: Iterable[Mean], repetitions: int, target: float) -> int:
    """How many repetitions of every basis are missing, after `repetitions` of each, until each
    standard error is at most `target`, and at most ten million at once; 0: none. The error falls
    with the square root: N = repetitions * (stderr / target)^2. An estimate from few repetitions is
    a rough one, so look again when they have run."""
    missing = max((_missing(one.stderr, repetitions, target) for one in means), default=0.0)
    return math.ceil(min(missing, _MOST_AT_ONCE))


def _missing(stderr: float | None, repetitions: int, target: float) -> float:
    if stderr is None:
        return repetitions
    # Squared behind the bound: the square of a very small target is 0.
    return repetitions * (min(stderr / target, 1e9) ** 2 - 1)


Bits = NDArray[np.int64]


def stabilizer_means(
    circuit: cirq.Circuit, observables: Sequence[Observable], qubits: Sequence[cirq.Qid]
) -> list[float]:
    """The exact means of observables in the state that a circuit of Clifford gates makes of zeros.
    Raises TypeError where Cirq does not take one of its gates for a Clifford gate.

    Aaronson, Gottesman, Phys. Rev. A 70, 052328 (2004): a string that does not commute with every
    stabilizer of the state has the mean 0; any other is, but for its sign, the product of those
    stabilizers whose destabilizers it does not commute with."""
    tableau = cirq.CliffordGate.from_op_list(list(circuit.all_operations()), qubits).clifford_tableau
    strings = list(dict.fromkeys(factors for one in observables for _, factors in one.terms))
    signs = dict(zip(strings, _signs(tableau, *_rows(strings, len(qubits))).tolist(), strict=True))
    return [
        float(sum(coefficient * signs[factors] for coefficient, factors in one.terms)) for one in observables
    ]


def _rows(strings: Sequence[Factors], qubits: int) -> tuple[Bits, Bits]:
    """Where each string has X, and where it has Z; Y is both. Shape (strings, qubits)."""
    xs, zs = (np.zeros((len(strings), qubits), dtype=np.int64) for _ in "XZ")
    for row, factors in enumerate(strings):
        for place, letter in factors:
            xs[row, place] = letter != "Z"
            zs[row, place] = letter != "X"
    return xs, zs


def _signs(tableau: cirq.CliffordTableau, xs: Bits, zs: Bits) -> Bits:
    """The mean of each string: 1, -1 or 0."""
    n = tableau.n
    all_xs, all_zs, minus = (one.astype(np.int64) for one in (tableau.xs, tableau.zs, tableau.rs))
    # Which of the 2n generators, destabilizers first, each string does not commute with.
    against = (xs @ all_zs.T + zs @ all_xs.T) % 2
    chosen, x, z = against[:, :n], all_xs[n:], all_zs[n:]
    # Phases as powers of i, with every string as i^k X^x Z^z: Y is i·X·Z, and Z·X is -X·Z.
    own = 2 * minus[n:] + (x * z).sum(axis=1)
    crossed = ((chosen @ np.triu(z @ x.T, 1)) * chosen).sum(axis=1)
    phase = (xs * zs).sum(axis=1) - chosen @ own - 2 * crossed
    return np.where(against[:, n:].any(axis=1), 0, 1 - phase % 4)
