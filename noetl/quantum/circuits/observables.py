"""Observables: sums of Pauli strings, how they are measured, and what the measurements tell of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import cirq
import numpy as np
from numpy.typing import NDArray

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.circuits.figures import is_number, shown
from noetl.quantum.circuits.terminal import without_terminal_measurements
from noetl.quantum.model import Samples

if TYPE_CHECKING:
    from noetl.quantum.simulation.mitigation import Readout

Letter: TypeAlias = Literal["X", "Y", "Z"]
#: A Pauli string: the number of a qubit and the letter there, in the order of the qubits; empty: the identity.
Factors: TypeAlias = tuple[tuple[int, Letter], ...]
Reals: TypeAlias = NDArray[np.float64]

#: Repetitions of each basis that run before the standard error is looked at again.
_MOST_AT_ONCE: Final = 10_000_000
#: The key that qubits are measured under for the sake of observables.
KEY: Final = "observed"
_SPARSE: Final = re.compile(r"\s*\*?\s*([A-Za-z])([0-9]{1,6})(?![0-9])")
_DENSE: Final = re.compile(r"[A-Za-z]+")
#: What turns the measured letter into Z.
_ROTATIONS: Final[Mapping[Letter, cirq.Gate]] = {"X": cirq.Y**-0.5, "Y": cirq.X**0.5}


@dataclass(frozen=True, slots=True)
class Observable:
    """A real combination of Pauli strings: (coefficient, factors)."""

    name: str
    terms: tuple[tuple[float, Factors], ...]

    def pauli_sum(self, qubits: Sequence[cirq.Qid]) -> cirq.PauliSum:
        """The same in Cirq's terms; number i is `qubits[i]`."""
        strings: list[cirq.PauliString[cirq.Qid]] = [
            cirq.PauliString({qubits[place]: letter for place, letter in factors}, coefficient=coefficient)
            for coefficient, factors in self.terms
        ]
        return cirq.PauliSum.from_pauli_strings(strings)


