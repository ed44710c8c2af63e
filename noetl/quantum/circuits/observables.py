"""Observables: sums of Pauli strings, and how they are measured."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

import cirq

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.circuits.figures import is_number, show
from noetl.quantum.circuits.measurements import without_terminal_measurements

Letter: TypeAlias = Literal["X", "Y", "Z"]
#: A Pauli string: the number of a qubit and the letter there, in the order of the qubits; empty:
#: the identity.
Factors: TypeAlias = tuple[tuple[int, Letter], ...]

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


def parse(given: Json, qubits: int) -> list[Observable]:
    """The observables of a task, on a circuit of `qubits` qubits: a mapping of names, or a list
    whose entries are named by their texts. Raises ToolError (`ObservableError`) that names the
    place."""
    if isinstance(given, Mapping):
        named = [(name, f"observables.{name}", value) for name, value in given.items()]
    else:
        named = [(_name(value), f"observables[{place}]", value) for place, value in enumerate(given)]
    names = [name for name, _, _ in named]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise _wrong(f"observables[{place}]", f"{name!r} is there already; give it another name.")
    return [Observable(name, _terms(value, place, qubits)) for name, place, value in named]


def _wrong(place: str, what: str) -> ToolError:
    return ToolError("client_error", f"{place}: {what}", type="ObservableError")


def _name(value: Json) -> str:
    if isinstance(value, Mapping):
        return " + ".join(f"{number}*{term}" for term, number in value.items())
    return str(value)


def _terms(value: Json, place: str, qubits: int) -> tuple[tuple[float, Factors], ...]:
    if isinstance(value, str):
        return ((1.0, _factors(value, place, qubits)),)
    if not isinstance(value, Mapping) or not value:
        raise _wrong(
            place,
            "a Pauli string such as 'Z0 Z1', or a sum such as {'Z0': 0.4, 'X0 X1': 0.2}, is "
            f"expected, not {show(value)}.",
        )
    sums: dict[Factors, float] = {}
    for term, number in value.items():
        factors = _factors(str(term), place, qubits)
        if not is_number(number):
            raise _wrong(f"{place}, {term!r}", f"a coefficient is a finite real number, not {show(number)}.")
        sums[factors] = sums.get(factors, 0.0) + number
    if not all(map(is_number, sums.values())):
        raise _wrong(place, "the coefficients of one Pauli string add up to more than a number can hold.")
    return tuple((coefficient, factors) for factors, coefficient in sums.items())


def _factors(text: str, place: str, qubits: int) -> Factors:
    stripped = text.strip()
    if stripped == "I":
        return ()
    letters = (
        _read_dense(stripped, place, qubits) if _DENSE.fullmatch(stripped) else _read_sparse(stripped, place)
    )
    found: dict[int, Letter] = {}
    for number, letter in letters:
        if letter not in ("I", "X", "Y", "Z"):
            raise _wrong(place, f"{show(text)} has the letter {letter!r}; there are I, X, Y and Z.")
        if number >= qubits:
            have = "qubit 0 only" if qubits == 1 else f"qubits 0 to {qubits - 1}"
            raise _wrong(place, f"{show(text)} names qubit {number}; the circuit has {have}.")
        if number in found:
            raise _wrong(place, f"{show(text)} names qubit {number} twice.")
        if letter != "I":
            found[number] = cast(Letter, letter)
    return tuple(sorted(found.items()))


def _read_dense(text: str, place: str, qubits: int) -> list[tuple[int, str]]:
    if len(text) != qubits:
        raise _wrong(
            place,
            f"{show(text)} has {len(text)} letters for {qubits} qubits; give one for each, or "
            "name qubits as in 'Z0 Z1'.",
        )
    return list(enumerate(text))


def _read_sparse(text: str, place: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    at = 0
    while at < len(text) or not found:
        match = _SPARSE.match(text, at)
        if match is None or text.startswith("*"):
            raise _wrong(
                place,
                f"{show(text)} is no Pauli string at character {at + 1}; 'Z0 Z1' is one, and "
                "coefficients go into a sum: {'Z0 Z1': 0.5}.",
            )
        found.append((int(match[2]), match[1]))
        at = match.end()
    return found


def bases(observables: Iterable[Observable]) -> list[Basis]:
    """Bases in which all terms are measured: each term joins the first one that has no other letter
    on its qubits (qubit-wise commuting), the longest terms first. Identities need none."""
    terms = {factors: None for one in observables for _, factors in one.terms if factors}
    groups: list[dict[int, Letter]] = []
    for factors in sorted(terms, key=len, reverse=True):
        for group in groups:
            if all(group.get(place, letter) == letter for place, letter in factors):
                group.update(factors)
                break
        else:
            groups.append(dict(factors))
    return [Basis(tuple(sorted(group.items()))) for group in groups]


def measure_in(circuit: cirq.AbstractCircuit, basis: Basis, qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """`circuit` with its last measurements replaced by one of the qubits of `basis`, under `KEY`;
    measurements before the end stay. Number i is `qubits[i]`. Raises ToolError where the key is
    taken."""
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
