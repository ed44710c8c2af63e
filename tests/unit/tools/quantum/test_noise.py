"""Noise models against their theory, on the density matrix."""

from __future__ import annotations

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.backends.local import Simulator, simulator
from noetl.quantum.circuits.observables import parse as observables_of
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun
from noetl.quantum.simulation.noise import add_noise, parse

A, B, C = cirq.LineQubit.range(3)
BELL = cirq.Circuit(cirq.H(A), cirq.CX(A, B))


def opened(provider: str = "density_matrix") -> Simulator:
    found = simulator(Backend(provider=provider, precision="single" if provider == "qsim" else "double"))
    assert found is not None
    return found


def means(circuit: cirq.Circuit, spec: Json, *texts: str) -> list[float]:
    qubits = len(circuit.all_qubits())
    return list(opened().expect(add_noise(circuit, spec), observables_of(list(texts), qubits)))


def test_depolarizing_shrinks_the_bloch_vector_by_four_thirds_of_p_at_each_gate() -> None:
    p, gates = 0.03, 7
    idle = cirq.Circuit(cirq.I(A) for _ in range(gates))

    assert means(idle, {"depolarize": p}, "Z0") == pytest.approx([(1 - 4 * p / 3) ** gates])


def test_depolarizing_behind_a_gate_of_two_qubits_is_of_both_at_once() -> None:
    p = 0.06
    # Of 15 Pauli strings 8 turn the sign of any given string but the identity: 1 - 16 p / 15.
    shrunk = 1 - 16 * p / 15

    found = means(BELL, {"depolarize": {"p": p, "on": "two_qubit"}}, "Z0 Z1", "X0 X1", "Y0 Y1")

    assert found == pytest.approx([shrunk, shrunk, -shrunk])


def test_on_says_behind_which_gates() -> None:
    p = 0.06
    one = means(BELL, {"depolarize": {"p": p, "on": "one_qubit"}}, "Z0 Z1", "X0 X1")
    both = means(BELL, {"depolarize": p}, "Z0 Z1", "X0 X1")

    # Behind H only, where X turns with the state and Z does not.
    assert one == pytest.approx([1, 1 - 4 * p / 3])
    assert both == pytest.approx([1 - 16 * p / 15, (1 - 4 * p / 3) * (1 - 16 * p / 15)])


def test_amplitude_damping_leaves_the_excited_population_of_theory() -> None:
    gamma, gates = 0.1, 5
    circuit = cirq.Circuit(cirq.X(A), [cirq.I(A) for _ in range(gates - 1)])

    (z,) = means(circuit, {"amplitude_damping": gamma}, "Z0")

    assert (1 - z) / 2 == pytest.approx((1 - gamma) ** gates)


def test_phase_damping_takes_coherence_only() -> None:
    gamma = 0.2

    x, z = means(cirq.Circuit(cirq.ry(1.0).on(A)), {"phase_damping": gamma}, "X0", "Z0")

    assert x == pytest.approx(np.sin(1.0) * np.sqrt(1 - gamma))
    assert z == pytest.approx(np.cos(1.0))


@pytest.mark.parametrize(("key", "kept"), [("bit_flip", "X0"), ("phase_flip", "Z0")])
def test_flips_keep_their_own_axis(key: str, kept: str) -> None:
    circuit = cirq.Circuit(cirq.ry(1.0).on(A))
    plain = dict(zip(("X0", "Z0"), means(circuit, [], "X0", "Z0"), strict=True))

    found = dict(zip(("X0", "Z0"), means(circuit, {key: {"p": 0.1}}, "X0", "Z0"), strict=True))

    for text in ("X0", "Z0"):
        assert found[text] == pytest.approx(plain[text] * (1 if text == kept else 0.8))


def test_channels_come_in_the_order_of_the_spec() -> None:
    circuit = cirq.Circuit(cirq.I(A))

    flipped_last = means(circuit, [{"amplitude_damping": 1}, {"bit_flip": 1}], "Z0")
    damped_last = means(circuit, {"bit_flip": 1, "amplitude_damping": 1}, "Z0")

    assert (flipped_last, damped_last) == (pytest.approx([-1]), pytest.approx([1]))


def test_custom_kraus_operators_are_what_they_say() -> None:
    # Amplitude damping by hand; -i in front changes nothing.
    kraus = [[[[0, -1], 0], [0, [0, -(0.7**0.5)]]], [[0, 0.3**0.5], [0, 0]]]

    by_hand = means(cirq.Circuit(cirq.X(A)), {"custom": {"kraus": kraus}}, "Z0")

    assert by_hand == pytest.approx(means(cirq.Circuit(cirq.X(A)), {"amplitude_damping": 0.3}, "Z0"))


