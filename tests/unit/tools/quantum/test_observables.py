"""Observables: their texts, their bases, and means with honest errors."""

from __future__ import annotations

import itertools
import math

import cirq
import numpy as np
import pytest

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.backends.local import Simulator, simulator
from noetl.quantum.circuits.observables import KEY, Basis, Observable, bases, measure_in, parse
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun, Measurement, Samples
from noetl.quantum.simulation.means import Mean, from_samples, more_repetitions

QUBITS = cirq.LineQubit.range(3)


def pure() -> Simulator:
    found = simulator(Backend(precision="double"))
    assert found is not None
    return found


def sampled(circuit: cirq.Circuit, observables: list[Observable], repetitions: int, seed: int) -> list[Mean]:
    backend = pure()
    taken = []
    for number, basis in enumerate(bases(observables)):
        order = CircuitRun(
            basis.name, 0, measure_in(circuit, basis, QUBITS), repetitions, seed * 100 + number
        )
        taken.append((basis, backend.sample(order)))
    return from_samples(observables, taken)


@pytest.mark.parametrize(
    ("text", "factors"),
    [
        ("Z0 Z1", ((0, "Z"), (1, "Z"))),
        ("X2*Y0", ((0, "Y"), (2, "X"))),
        ("X0Y1Z2", ((0, "X"), (1, "Y"), (2, "Z"))),
        ("ZZI", ((0, "Z"), (1, "Z"))),
        ("I", ()),
        ("III", ()),
        (" I0 * Z2 ", ((2, "Z"),)),
    ],
)
def test_a_pauli_string_is_read(text: str, factors: object) -> None:
    assert parse([text], 3) == [Observable(text, ((1.0, factors),))]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["Z3"], r"observables\[0\]: 'Z3' names qubit 3; the circuit has qubits 0 to 2"),
        ({"a": "Z0 Z0"}, "observables.a: 'Z0 Z0' names qubit 0 twice"),
        ({"a": "Z0 W1"}, "has the letter 'W'"),
        ({"a": "z0"}, "has the letter 'z'"),
        ({"a": "ZZ"}, "'ZZ' has 2 letters for 3 qubits"),
        ({"a": "0.5*Z0"}, "no Pauli string at character 1"),
        ({"a": "Z0 +"}, "no Pauli string at character 3"),
        ({"a": ""}, "'' is no Pauli string"),
        ({"a": {}}, "a Pauli string such as"),
        ({"a": 0.4}, "a Pauli string such as"),
        ({"a": {"Z0": "1j"}}, "observables.a, 'Z0': a coefficient is a finite real number, not '1j'"),
        ({"a": {"Z0": [0, 1]}}, "finite real number"),
        ({"a": {"Z0": True}}, "finite real number"),
        ({"a": {"Z0": float("nan")}}, "finite real number"),
        ({"a": {"Z0": None}}, "finite real number"),
        ({"a": {"Z0": float("inf")}}, "finite real number"),
        ({"a": {"Z0": 10**400}}, r"finite real number, not 10{79}\.\.\."),
        ({"a": {"Z0": 1e308, "ZII": 1e308}}, "add up to more than a number can hold"),
        ({"a": {1: 1}}, "'1' is no Pauli string"),
        ({"a": ["Z0"]}, "a Pauli string such as"),
        ([None], r"observables\[0\]: a Pauli string such as"),
        ({"a": "   "}, "'' is no Pauli string"),
        ({"a": "*Z0"}, "no Pauli string at character 1"),
        ({"a": "Z0**X1"}, "no Pauli string at character 3"),
        ({"a": "Z-1"}, "no Pauli string at character 1"),
        # Digits of another alphabet, and more of them than a number has.
        ({"a": "Z٠"}, "no Pauli string at character 1"),
        ({"a": "Z" + "9" * 5000}, r"'Z9{78}\.\.\. is no Pauli string at character 1"),
        ({"a": "Z" * 5000}, r"has 5000 letters for 3 qubits"),
        (["Z0", "Z0"], r"observables\[1\]: 'Z0' is there already"),
    ],
)
def test_anything_but_an_observable_is_refused_with_its_place(given: Json, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        parse(given, 3)

    assert caught.value.kind == "client_error"


def test_a_sum_adds_up_terms_that_are_the_same() -> None:
    (energy,) = parse({"energy": {"Z0 Z1": 1, "ZZI": 0.5, "I": -2}}, 3)

    assert energy == Observable("energy", ((1.5, ((0, "Z"), (1, "Z"))), (-2.0, ())))


@pytest.mark.parametrize("provider", ["simulator", "density_matrix"])
def test_a_thousand_terms_are_what_matrices_say(provider: str) -> None:
    rng = np.random.RandomState(3)
    qubits = cirq.LineQubit.range(5)
    circuit = cirq.Circuit(
        cirq.I.on_each(*qubits), cirq.testing.random_circuit(qubits, 10, 0.8, random_state=rng)
    )
    strings = rng.permutation(["".join(letters) for letters in itertools.product("IXYZ", repeat=5)])[:1000]
    terms = {str(string): float(rng.randn()) for string in strings}
    letters = {letter: cirq.unitary(getattr(cirq, letter)) for letter in "IXYZ"}
    whole = sum(number * cirq.kron(*(letters[one] for one in term)) for term, number in terms.items())
    backend = simulator(Backend(provider=provider, precision="double"))
    assert backend is not None

    (mean,) = backend.expect(circuit, parse({"h": terms}, 5))

    state = circuit.final_state_vector(qubit_order=qubits, dtype=np.complex128)
    assert len(terms) == 1000
    assert mean == pytest.approx(np.vdot(state, whole @ state).real, abs=1e-9)


def test_a_thousand_terms_on_25_qubits_are_covered_by_their_bases() -> None:
    rng = np.random.RandomState(4)
    texts = {"".join(rng.choice(list("IXYZ"), 25, p=(0.88, 0.04, 0.04, 0.04))) for _ in range(1200)}
    observables = parse({"h": dict.fromkeys(sorted(texts)[:1000], 1.0)}, 25)

    found = bases(observables)

    assert all(
        any(set(factors) <= set(basis.letters) for basis in found) for _, factors in observables[0].terms
    )
    assert len({basis.name for basis in found}) == len(found) < 1000


def test_terms_that_commute_on_every_qubit_share_a_basis() -> None:
    observables = parse(["Z0 Z1", "Z2", "X0 X1", "Y0 Y1 Z2", "Z0", "I"], 3)

    found = bases(observables)

    assert [one.name for one in found] == ["y0y1z2", "z0z1", "x0x1"]
    for one in observables:
        for _, factors in one.terms:
            assert not factors or any(set(factors) <= set(basis.letters) for basis in found)


def test_only_what_is_needed_is_measured_and_last_measurements_go() -> None:
    circuit = cirq.Circuit(cirq.H.on_each(*QUBITS), cirq.measure(*QUBITS, key="m"))

    whole = measure_in(circuit, Basis(((1, "X"),)), QUBITS)

    assert cirq.measurement_key_names(whole) == {KEY}
    assert cirq.num_qubits(next(op for op in whole.all_operations() if cirq.is_measurement(op))) == 1


def test_measurements_before_the_end_stay() -> None:
    circuit = cirq.Circuit(
        cirq.H(QUBITS[0]),
        cirq.measure(QUBITS[0], key="early"),
        cirq.X(QUBITS[1]).with_classical_controls("early"),
        cirq.measure(QUBITS[1], key="late"),
    )
    observables = parse(["Z1", "Z0 Z1"], 3)

    assert cirq.measurement_key_names(measure_in(circuit, bases(observables)[0], QUBITS)) == {"early", KEY}
    alone, together = sampled(circuit, observables, 500, 3)
    assert together == Mean("Z0 Z1", 1.0, 0.0)
    assert abs(alone.mean) < 0.2


def test_the_key_of_observables_may_not_be_taken() -> None:
    circuit = cirq.Circuit(cirq.measure(QUBITS[0], key=KEY), cirq.X(QUBITS[0]))

    with pytest.raises(ToolError, match="another key"):
        measure_in(circuit, Basis(((0, "Z"),)), QUBITS)


def test_means_of_each_letter_have_the_right_sign() -> None:
    # |+>, |i>, |1>: the states with X = 1, Y = 1 and Z = -1.
    circuit = cirq.Circuit(cirq.H(QUBITS[0]), cirq.X(QUBITS[1]) ** -0.5, cirq.X(QUBITS[2]))
    observables = parse({"x": "X0", "y": "Y1", "z": "Z2", "all": "X0 Y1 Z2"}, 3)

    assert pure().expect(circuit, observables) == pytest.approx([1, 1, -1, -1])
    assert sampled(circuit, observables, 50, 1) == [
        Mean("x", 1.0, 0.0),
        Mean("y", 1.0, 0.0),
        Mean("z", -1.0, 0.0),
        Mean("all", -1.0, 0.0),
    ]


def test_covariances_of_terms_measured_together_count() -> None:
    # In a Bell state Z0 and Z1 are one and the same: their difference is 0 in every repetition.
    samples = Samples((Measurement(KEY, ("a", "b")),), {"00": 50, "11": 50})
    both = Basis(((0, "Z"), (1, "Z")))
    difference, total = parse({"difference": {"Z0": 1, "Z1": -1}, "total": {"Z0": 1, "Z1": 1, "I": 3}}, 2)

    assert from_samples([difference, total], [(both, samples)]) == [
        Mean("difference", 0.0, 0.0),
        # Values of +2 and -2: variance 4 * 100 / 99, over 100 repetitions.
        Mean("total", 3.0, pytest.approx(math.sqrt(4 / 99))),
    ]


def test_bits_of_other_measurements_are_passed_over() -> None:
    samples = Samples((Measurement("early", ("c",)), Measurement(KEY, ("a",))), {"01": 2, "11": 1, "10": 1})

    (mean,) = from_samples(parse(["Z0"], 1), [(Basis(((0, "Z"),)), samples)])

    assert mean.mean == -0.5


def test_one_repetition_tells_no_error() -> None:
    samples = Samples((Measurement(KEY, ("a",)),), {"1": 1})

    assert from_samples(parse(["Z0"], 1), [(Basis(((0, "Z"),)), samples)]) == [Mean("Z0", -1.0, None)]


def test_nine_and_a_half_of_ten_intervals_of_two_errors_hold_the_exact_mean() -> None:
    rng = np.random.RandomState(5)
    circuit = cirq.Circuit(
        [cirq.rx(angle).on(qubit) for angle, qubit in zip(rng.uniform(0, 3, 3), QUBITS, strict=True)],
        cirq.CX(*QUBITS[:2]),
        cirq.ry(0.7).on(QUBITS[1]),
        cirq.CX(*QUBITS[1:]),
    )
    observables = parse({"e": {"Z0 Z1": 0.5, "X0": 0.3, "X1 X2": -0.7, "Y1": 0.2, "Z2": 1.0}}, 3)
    (exact,) = pure().expect(circuit, observables)

    held = 0
    for seed in range(100):
        (found,) = sampled(circuit, observables, 100, seed)
        assert found.stderr is not None
        held += abs(found.mean - exact) <= 2 * found.stderr

    # Normal: 95.4 %. Three deviations of a binomial around it.
    assert 0.89 <= held / 100 <= 1.0


def test_a_target_says_how_many_repetitions_are_missing() -> None:
    assert more_repetitions([Mean("a", 0, 0.02), Mean("b", 0, 0.01)], 1000, 0.01) == 3000
    assert more_repetitions([Mean("a", 0, 0.01)], 1000, 0.01) == 0
    assert more_repetitions([Mean("a", 0, None)], 1, 0.01) == 1
    assert more_repetitions([], 1000, 0.01) == 0


def test_a_target_out_of_reach_is_run_after_in_steps() -> None:
    for target in (1e-9, 1e-300, 5e-324):
        assert more_repetitions([Mean("a", 0, 0.02)], 1000, target) == 10_000_000