@dataclass(frozen=True, slots=True)
class Basis:
    """Which letter is measured on which qubits."""

    letters: Factors

    @property
    def name(self) -> str:
        """Unique among bases, such as `z0x2`."""
        return "".join(f"{letter.lower()}{place}" for place, letter in self.letters)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its standard error: 0 of an exact mean, None where one repetition tells nothing of it."""

    observable: str
    mean: float
    stderr: float | None


def parse(given: Json, qubits: int) -> list[Observable]:
    """The observables of a task, on a circuit of `qubits` qubits: a mapping of names, or a list whose entries are named
    by their texts. Raises ToolError (`ObservableError`) that names the place."""
    if isinstance(given, Mapping):
        named = [(name, f"observables.{name}", value) for name, value in given.items()]
    else:
        named = [(_text(value), f"observables[{place}]", value) for place, value in enumerate(given)]
    names = [name for name, _, _ in named]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise _wrong(f"observables[{place}]", f"{name!r} is there already; give it a name of its own.")
    return [Observable(name, _terms(value, place, qubits)) for name, place, value in named]


def _wrong(place: str, what: str) -> ToolError:
    return ToolError("client_error", f"{place}: {what}", type="ObservableError")


def _text(value: Json) -> str:
    if isinstance(value, Mapping):
        return " + ".join(f"{number}*{term}" for term, number in value.items())
    return str(value)


def _terms(value: Json, place: str, qubits: int) -> tuple[tuple[float, Factors], ...]:
    if isinstance(value, str):
        return ((1.0, _factors(value, place, qubits)),)
    if not isinstance(value, Mapping) or not value:
        raise _wrong(
            place,
            f"a Pauli string such as 'Z0 Z1', or a sum such as {{'Z0': 0.4, 'X0 X1': 0.2}}, is expected, not {shown(value)}.",
        )
    sums: dict[Factors, float] = {}
    for term, number in value.items():
        factors = _factors(str(term), place, qubits)
        sums[factors] = sums.get(factors, 0.0) + _coefficient(number, f"{place}, {term!r}")
    if not all(map(is_number, sums.values())):
        raise _wrong(place, "the coefficients of one Pauli string add up to more than a number can hold.")
    return tuple((coefficient, factors) for factors, coefficient in sums.items())


def _coefficient(number: Json, place: str) -> float:
    if not is_number(number):
        raise _wrong(place, f"a coefficient is a finite real number, not {shown(number)}.")
    return float(number)


def _factors(text: str, place: str, qubits: int) -> Factors:
    stripped = text.strip()
    if stripped == "I":
        return ()
    letters = _dense(stripped, place, qubits) if _DENSE.fullmatch(stripped) else _sparse(stripped, place)
    found: dict[int, Letter] = {}
    for number, letter in letters:
        if letter not in ("I", "X", "Y", "Z"):
            raise _wrong(place, f"{shown(text)} has the letter {letter!r}; there are I, X, Y and Z.")
        if number >= qubits:
            raise _wrong(place, f"{shown(text)} names qubit {number}; the circuit has {_range(qubits)}.")
        if number in found:
            raise _wrong(place, f"{shown(text)} names qubit {number} twice.")
        if letter != "I":
            found[number] = cast(Letter, letter)
    return tuple(sorted(found.items()))


def _range(qubits: int) -> str:
    return "qubit 0 only" if qubits == 1 else f"qubits 0 to {qubits - 1}"


def _dense(text: str, place: str, qubits: int) -> list[tuple[int, str]]:
    if len(text) != qubits:
        raise _wrong(
            place,
            f"{shown(text)} has {len(text)} letters for {qubits} qubits; give one for each, or name qubits as in 'Z0 Z1'.",
        )
    return list(enumerate(text))


def _sparse(text: str, place: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(text) or not found:
        match = _SPARSE.match(text, at)
        if match is None or text.startswith("*"):
            raise _wrong(
                place,
                f"{shown(text)} is no Pauli string at character {at + 1}; 'Z0 Z1' is one, and coefficients go into a sum: {{'Z0 Z1': 0.5}}.",
            )
        found.append((int(match[2]), match[1]))
        at = match.end()
    return found


def bases(observables: Iterable[Observable]) -> list[Basis]:
    """Bases in which all terms are measured: each term joins the first one that has no other letter on its qubits
    (qubit-wise commuting), the longest terms first. Identities need none."""
    terms = {factors: None for one in observables for _, factors in one.terms if factors}
    groups: list[dict[int, Letter]] = []
    for factors in sorted(terms, key=len, reverse=True):
        group = next((one for one in groups if _fits(one, factors)), None)
        if group is None:
            groups.append(dict(factors))
        else:
            group.update(factors)
    return [Basis(tuple(sorted(group.items()))) for group in groups]


def _fits(group: Mapping[int, Letter], factors: Factors) -> bool:
    return all(group.get(place, letter) == letter for place, letter in factors)


def measured_in(circuit: cirq.AbstractCircuit, basis: Basis, qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """`circuit` with its last measurements replaced by one of the qubits of `basis`, under `KEY`; measurements before
    the end stay. Number i is `qubits[i]`. Raises ToolError where the key is taken."""
    rotations = [
        _ROTATIONS[letter].on(qubits[place]) for place, letter in basis.letters if letter in _ROTATIONS
    ]
    measurement = cirq.measure(*(qubits[place] for place, _ in basis.letters), key=KEY)
    whole = without_terminal_measurements(circuit)
    if KEY in cirq.measurement_key_names(whole):
        raise _wrong("observables", f"the circuit measures as {KEY!r} before its end; give that another key.")
    if rotations:
        whole.append(cirq.Moment(rotations))
    whole.append(cirq.Moment(measurement))
    return whole


def from_samples(
    observables: Sequence[Observable],
    sampled: Sequence[tuple[Basis, Samples]],
    readout: Readout | None = None,
) -> list[Mean]:
    """Means and standard errors from what was measured in each basis.

    Each term is taken from the first basis that covers it. Within a basis b the terms of an observable add up to one
    value y per repetition, so that their covariances are those of the samples: with s_b^2 the unbiased sample variance
    of y over the N_b repetitions, var(mean) = sum over b of s_b^2 / N_b (for the covariances of terms that are measured
    together see McClean et al., New J. Phys. 18, 023023 (2016)).

    With `readout` the sign of each bit is replaced by its mitigated value (see `mitigation.Readout.signs`), which is
    unbiased; the standard error is that of the mitigated values, larger than that of the raw ones.
    """
    seen = [_seen(basis, samples, readout) for basis, samples in sampled]
    bases = [frozenset(basis.letters) for basis, _ in sampled]
    needed = dict.fromkeys(factors for one in observables for _, factors in one.terms if factors)
    homes = {
        factors: next(place for place, letters in enumerate(bases) if letters.issuperset(factors))
        for factors in needed
    }
    return [_mean(one, seen, homes) for one in observables]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was measured in a basis: how often each bitstring came, and for each number of a qubit what it counts for Z in
    each of them."""

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


def _seen(basis: Basis, samples: Samples, readout: Readout | None) -> _Seen:
    start, names = _columns(samples)
    texts = np.array([list(text[start : start + len(names)]) for text in samples.counts], dtype=np.uint8)
    weights = [np.array([1.0, -1.0]) if readout is None else readout.signs(name) for name in names]
    signs = {place: weights[column][texts[:, column]] for column, (place, _) in enumerate(basis.letters)}
    return _Seen(np.array(list(samples.counts.values()), dtype=np.float64), signs)


def _mean(observable: Observable, seen: Sequence[_Seen], homes: Mapping[Factors, int]) -> Mean:
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
    """Where the bits under `KEY` start, and of which qubits they are."""
    start = 0
    for one in samples.measured:
        if one.key == KEY:
            return start, one.qubits
        start += len(one.qubits)
    raise ValueError(f"these samples have no measurement {KEY!r}")


def more_repetitions(means: Iterable[Mean], repetitions: int, target: float) -> int:
    """How many repetitions of every basis are missing, after `repetitions` of each, until each standard error is at
    most `target`, and at most ten million at once; 0: none. The error falls with the square root: N = repetitions * (stderr / target)^2. An estimate
    from few repetitions is a rough one, so look again when they have run."""
    missing = max((_missing(one.stderr, repetitions, target) for one in means), default=0.0)
    return math.ceil(min(missing, _MOST_AT_ONCE))


def _missing(stderr: float | None, repetitions: int, target: float) -> float:
    if stderr is None:
        return repetitions
    # Squared behind the bound: the square of a very small target is 0.
    return repetitions * (min(stderr / target, 1e9) ** 2 - 1)