def test_custom_channels_of_two_qubits_come_behind_gates_of_two() -> None:
    spec = {"custom": {"pauli": {"XI": 0.25}}}

    assert means(BELL, spec, "Z0 Z1", "X0 X1") == pytest.approx([0.5, 1])
    assert means(cirq.Circuit(cirq.I(A)), spec, "Z0") == pytest.approx([1])
    swap = [[[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]]
    assert means(
        cirq.Circuit(cirq.CX(A, B), cirq.X(A)), {"custom": {"kraus": swap}}, "Z0", "Z1"
    ) == pytest.approx([-1, 1])


@pytest.mark.parametrize("provider", ["simulator", "density_matrix", "clifford", "qsim"])
@pytest.mark.parametrize(
    ("spec", "read"),
    [
        # X behind both gates on the first qubit and once on the second: the state is Bell's again.
        ({"bit_flip": 1}, {"00", "11"}),
        ({"depolarize": 0}, {"00", "11"}),
        ({"readout": 1}, {"00", "11"}),
        ({"readout": {"p01": 1}}, {"11"}),
        ({"readout": {"p10": 1}}, {"00"}),
        ({"custom": {"pauli": {"IX": 1.0}}}, {"01", "10"}),
        # 4^n strings of letters, all but the identity.
        ({"depolarize": {"p": 1, "on": "two_qubit"}}, {"00", "01", "10", "11"}),
    ],
)
def test_rates_of_nothing_and_of_certainty_are_rates(provider: str, spec: Json, read: set[str]) -> None:
    circuit = add_noise(cirq.Circuit(BELL, cirq.measure(A, B, key="m")), spec)

    assert set(opened(provider).sample(CircuitRun("p0", 0, circuit, 60, 5)).counts) == read


@pytest.mark.parametrize("spec", [{"depolarize": 0.1}, {"amplitude_damping": 0.2}, {"phase_damping": 0.3}])
def test_noise_around_a_measurement_before_the_end_is_that_of_theory(spec: Json) -> None:
    # Both branches by hand: what is measured is forgotten, and the channel comes behind each gate
    # only.
    circuit = cirq.Circuit(cirq.ry(1.0).on(A), cirq.measure(A, key="k"), cirq.ry(0.5).on(A))
    ((name, rate),) = spec.items()
    made = {
        "depolarize": cirq.depolarize,
        "amplitude_damping": cirq.amplitude_damp,
        "phase_damping": cirq.phase_damp,
    }
    kraus = cirq.kraus(made[name](rate))

    def through(state: np.ndarray, *operators: np.ndarray) -> np.ndarray:
        return sum(one @ state @ one.conj().T for one in operators)  # type: ignore[return-value]

    state = np.diag([1.0, 0.0]).astype(complex)
    state = through(through(state, cirq.unitary(cirq.ry(1.0))), *kraus)
    state = through(state, np.diag([1, 0]), np.diag([0, 1]))
    state = through(through(state, cirq.unitary(cirq.ry(0.5))), *kraus)

    expected = [np.trace(state @ cirq.unitary(gate)).real for gate in (cirq.X, cirq.Y, cirq.Z)]
    assert means(circuit, spec, "X0", "Y0", "Z0") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("provider", ["simulator", "density_matrix", "clifford", "qsim"])
def test_every_simulator_samples_the_noise_of_theory(provider: str) -> None:
    p, p01, p10 = 0.2, 0.05, 0.15
    circuit = add_noise(
        cirq.Circuit(BELL, cirq.measure(A, B, key="m")),
        [{"depolarize": {"p": p, "on": "two_qubit"}}, {"readout": {"p01": p01, "p10": p10}}],
    )

    counts = opened(provider).sample(CircuitRun("p0", 0, circuit, 400, 17)).counts

    even = (1 + 1 - 16 * p / 15) / 4
    true = {"00": even, "01": 0.5 - even, "10": 0.5 - even, "11": even}
    read = {0: (1 - p01, p01), 1: (p10, 1 - p10)}
    for text in true:
        chance = sum(
            true[was] * read[int(was[0])][int(text[0])] * read[int(was[1])][int(text[1])] for was in true
        )
        assert counts[text] / 400 == pytest.approx(chance, abs=5 * np.sqrt(chance / 400))


def test_readout_errors_do_not_touch_exact_means_of_the_state() -> None:
    circuit = cirq.Circuit(cirq.X(A), cirq.measure(A, key="m"))

    assert means(circuit, {"readout": 0.4}, "Z0") == pytest.approx([-1])


def test_the_noise_of_a_conditional_gate_comes_with_the_gate() -> None:
    circuit = cirq.Circuit(
        cirq.measure(A, key="k"), cirq.I(B).with_classical_controls("k"), cirq.measure(B, key="m")
    )

    assert opened("simulator").sample(
        CircuitRun("p0", 0, add_noise(circuit, {"bit_flip": 1}), 10, 1)
    ).counts == {"00": 10}


def test_gates_of_subcircuits_get_their_noise() -> None:
    inner = cirq.CircuitOperation(cirq.FrozenCircuit(cirq.I(A)), repetitions=3)

    assert means(cirq.Circuit(inner), {"bit_flip": 0.1}, "Z0") == pytest.approx([0.8**3])


def test_gates_with_symbols_left_get_their_noise() -> None:
    import sympy

    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("t")).on(A))

    resolved = cirq.resolve_parameters(add_noise(circuit, {"bit_flip": 0.1}), {"t": 0})

    assert opened().expect(resolved, observables_of(["Z0"], 1)) == pytest.approx([0.8])


