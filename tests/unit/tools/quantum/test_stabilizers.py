"""Means of Pauli strings in stabilizer states, against their states."""

from __future__ import annotations

import itertools

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.quantum.backends.local import Simulator, simulator
from noetl.quantum.circuits.observables import parse
from noetl.quantum.config.task import Backend

GATES: dict[cirq.Gate, int] = {
    cirq.H: 1, cirq.S: 1, cirq.X**0.5: 1, cirq.Y**-0.5: 1, cirq.Z: 1,
    cirq.CX: 2, cirq.CZ: 2, cirq.SWAP: 2, cirq.ISWAP: 2, cirq.XX**0.5: 2,
}  # fmt: skip


def opened(provider: str) -> Simulator:
    found = simulator(Backend(provider=provider, precision="double"))
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_means_are_those_of_the_state(seed: int) -> None:
    rng = np.random.RandomState(seed)
    qubits = cirq.LineQubit.range(5)
    circuit = cirq.Circuit(cirq.testing.random_circuit(qubits, 12, 0.8, GATES, random_state=rng))
    # Qubits in an order of their own, and one that has no gate.
    order = [*rng.permutation(np.array(qubits, dtype=object)), cirq.LineQubit(9)]
    texts = {"".join(rng.choice(list("IXYZ"), 6)) for _ in range(200)} | {"I" * 6}
    observables = [*parse(sorted(texts), 6), *parse({"sum": {"XXYYZI": 0.5, "ZIIIIZ": -2.0, "IIIIII": 3}}, 6)]

    found = opened("clifford").expect(circuit, observables, order)

    assert found == pytest.approx(list(opened("simulator").expect(circuit, observables, order)), abs=1e-9)
    assert {round(one) for one in found[:-1]} == {-1, 0, 1}


def test_a_thousand_terms_on_sixty_qubits_are_exact() -> None:
    qubits = cirq.LineQubit.range(60)
    ghz = cirq.Circuit(cirq.H(qubits[0]), [cirq.CX(one, other) for one, other in itertools.pairwise(qubits)])
    # Of a GHZ state: 1 for two Z, 0 for one, 1 for X on all, -1 for X with two Y among them.
    terms = {f"Z{i} Z{j}": 1.0 for i in range(32) for j in range(i + 1, 64) if j < 60}
    alone = {f"Z{i}": 1.0 for i in range(60)}
    turned = " ".join(["Y0", "Y1", *(f"X{i}" for i in range(2, 60))])

    found = opened("clifford").expect(ghz, parse({"pairs": terms, "alone": alone, "all": turned}, 60))

    assert found == [len(terms), 0, -1]
    assert len(terms) > 1000


def test_a_gate_that_cirq_cannot_take_is_refused() -> None:
    a, b = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.PhasedISwapPowGate(phase_exponent=0.25).on(a, b))

    with pytest.raises(ToolError, match="clifford cannot run the circuit") as caught:
        opened("clifford").expect(circuit, parse(["Z0"], 2))
    assert caught.value.type == "NotClifford"
