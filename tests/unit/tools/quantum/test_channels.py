"""Channels with ready operators do what Cirq's own do."""

from __future__ import annotations

import cirq
import numpy as np
import pytest
from numpy.typing import NDArray

from noetl.quantum.backends.local import simulator
from noetl.quantum.config import Backend
from noetl.quantum.model import Order
from noetl.quantum.simulation.channels import Ready, with_ready_channels
from noetl.quantum.simulation.noise import noisy

A, B, C = cirq.LineQubit.range(3)
DEPHASING = [np.sqrt(0.7) * np.eye(2), np.sqrt(0.3) * np.diag([1, -1])]
CHANNELS = [
    cirq.depolarize(0.3),
    cirq.depolarize(0.3, n_qubits=2),
    cirq.depolarize(0.3, n_qubits=3),
    cirq.depolarize(0.0),
    cirq.depolarize(1.0, n_qubits=2),
    cirq.asymmetric_depolarize(0.1, 0.2, 0.3),
    cirq.asymmetric_depolarize(error_probabilities={"XI": 0.1, "YZ": 0.2}),
    cirq.bit_flip(0.2),
    cirq.bit_flip(1.0),
    cirq.phase_flip(0.2),
    cirq.amplitude_damp(0.2),
    cirq.generalized_amplitude_damp(0.3, 0.2),
    cirq.phase_damp(0.2),
    cirq.KrausChannel(DEPHASING),
    cirq.KrausChannel([np.kron(one, np.eye(2)) for one in DEPHASING]),
]


def final(circuit: cirq.Circuit, start: NDArray[np.complex128]) -> NDArray[np.complexfloating]:
    run = cirq.DensityMatrixSimulator(dtype=np.complex128, split_untangled_states=False)
    return run.simulate(circuit, initial_state=start, qubit_order=(A, B, C)).final_density_matrix


@pytest.mark.parametrize("channel", CHANNELS, ids=str)
def test_a_ready_channel_changes_any_state_as_cirqs_own_does(channel: cirq.Gate) -> None:
    # The last qubits, turned round: so that the order of axes matters.
    circuit = cirq.Circuit(channel.on(*(C, A, B)[: cirq.num_qubits(channel)]))
    start = cirq.testing.random_density_matrix(8, random_state=5)

    ready = with_ready_channels(circuit)

    assert all(isinstance(op.gate, Ready) for op in ready.all_operations())
    assert final(ready, start) == pytest.approx(final(circuit, start), abs=1e-12)
    cirq.testing.assert_allclose_up_to_global_phase(
        cirq.kraus_to_superoperator(cirq.kraus(next(ready.all_operations()))),
        cirq.kraus_to_superoperator(cirq.kraus(channel)),
        atol=1e-12,
    )


@pytest.mark.parametrize("provider", ["simulator", "clifford", "qsim"])
def test_strings_are_drawn_with_their_chances(provider: str) -> None:
    chances = {"XX": 0.3, "IY": 0.2, "ZX": 0.1}
    backend = simulator(Backend(provider=provider))
    assert backend is not None
    circuit = cirq.Circuit(
        cirq.I.on_each(A, B),
        cirq.asymmetric_depolarize(error_probabilities=dict(chances)).on(A, B),
        cirq.measure(A, B, key="m"),
    )

    counts = backend.sample(Order("p0", 0, circuit, 2000, 3)).counts

    # Y and X flip a bit, Z does not.
    for text, chance in {"00": 0.4, "11": 0.3, "01": 0.3}.items():
        assert counts[text] / 2000 == pytest.approx(chance, abs=5 * np.sqrt(chance / 2000))
    assert "10" not in counts


def test_the_operators_of_a_noise_model_are_made_once_for_a_circuit() -> None:
    circuit = noisy(cirq.Circuit([cirq.CX(A, B), cirq.CX(B, C)] * 5), {"depolarize": 0.1, "bit_flip": 0.1})

    gates = {id(op.gate): op.gate for op in with_ready_channels(circuit).all_operations()}

    assert sum(isinstance(gate, Ready) for gate in gates.values()) == 2


def test_a_circuit_without_channels_stays_as_it_is() -> None:
    keyed = cirq.KrausChannel(DEPHASING, key="k")
    circuit = cirq.Circuit(cirq.H(A), keyed.on(A), cirq.measure(A, key="m"))

    assert with_ready_channels(circuit) is circuit


def test_a_channel_behind_a_condition_keeps_it() -> None:
    circuit = cirq.Circuit(cirq.measure(A, key="k"), cirq.bit_flip(1).on(B).with_classical_controls("k"))

    (ready,) = with_ready_channels(circuit)[1]

    assert isinstance(ready.without_classical_controls().gate, Ready)
    assert cirq.control_keys(ready) == {cirq.MeasurementKey("k")}


def test_pauli_noise_of_many_qubits_needs_no_matrix() -> None:
    qubits = cirq.LineQubit.range(40)
    circuit = cirq.Circuit(
        cirq.asymmetric_depolarize(error_probabilities={"X" * 40: 1.0}).on(*qubits),
        cirq.measure(*qubits, key="m"),
    )
    backend = simulator(Backend(provider="clifford"))
    assert backend is not None

    assert backend.sample(Order("p0", 0, circuit, 3, 3)).counts == {"1" * 40: 3}
