"""Diagrams of circuits, for people who look at results: made where the circuit is there anyway, so
that whoever shows a result needs no Cirq."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import cirq

from noetl.quantum.model import LoadedCircuit

#: Qubits and operations of circuits that are drawn, those of subcircuits among them. Larger ones
#: take longer than a second, and nobody reads them.
MOST_QUBITS: Final = 50
MOST_OPERATIONS: Final = 500
#: Characters of a diagram.
MOST_CHARACTERS: Final = 64 * 1024
#: Characters of a circuit's JSON: labels are no longer than what they are written from, and a
#: diagram is as wide as its labels before its size is known.
_MOST_TEXT: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Diagram:
    """`operations` are those of all moments, a subcircuit counting as one, and `depth` is the
    number of moments. `text` has a line for each qubit, and for each key that gates depend on,
    with lines between them; None where it would be too large."""

    qubits: int
    operations: int
    depth: int
    text: str | None


def draw(loaded: LoadedCircuit) -> Diagram | None:
    """The circuit as it was given, with its symbols. None where Cirq cannot draw it."""
    circuit = loaded.circuit
    qubits = len(circuit.all_qubits())
    try:
        is_large = qubits > MOST_QUBITS or len(loaded.text) > _MOST_TEXT or _has_many(circuit)
        text = None if is_large else circuit.to_text_diagram()
    except Exception:  # noqa: BLE001  # each gate draws itself, and no result is lost for want of a diagram
        return None
    if text is not None and len(text) > MOST_CHARACTERS:
        text = None
    return Diagram(qubits, sum(len(moment.operations) for moment in circuit), len(circuit), text)


def _has_many(circuit: cirq.AbstractCircuit) -> bool:
    return next(islice(_walk(circuit), MOST_OPERATIONS, None), None) is not None


def _walk(circuit: cirq.AbstractCircuit) -> Iterator[cirq.Operation]:
    """Its operations as they are drawn: those of a subcircuit once, however often it
    is repeated."""
    for operation in circuit.all_operations():
        yield operation
        if isinstance(operation.untagged, cirq.CircuitOperation):
            yield from _walk(operation.untagged.circuit)
