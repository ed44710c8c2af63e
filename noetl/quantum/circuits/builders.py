"""Circuits by name. Qubits are `cirq.LineQubit`s from 0; all are measured at the end as `m` unless
`measure: false`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

import cirq
import sympy
from pydantic import ValidationError

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.nearest import did_you_mean
from noetl.quantum.config.shapes import (
    MOST_OPERATIONS,
    Built,
    Ghz,
    Grover,
    HardwareEfficient,
    Maxcut,
    Qft,
    Random,
)

MEASURED: Final = "m"
_QFT_GATES: Final = (cirq.HPowGate, cirq.CZPowGate, cirq.SwapPowGate)

Ops = Iterator[cirq.OP_TREE]


def ghz(spec: Ghz) -> Ops:
    """(|0...0> + |1...1>)/√2. Greenberger, Horne, Zeilinger (1989), arXiv:0712.0921."""
    qubits = cirq.LineQubit.range(spec.qubits)
    yield cirq.H(qubits[0])
    yield (cirq.CNOT(one, other) for one, other in itertools.pairwise(qubits))


def qft(spec: Qft) -> Ops:
    """|x> → Σ exp(2πi·xy/2^n)|y>/√2^n; `inverse` with the sign of i changed; without `swaps` the
    bits of y are reversed.

    Nielsen, Chuang (2000), section 5.1.
    """
    qubits = cirq.LineQubit.range(spec.qubits)
    whole = cirq.qft(*qubits, without_reverse=not spec.swaps, inverse=spec.inverse)
    yield cirq.decompose(whole, keep=lambda op: isinstance(op.gate, _QFT_GATES))


def grover(spec: Grover) -> Ops:
    """After k iterations a marked bitstring is found with probability sin²((2k+1)θ), sin²θ =
    marked/2^n.

    k is the best number unless `iterations` says it. Grover (1996), arXiv:quant-ph/9605043; several
    marked: Boyer et al., arXiv:quant-ph/9605034."""
    qubits = cirq.LineQubit.range(len(spec.marked[0]))
    zero = "0" * len(qubits)
    yield cirq.H.on_each(*qubits)
    for _ in range(grover_iterations(spec)):
        yield (_flip(qubits, bits) for bits in spec.marked)
        yield cirq.H.on_each(*qubits), _flip(qubits, zero), cirq.H.on_each(*qubits)


def grover_iterations(spec: Grover) -> int:
    """The k that is nearest to a quarter turn, or what `iterations` says."""
    if spec.iterations is not None:
        return spec.iterations
    angle = math.asin(math.sqrt(len(spec.marked) / 2 ** len(spec.marked[0])))
    return max(0, round(math.pi / (4 * angle) - 0.5))


def _flip(qubits: Sequence[cirq.LineQubit], bits: str) -> Ops:
    """The sign of one bitstring changes."""
    zeros = [cirq.X(qubit) for qubit, bit in zip(qubits, bits, strict=True) if bit == "0"]
    yield zeros, cirq.Z(qubits[-1]).controlled_by(*qubits[:-1]), zeros


def qaoa_maxcut(spec: Maxcut) -> Ops:
    """exp(-iβX) exp(-iγC) for each layer on |+...+>, C = Σ (1 - ZZ)/2 over the edges.

    Layer k has the symbols `gamma<k>` and `beta<k>`, k from 0, in radians. Nodes are numbered from
    0 and are qubits. Farhi, Goldstone, Gutmann (2014), arXiv:1411.4028."""
    qubits = cirq.LineQubit.range(1 + max(map(max, spec.edges)))
    yield cirq.H.on_each(*qubits)
    for layer in range(spec.layers):
        gamma, beta = sympy.Symbol(f"gamma{layer}"), sympy.Symbol(f"beta{layer}")
        yield (cirq.ZZ(qubits[one], qubits[other]) ** (-gamma / sympy.pi) for one, other in spec.edges)
        yield (cirq.X(qubit) ** (2 * beta / sympy.pi) for qubit in qubits)


def hardware_efficient(spec: HardwareEfficient) -> Ops:
    """Rotations Ry, Rz of each qubit, then for each layer CZ between neighbours (or all pairs) and
    rotations again.

    Qubit q behind layer l (0: before the first) has the symbols `theta<2(l·qubits + q)>` of Ry and
    the next one of Rz, in radians: 2·qubits·(layers + 1) altogether. Kandala et al. (2017),
    arXiv:1704.05018."""
    qubits = cirq.LineQubit.range(spec.qubits)
    number = itertools.count()
    for layer in range(spec.layers + 1):
        if layer:
            yield (cirq.CZ(one, other) for one, other in _pairs(qubits, spec.entangler))
        for qubit in qubits:
            yield (gate(sympy.Symbol(f"theta{next(number)}")).on(qubit) for gate in (cirq.ry, cirq.rz))


def _pairs(
    qubits: Sequence[cirq.LineQubit], entangler: Literal["linear", "ring", "full"]
) -> Iterator[tuple[cirq.LineQubit, cirq.LineQubit]]:
    match entangler:
        case "full":
            yield from itertools.combinations(qubits, 2)
        case "linear":
            yield from itertools.pairwise(qubits)
        case "ring":
            yield from itertools.pairwise(qubits)
            if len(qubits) > 2:
                yield qubits[-1], qubits[0]


def random(spec: Random) -> Ops:
    """`depth` moments of gates drawn from Cirq's usual ones (Clifford gates and T); the same `seed`
    draws the same.

    `cirq.testing.random_circuit`; `density` is the chance of a qubit to have a gate in a moment.
    """
    qubits = cirq.LineQubit.range(spec.qubits)
    yield from cirq.testing.random_circuit(qubits, spec.depth, spec.density, random_state=spec.seed)


Spec = TypeVar("Spec", bound=Built)


@dataclass(frozen=True)
class Builder(Generic[Spec]):
    """How a circuit is made of its keys. `size` is about how many operations that takes, `width`
    its qubits."""

    keys: type[Spec]
    make: Callable[[Spec], Ops]
    size: Callable[[Spec], int]
    width: Callable[[Spec], int]


def _efficient_size(spec: HardwareEfficient) -> int:
    pairs = spec.qubits * (spec.qubits - 1) // 2 if spec.entangler == "full" else spec.qubits
    return (spec.layers + 1) * (2 * spec.qubits + pairs)


def _cut_width(spec: Maxcut) -> int:
    return 1 + max(map(max, spec.edges))


BUILDERS: Final[Mapping[str, Builder[Any]]] = {
    "ghz": Builder(Ghz, ghz, lambda spec: spec.qubits, lambda spec: spec.qubits),
    "qft": Builder(Qft, qft, lambda spec: spec.qubits**2, lambda spec: spec.qubits),
    "grover": Builder(
        Grover,
        grover,
        lambda spec: grover_iterations(spec) * 2 * len(spec.marked[0]) * (len(spec.marked) + 1),
        lambda spec: len(spec.marked[0]),
    ),
    "qaoa_maxcut": Builder(
        Maxcut, qaoa_maxcut, lambda spec: spec.layers * (len(spec.edges) + _cut_width(spec)), _cut_width
    ),
    "hardware_efficient": Builder(
        HardwareEfficient, hardware_efficient, _efficient_size, lambda spec: spec.qubits
    ),
    "random": Builder(Random, random, lambda spec: spec.qubits * spec.depth, lambda spec: spec.qubits),
}


def build(given: Mapping[str, Json]) -> cirq.Circuit:
    """The circuit of a `builder`. Raises ToolError, which names the key."""
    name = given.get("name")
    builder = BUILDERS.get(name) if isinstance(name, str) else None
    if name is None:
        raise _refusal(f"builder needs a `name`: one of {', '.join(BUILDERS)}.")
    if builder is None:
        near = did_you_mean(str(name), BUILDERS) or f" There are {', '.join(BUILDERS)}."
        raise _refusal(f"There is no builder {str(name)[:100]!r}.{near}")
    spec = _check(builder.keys, given)
    if builder.size(spec) > MOST_OPERATIONS:
        message = f"builder {name} would have more than {MOST_OPERATIONS:,} operations; make it smaller."
        raise ToolError("limit", message, type="TooManyOperations")
    circuit = cirq.Circuit(builder.make(spec))
    if spec.measure:
        circuit.append(cirq.measure(*cirq.LineQubit.range(builder.width(spec)), key=MEASURED))
    return circuit


def idle(given: Mapping[str, Json], circuit: cirq.AbstractCircuit) -> tuple[cirq.Qid, ...]:
    """The qubits of a `builder` on which its circuit does nothing."""
    builder = BUILDERS[str(given["name"])]
    width = builder.width(_check(builder.keys, given))
    return tuple(sorted(set(cirq.LineQubit.range(width)) - circuit.all_qubits()))


def _check(keys: type[Built], given: Mapping[str, Json]) -> Built:
    try:
        return keys.model_validate(dict(given))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(map(str, fault["loc"]))
    name = given["name"]
    match fault["type"]:
        case "missing":
            raise _refusal(f"builder {name} needs `{place}`.")
        case "extra_forbidden":
            near = did_you_mean(place, keys.model_fields) or f" It takes {', '.join(keys.model_fields)}."
            raise _refusal(f"builder {name} has no key {place[:100]!r}.{near}")
    reason = fault["msg"].removeprefix("Value error, ")
    raise _refusal(f"builder {name}{f', `{place}`' if place else ''}: {reason}.")


def _refusal(message: str) -> ToolError:
    return ToolError("client_error", message, type="BadBuilder")