def test_the_canonical_form_says_what_the_spec_leaves_out() -> None:
    assert parse({"depolarize": 0.1, "readout": 0.02}).canonical == (
        {"depolarize": {"p": 0.1, "on": "all"}},
        {"readout": {"p01": 0.02, "p10": 0.02}},
    )
    assert parse(
        [{"amplitude_damping": {"gamma": 1, "on": "one_qubit"}}, {"custom": {"pauli": {"Z": 0.25}}}]
    ).canonical == (
        {"amplitude_damping": {"gamma": 1.0, "on": "one_qubit"}},
        {"custom": {"pauli": {"I": 0.75, "Z": 0.25}, "on": "all"}},
    )
    assert parse({"custom": {"kraus": [[[1, 0], [0, [0, 1]]]]}}).canonical == (
        {"custom": {"kraus": [[[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]], "on": "all"}},
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"depolarise": 0.1}, r"noise.depolarise: there is no such channel.*Did you mean 'depolarize'"),
        ({"depolarize": 1.1}, "noise.depolarize: is a number from 0 to 1, not 1.1"),
        ({"depolarize": -0.1}, "from 0 to 1"),
        ({"depolarize": "0.1"}, "from 0 to 1"),
        ({"depolarize": True}, "from 0 to 1"),
        ({"depolarize": None}, "from 0 to 1, not None"),
        ({"depolarize": float("nan")}, "from 0 to 1, not nan"),
        ({"depolarize": float("inf")}, "from 0 to 1, not inf"),
        ({"depolarize": 10**400}, r"from 0 to 1, not 10{79}\.\.\."),
        ({"depolarize": {"p": 0.1, "on": ["two_qubit"]}}, "noise.depolarize.on: is one of"),
        ({"depolarize": {"on": "all"}}, "noise.depolarize: needs `p`"),
        ({"depolarize": {"p": 0.1, "where": "all"}}, "noise.depolarize.where: is unknown"),
        ({"depolarize": {"p": 0.1, "on": "cz"}}, "noise.depolarize.on: is one of"),
        ({"bit_flip": {"p": 2}}, "noise.bit_flip.p"),
        ({"amplitude_damping": {"p": 0.1}}, "noise.amplitude_damping.p: is unknown; there are gamma, on"),
        ({"readout": {"p01": 2}}, "noise.readout.p01"),
        ({"readout": {}}, "noise.readout: needs"),
        ([{"readout": 0.1}, {"readout": 0.1}], "noise.readout: is there twice"),
        ({"custom": {}}, "noise.custom: needs `kraus`"),
        ({"custom": {"kraus": [[[1, 0], [0, 0.5]]]}}, "not the identity; an entry is off by 0.75"),
        ({"custom": {"kraus": [[[1, 0]]]}}, "no square matrix"),
        ({"custom": {"kraus": [[[1]]]}}, "2×2"),
        ({"custom": {"kraus": []}}, "a list of matrices"),
        ({"custom": {"kraus": [[[1, "i"], [0, 1]]]}}, "'i' is no number"),
        ({"custom": {"kraus": [[[1, [0, 1, 2]], [0, 1]]]}}, "is no number"),
        ({"custom": {"kraus": [[[float("nan"), 0], [0, 1]]]}}, "nan is no number"),
        ({"custom": {"kraus": [[[1e200, 0], [0, 1]]]}}, "not the identity; an entry is off by inf"),
        (
            {"custom": {"kraus": [[[1, 0], [0, 1]], [[0, 0, 0, 0]] * 4]}},
            "all matrices are 2×2, or all are 4×4",
        ),
        ({"custom": {"kraus": {"a": 1}}}, "a list of matrices"),
        ({"custom": {"pauli": {"": 1.0}}}, "is no string of 1"),
        ({"custom": {"pauli": {1: 0.1}}}, "custom.pauli.1: is no string of 1"),
        ({"custom": {"pauli": {"I": 0.5, "X": 0.4}}}, "add up to 0.9, and 1 is"),
        ({"custom": {"pauli": {"X": 0.6, "Z": 0.6}}}, "add up to 1.2"),
        ({"custom": {"pauli": {"X": 0.1, "ZZ": 0.1}}}, "noise.custom.pauli.ZZ: is no string of 1"),
        ({"custom": {"pauli": {"Q": 0.1}}}, "noise.custom.pauli.Q"),
        ({"custom": {"pauli": {"XX": 0.1}, "on": "one_qubit"}}, "cannot come behind gates of one"),
    ],
)
def test_anything_but_noise_is_refused_with_its_key(spec: Json, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        parse(spec)

    assert (caught.value.kind, caught.value.type) == ("client_error", "NoiseError")


def test_a_gate_too_large_to_be_depolarized_is_named() -> None:
    four = cirq.Circuit(cirq.X(A).controlled_by(B, C, cirq.LineQubit(3)))

    with pytest.raises(ToolError, match=r"has 4 qubits.*gateset"):
        add_noise(four, {"depolarize": 0.1})
    assert len(add_noise(four, {"bit_flip": 0.1})) == 2
