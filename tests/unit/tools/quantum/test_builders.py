"""Circuits by name are those of their papers."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import cirq
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.quantum.circuits import builders, canonical


def build(**spec: Any) -> cirq.Circuit:
    return builders.build(spec)


def final(circuit: cirq.Circuit, **values: float) -> np.ndarray:
    state: np.ndarray = cirq.resolve_parameters(circuit, values).final_state_vector(dtype=np.complex128)
    return state


def chances(circuit: cirq.Circuit, **values: float) -> np.ndarray:
    found: np.ndarray = np.abs(final(circuit, **values)) ** 2
    return found


ALL = [
    {"name": "ghz", "qubits": 3},
    {"name": "qft", "qubits": 3},
    {"name": "grover", "marked": "101"},
    {"name": "qaoa_maxcut", "edges": [[0, 1], [1, 2]], "layers": 2},
    {"name": "hardware_efficient", "qubits": 3, "layers": 1},
    {"name": "random", "qubits": 3, "depth": 4, "seed": 1},
]


@pytest.mark.parametrize("spec", ALL, ids=[str(spec["name"]) for spec in ALL])
def test_all_qubits_are_measured_as_m_unless_told_otherwise(spec: dict[str, Any]) -> None:
    measured, bare = builders.build(spec), builders.build({**spec, "measure": False})

    last = measured[-1].operations[-1]
    assert cirq.measurement_key_name(last) == "m"
    assert last.qubits == tuple(cirq.LineQubit.range(3))
    assert not cirq.is_measurement(bare)
    assert canonical.read(canonical.text(measured)) == measured


@pytest.mark.parametrize("qubits", [1, 2, 5])
def test_ghz_is_all_zeros_or_all_ones(qubits: int) -> None:
    state = final(build(name="ghz", qubits=qubits, measure=False))

    expected = np.zeros(2**qubits)
    expected[[0, -1]] = 1 / math.sqrt(2)
    assert np.allclose(state, expected)


@pytest.mark.parametrize("qubits", [1, 2, 3, 5])
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("swaps", [False, True])
def test_qft_is_the_discrete_fourier_transform(qubits: int, inverse: bool, swaps: bool) -> None:
    circuit = build(name="qft", qubits=qubits, inverse=inverse, swaps=swaps, measure=False)

    size = 2**qubits
    sign = -1 if inverse else 1
    expected = np.exp(sign * 2j * np.pi * np.outer(range(size), range(size)) / size) / math.sqrt(size)
    reverse = [int(f"{index:0{qubits}b}"[::-1], 2) for index in range(size)]
    if not swaps:
        expected = expected[:, reverse] if inverse else expected[reverse]
    assert np.allclose(circuit.unitary(), expected)
    assert all(len(operation.qubits) <= 2 for operation in circuit.all_operations())


@pytest.mark.parametrize("marked", ["1", "10", "1011", ["000", "110"], ["00000", "10101", "11111"]])
@pytest.mark.parametrize("iterations", [None, 0, 1, 3])
def test_grover_finds_what_is_marked_as_often_as_the_theory_says(marked: Any, iterations: int | None) -> None:
    found = [marked] if isinstance(marked, str) else marked
    spec = {"marked": marked} if iterations is None else {"marked": marked, "iterations": iterations}

    chance = chances(build(name="grover", measure=False, **spec))[[int(bits, 2) for bits in found]].sum()

    angle = math.asin(math.sqrt(len(found) / 2 ** len(found[0])))
    after = [math.sin((2 * k + 1) * angle) ** 2 for k in range(20)]
    if iterations is None:
        first_turn = after[: math.ceil(math.pi / (4 * angle)) + 1]
        assert chance == pytest.approx(max(first_turn))
    else:
        assert chance == pytest.approx(after[iterations])


SQUARE = [[0, 1], [1, 2], [2, 3], [3, 0]]


def test_qaoa_at_zero_angles_is_uniform() -> None:
    circuit = build(name="qaoa_maxcut", edges=SQUARE, layers=1, measure=False)

    assert np.allclose(chances(circuit, gamma0=0, beta0=0), 1 / 16)


@given(gamma=st.floats(-3, 3), beta=st.floats(-3, 3))
def test_qaoa_is_the_product_of_its_exponentials(gamma: float, beta: float) -> None:
    circuit = build(name="qaoa_maxcut", edges=[[0, 1], [1, 2]], layers=1, measure=False)

    cut = [(bits[0] != bits[1]) + (bits[1] != bits[2]) for bits in itertools.product([0, 1], repeat=3)]
    mixer = np.array([[math.cos(beta), -1j * math.sin(beta)], [-1j * math.sin(beta), math.cos(beta)]])
    expected = np.kron(np.kron(mixer, mixer), mixer) @ (np.exp(-1j * gamma * np.array(cut)) / math.sqrt(8))
    found = final(circuit, gamma0=gamma, beta0=beta)
    assert abs(np.vdot(expected, found)) == pytest.approx(1, abs=1e-6)


def test_one_layer_of_qaoa_cuts_three_quarters_of_a_ring() -> None:
    """The best of p = 1 on a ring of even length: Farhi et al., section IV."""
    ring = build(name="qaoa_maxcut", edges=[[n, (n + 1) % 6] for n in range(6)], layers=1, measure=False)
    bits = np.array(list(itertools.product([0, 1], repeat=6)))
    cut = (bits != np.roll(bits, -1, axis=1)).sum(axis=1)

    assert chances(ring, gamma0=math.pi / 4, beta0=math.pi / 8) @ cut == pytest.approx(4.5, abs=1e-5)


@pytest.mark.parametrize(("entangler", "pairs"), [("linear", 3), ("ring", 4), ("full", 6)])
def test_hardware_efficient_numbers_its_angles_layer_by_layer(entangler: str, pairs: int) -> None:
    circuit = build(name="hardware_efficient", qubits=4, layers=2, entangler=entangler)

    assert cirq.parameter_names(circuit) == {f"theta{number}" for number in range(2 * 4 * 3)}
    entangling = [operation for operation in circuit.all_operations() if operation.gate == cirq.CZ]
    assert len(entangling) == 2 * pairs
    second = [op for op in circuit.all_operations() if cirq.parameter_names(op) == {"theta10"}]
    assert second == [cirq.ry(cirq.parameter_symbols(second[0]).pop()).on(cirq.LineQubit(1))]


def test_two_qubits_in_a_ring_have_one_pair() -> None:
    circuit = build(name="hardware_efficient", qubits=2, layers=1, entangler="ring")

    assert sum(operation.gate == cirq.CZ for operation in circuit.all_operations()) == 1


@given(seed=st.integers(0, 2**32 - 1))
def test_a_random_circuit_is_that_of_its_seed(seed: int) -> None:
    spec = {"name": "random", "qubits": 3, "depth": 5, "density": 0.9, "seed": seed}

    assert canonical.text(builders.build(spec)) == canonical.text(builders.build(spec))
    assert builders.build(spec) != builders.build({**spec, "seed": seed ^ 1})


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "builder needs a `name`: one of ghz,"),
        ({"name": "gzh"}, "There is no builder 'gzh'. Did you mean 'ghz'?"),
        ({"name": 3}, "There is no builder '3'. There are ghz, qft"),
        ({"name": "ghz"}, "builder ghz needs `qubits`"),
        ({"name": "ghz", "qubit": 3, "qubits": 2}, "has no key 'qubit'. Did you mean 'qubits'?"),
        ({"name": "ghz", "qubits": 2, "zzzzz": 1}, "has no key 'zzzzz'. It takes name, measure, qubits"),
        ({"name": "ghz", "qubits": "many"}, "builder ghz, `qubits`: "),
        ({"name": "ghz", "qubits": 0}, "builder ghz, `qubits`: "),
        ({"name": "ghz", "qubits": 1001}, "builder ghz, `qubits`: "),
        ({"name": "grover", "marked": []}, "builder grover, `marked`: "),
        ({"name": "grover", "marked": ["1", "01"]}, "need as many bits as each other"),
        ({"name": "grover", "marked": ["1", "1"]}, "names a bitstring twice"),
        ({"name": "grover", "marked": "12"}, "builder grover, `marked.0`: "),
        ({"name": "qaoa_maxcut", "edges": [[0, 0]]}, "joins two different nodes"),
        ({"name": "qaoa_maxcut", "edges": [[0, 1], [1, 0]]}, "an edge is named twice"),
        ({"name": "qaoa_maxcut", "edges": [[0]]}, "builder qaoa_maxcut needs `edges.0.1`"),
        ({"name": "hardware_efficient", "qubits": 3, "layers": 2, "entangler": "rng"}, "`entangler`: "),
        ({"name": "random", "qubits": 3, "depth": 4}, "builder random needs `seed`"),
    ],
)
def test_a_builder_that_is_not_one_is_refused_by_its_key(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ToolError) as caught:
        builders.build(spec)

    assert (caught.value.kind, caught.value.type) == ("client_error", "BadBuilder")
    assert said in caught.value.message


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "random", "qubits": 1000, "depth": 1000, "seed": 1},
        {"name": "grover", "marked": "1" * 20, "iterations": 10**9},
        {"name": "hardware_efficient", "qubits": 1000, "layers": 2, "entangler": "full"},
    ],
    ids=json.dumps,
)
def test_a_circuit_that_would_be_too_large_is_refused_before_it_is_made(spec: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as caught:
        builders.build(spec)

    assert (caught.value.kind, caught.value.type) == ("limit", "TooManyOperations")
