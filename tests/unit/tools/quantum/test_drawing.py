"""Diagrams of circuits: what is drawn, and what is too large for it."""

from __future__ import annotations

import cirq
import numpy
import pytest
import sympy

from noetl.quantum.circuits import builders, canonical
from noetl.quantum.circuits.drawing import MOST_CHARACTERS, MOST_OPERATIONS, MOST_QUBITS, Diagram, draw
from noetl.quantum.model import LoadedCircuit

A, B, C = cirq.LineQubit.range(3)


def load(*operations: cirq.OP_TREE) -> LoadedCircuit:
    circuit = canonical.sort_moments(cirq.Circuit(operations))
    return LoadedCircuit(circuit, "code", "", text=canonical.text(circuit))


def test_a_circuit_is_drawn_as_cirq_draws_it_and_counted() -> None:
    assert draw(load(cirq.H(A), cirq.CNOT(A, B), cirq.measure(A, B, key="m"))) == Diagram(
        qubits=2,
        operations=3,
        depth=3,
        text="0: ───H───@───M('m')───\n          │   │\n1: ───────X───M────────",
    )


def test_symbols_stay_symbols() -> None:
    found = draw(load(cirq.rx(sympy.Symbol("theta"))(A), cirq.X(B) ** (2 * sympy.Symbol("beta"))))
    assert found is not None
    assert found.text is not None
    assert "Rx(theta)" in found.text
    assert "X^(2*beta)" in found.text


@pytest.mark.parametrize(
    "operations",
    [
        [cirq.measure(A, key="a\nb"), cirq.X(B).with_classical_controls("a\nb")],
        [cirq.measure(A, key="c"), cirq.X(B).with_classical_controls(sympy.Symbol("c") > 0), cirq.reset(A)],
        [cirq.depolarize(0.1)(A), cirq.amplitude_damp(0.1)(B), cirq.bit_flip(0.2)(A)],
        [cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=1))(A, B, C)],
        [cirq.KrausChannel([numpy.eye(2) * 0.6**0.5, numpy.eye(2) * 0.4**0.5])(A)],
        [cirq.CircuitOperation(cirq.FrozenCircuit(cirq.H(A), cirq.measure(A, key="m")), repetitions=5)],
        [cirq.measure_single_paulistring(cirq.X(A) * cirq.Y(B), key="p"), cirq.H(A).with_tags("tag")],
        [cirq.X(cirq.NamedQubit("</pre><b>")), cirq.GlobalPhaseGate(1j)()],
    ],
    ids=["newline", "condition", "noise", "matrix", "kraus", "subcircuit", "pauli", "names"],
)
def test_whatever_circuits_hold_is_drawn(operations: cirq.OP_TREE) -> None:
    loaded = load(operations)
    found = draw(loaded)
    assert found is not None
    assert found.text == loaded.circuit.to_text_diagram()


@pytest.mark.parametrize("operations", range(2, 9))
def test_the_same_circuit_has_the_same_diagram_in_any_order_of_its_operations(operations: int) -> None:
    made = [cirq.X(qubit) for qubit in cirq.LineQubit.range(operations)]
    assert draw(load(cirq.Moment(made))) == draw(load(cirq.Moment(made[::-1])))


@pytest.mark.parametrize(
    ("operations", "fits"),
    [
        (cirq.X.on_each(cirq.LineQubit.range(MOST_QUBITS)), True),
        (cirq.X.on_each(cirq.LineQubit.range(MOST_QUBITS + 1)), False),
        ([cirq.X(A)] * MOST_OPERATIONS, True),
        ([cirq.X(A)] * (MOST_OPERATIONS + 1), False),
        (cirq.CircuitOperation(cirq.FrozenCircuit([cirq.X(A)] * MOST_OPERATIONS)), False),
        ([cirq.rx(sympy.Symbol("s" * 1000))(qubit) for qubit in (A, B, C)] * 30, False),
        (cirq.rx(sympy.Symbol("s" * (MOST_CHARACTERS // 2)))(A), True),
        (cirq.measure(A, key="k" * MOST_CHARACTERS), False),
        (cirq.MatrixGate(cirq.testing.random_unitary(64, random_state=1))(*cirq.LineQubit.range(6)), False),
    ],
    ids=[
        "qubits",
        "a qubit more",
        "operations",
        "an operation more",
        "subcircuit",
        "labels",
        "label",
        "key",
        "json",
    ],
)
def test_what_is_too_large_is_counted_and_not_drawn(operations: cirq.OP_TREE, fits: bool) -> None:
    loaded = load(operations)
    found = draw(loaded)
    assert found is not None
    assert (found.text is not None) is fits
    assert (found.qubits, found.depth) == (len(loaded.circuit.all_qubits()), len(loaded.circuit))


def test_what_takes_long_is_not_even_tried() -> None:
    class Undrawn(cirq.Circuit):
        def to_text_diagram(self, **_: object) -> str:
            raise AssertionError("drawn")

    text = canonical.text(builders.build({"name": "ghz", "qubits": MOST_QUBITS + 1}))
    circuit = Undrawn(canonical.read(text).moments)
    found = draw(LoadedCircuit(circuit, "code", "", text=text))
    assert found is not None
    assert found.text is None
    assert draw(LoadedCircuit(Undrawn(cirq.X(A)), "code", "", text="{}")) is None, "a failure is no diagram"
