"""Compilation and placement change gates and qubits, and nothing that is measured."""

from __future__ import annotations

import cirq
import numpy as np
import pytest
import sympy

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.backends.local import simulator
from noetl.quantum.circuits.compiling import CompiledCircuit, compile_circuit, gateset, size_report
from noetl.quantum.circuits.measurements import measurements_of
from noetl.quantum.circuits.observables import parse
from noetl.quantum.config.task import Backend
from noetl.quantum.model import Capabilities, CircuitRun
from noetl.quantum.simulation.mitigation import decouple

LOCAL = Capabilities("simulator", local=True)
# Their order as text is not that of their numbers.
QUBITS = [cirq.NamedQubit(f"q_{number}") for number in (0, 2, 10, 1, 7)]
GATESETS = ("cz", "sqrt_iswap", "ionq", "ionq_aria", "ionq_forte", "aqt", "google_cz", "google_sycamore")


def random_circuit(seed: int, qubits: int = 4, gates: int = 14) -> cirq.Circuit:
    """Gates on any pairs, and measurements in three keys whose order is neither that of qubits nor
    of moments."""
    rng = np.random.RandomState(seed)
    used = QUBITS[:qubits]
    circuit = cirq.Circuit()
    for _ in range(gates):
        picked = [used[place] for place in rng.permutation(qubits)]
        circuit.append(
            cirq.PhasedXZGate(x_exponent=rng.rand(), z_exponent=rng.rand(), axis_phase_exponent=rng.rand())(
                picked[0]
            )
        )
        circuit.append([cirq.CX, cirq.CZ**0.3, cirq.ISWAP**0.7, cirq.SWAP][rng.randint(4)](*picked[:2]))
    if qubits > 2:
        circuit.append(cirq.CCX(*used[:3]))
    circuit.append(cirq.measure(used[1], used[0], key="c_10", invert_mask=(True,)))
    circuit.append(
        [cirq.H(used[-1]), cirq.measure(*used[2:-1], key="c_2"), cirq.measure(used[-1], key="c_1")]
    )
    return circuit


def distribution(circuit: cirq.Circuit) -> np.ndarray:
    """The exact probabilities of the bitstrings, in the order of keys, by way of a state."""
    backend = simulator(Backend(precision="double"))
    assert backend is not None
    by_key = {cirq.measurement_key_name(op): op for op in circuit.all_operations() if cirq.is_measurement(op)}
    ops = [by_key[one.key] for one in measurements_of(circuit)]
    order = [qubit for op in ops for qubit in op.qubits]
    rest = sorted(circuit.all_qubits() - set(order))
    state = backend.state(circuit, order + rest).reshape((2,) * len(order) + (-1,))
    chances = (abs(state) ** 2).sum(axis=-1)
    masks = [bit for op in ops for bit in op.gate.full_invert_mask()]  # type: ignore[union-attr]
    return np.flip(chances, axis=[place for place, bit in enumerate(masks) if bit]).reshape(-1)


def assert_same(circuit: cirq.Circuit, found: CompiledCircuit) -> None:
    assert [one.key for one in measurements_of(found.circuit)] == [
        one.key for one in measurements_of(circuit)
    ]
    assert distribution(found.circuit) == pytest.approx(distribution(circuit), abs=1e-6)
    backend = simulator(Backend(precision="double"))
    assert backend is not None
    texts = ["ZZII", "XIYI", "IZIX", "YXZX", "IIIZ"]
    if len(circuit.all_qubits()) == 4:
        observables = parse(texts, 4)
        assert backend.expect(found.circuit, observables, found.qubits) == pytest.approx(
            backend.expect(circuit, observables), abs=1e-6
        )


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("name", GATESETS)
def test_a_gate_set_keeps_the_distribution(name: str, optimize: bool) -> None:
    circuit = random_circuit(1, gates=5)

    found = compile_circuit(circuit, {"gateset": name, "optimize": optimize}, LOCAL)

    assert gateset(name).validate(found.circuit)
    assert_same(circuit, found)


@pytest.mark.parametrize(
    "placement",
    [
        "line",
        {"line": 6},
        {"grid": [2, 3]},
        {"grid": [2, 2], "qubits": {"q_0": [0, 0], "q_2": [1, 1], "q_10": [0, 1], "q_1": [1, 0]}},
        {"line": 4, "qubits": [3, 1, 0, 2]},
        {"qubits": {"q_0": 7, "q_2": 3, "q_10": 4, "q_1": 0}},
    ],
)
@pytest.mark.parametrize("seed", [2])
def test_placement_keeps_the_distribution(placement: Json, seed: int) -> None:
    circuit = random_circuit(seed)

    found = compile_circuit(circuit, {"placement": placement}, LOCAL)

    assert_same(circuit, found)
    report = found.report["mapping"]
    assert [report["final"][str(qubit)] for qubit in sorted(circuit.all_qubits())] == [
        str(one) for one in found.qubits
    ]


@pytest.mark.parametrize("seed", range(2))
def test_a_placed_circuit_in_a_gate_set_keeps_the_distribution_and_the_edges(seed: int) -> None:
    circuit = random_circuit(seed)

    found = compile_circuit(circuit, {"placement": {"grid": [2, 2]}, "gateset": "cz"}, LOCAL)

    assert_same(circuit, found)
    assert gateset("cz").validate(found.circuit)
    for op in found.circuit.all_operations():
        if len(op.qubits) == 2 and not cirq.is_measurement(op):
            one, other = op.qubits
            assert isinstance(one, cirq.GridQubit)
            assert one.is_adjacent(other)


def test_samples_of_a_placed_circuit_have_the_bits_of_the_circuit() -> None:
    a, b, c, d = QUBITS[:4]
    circuit = cirq.Circuit(
        cirq.X(a), cirq.SWAP(a, c), cirq.CX(c, d), cirq.CX(d, b), cirq.measure(a, b, c, d, key="m")
    )
    backend = simulator(Backend())
    assert backend is not None

    found = compile_circuit(circuit, {"placement": "line", "gateset": "cz"}, LOCAL)

    assert backend.sample(CircuitRun("p0", 0, found.circuit, 5, 1)).counts == {"0111": 5}


def test_without_optimize_no_gate_is_merged_or_dropped() -> None:
    # As in randomized benchmarking: a sequence that is the identity as a whole.
    a, b = QUBITS[:2]
    circuit = cirq.Circuit(
        cirq.H(a),
        cirq.H(a),
        cirq.CZ(a, b),
        cirq.CZ(a, b),
        cirq.CX(a, b),
        cirq.CX(a, b),
        cirq.measure(a, key="m"),
    )

    kept = compile_circuit(circuit, {"gateset": "cz", "optimize": False}, LOCAL).report
    merged = compile_circuit(circuit, {"gateset": "cz"}, LOCAL).report

    assert kept["after"]["two_qubit"] == kept["before"]["two_qubit"] == 4
    assert merged["after"]["two_qubit"] == 0


def test_the_report_counts_before_and_after() -> None:
    a, b, c = QUBITS[:3]
    circuit = cirq.Circuit(cirq.H(a), cirq.CX(a, b), cirq.CX(a, c), cirq.measure(a, b, c, key="m"))

    counts = {
        "operations": 4,
        "depth": 4,
        "two_qubit": 2,
        "two_qubit_depth": 2,
        "gates": {"CXPowGate": 2, "HPowGate": 1, "MeasurementGate": 1},
    }
    assert compile_circuit(circuit, None, LOCAL).report == {
        "gateset": None,
        "placement": None,
        "optimize": True,
        "before": counts,
        "after": counts,
        "mapping": None,
    }


def test_gates_of_known_circuits_are_counted() -> None:
    qubits = cirq.LineQubit.range(4)
    kept = (cirq.HPowGate, cirq.CZPowGate, cirq.SwapPowGate)
    qft = cirq.Circuit(cirq.decompose(cirq.qft(*qubits), keep=lambda op: isinstance(op.gate, kept)))
    layers = cirq.Circuit(
        [cirq.H.on_each(*qubits), cirq.CZ(*qubits[:2]), cirq.CZ(*qubits[2:]), cirq.CZ(*qubits[1:3])]
    )

    found, brick = size_report(qft), size_report(layers)

    # n Hadamards, n(n-1)/2 controlled phases, n/2 swaps.
    assert found["gates"] == {"HPowGate": 4, "CZPowGate": 6, "SwapPowGate": 2}
    assert found["two_qubit"] == 8
    assert (brick["depth"], brick["two_qubit"], brick["two_qubit_depth"]) == (3, 3, 2)


@pytest.mark.parametrize(
    ("gate", "name", "gates"),
    [
        # Vidal and Dawson (2004), arXiv:quant-ph/0307177; Shende, Markov (2009), arXiv:0803.2316;
        # Huang et al. (2021), arXiv:2105.06074.
        (cirq.CX, "cz", 1),
        (cirq.SWAP, "cz", 3),
        (cirq.ISWAP, "cz", 2),
        (cirq.CX, "sqrt_iswap", 2),
        (cirq.SWAP, "sqrt_iswap", 3),
        (cirq.ISWAP, "sqrt_iswap", 2),
    ],
)
def test_a_gate_takes_as_many_gates_of_two_qubits_as_theory_says(
    gate: cirq.Gate, name: str, gates: int
) -> None:
    circuit = cirq.Circuit(gate.on(*QUBITS[:2]), cirq.measure(*QUBITS[:2], key="m"))

    report = compile_circuit(circuit, {"gateset": name}, LOCAL).report

    assert report["before"]["two_qubit"] == 1
    assert report["after"]["two_qubit"] == report["after"]["two_qubit_depth"] == gates


def test_swaps_of_a_placement_are_counted() -> None:
    # A star on a line: its middle reaches two of its three neighbours.
    middle, *others = QUBITS[:4]
    circuit = cirq.Circuit([cirq.CX(middle, other) for other in others], cirq.measure(*QUBITS[:4], key="m"))

    report = compile_circuit(circuit, {"placement": "line"}, LOCAL).report

    assert report["before"]["gates"] == {"CXPowGate": 3, "MeasurementGate": 1}
    assert report["after"]["gates"] == {"CXPowGate": 3, "MeasurementGate": 1, "SwapPowGate": 1}


def test_the_gate_set_of_the_backend_is_used_unless_another_is_named() -> None:
    circuit = random_circuit(1, gates=2)
    machine = Capabilities("ionq", local=False, gateset="ionq")

    assert gateset("ionq").validate(compile_circuit(circuit, None, machine).circuit)
    assert gateset("aqt").validate(compile_circuit(circuit, {"gateset": "aqt"}, machine).circuit)
    assert compile_circuit(circuit, None, LOCAL).circuit == circuit


def test_a_qubit_that_is_only_measured_is_placed_too() -> None:
    circuit = cirq.Circuit(cirq.X(QUBITS[0]), cirq.measure(*QUBITS[:3], key="m"))

    found = compile_circuit(circuit, {"placement": {"grid": [1, 3]}}, LOCAL)

    assert len(set(found.qubits)) == 3
    assert not any(op.tags for op in found.circuit.all_operations())
    assert found.report["after"]["operations"] == 2


def text_of_a_compiled_circuit() -> str:
    found = compile_circuit(
        random_circuit(2, gates=4, qubits=4), {"placement": {"grid": [2, 2]}, "gateset": "cz"}, LOCAL
    )
    named = compile_circuit(random_circuit(3, gates=4, qubits=4), {"gateset": "cz"}, LOCAL)
    return "".join(cirq.to_json(decouple(one.circuit, "XX_PAIR"), indent=None) for one in (found, named))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"gate_set": "cz"}, "compile.gate_set: is unknown.*Did you mean 'gateset'"),
        ({"gateset": "czz"}, "there is no 'czz'.*Did you mean 'cz'"),
        ({"gateset": 3}, "is the name of a gate set, not 3"),
        ({"gateset": ""}, "is the name of a gate set, not ''"),
        ({"optimize": "no"}, "compile.optimize: is true or false"),
        ({"placement": "circle"}, "is `line`, or a mapping of line, grid, qubits"),
        ({"placement": {"ring": 3}}, "compile.placement.ring: is unknown"),
        ({"placement": {"line": 3}}, "has 4 qubits, and the device 3"),
        ({"placement": {"line": 4.0}}, "a number of qubits, from 1 on, not 4.0"),
        ({"placement": {"line": True}}, "a number of qubits, from 1 on, not True"),
        ({"placement": {"grid": [1, 3]}}, "has 4 qubits, and the device 3"),
        ({"placement": {"grid": [-2, -2]}}, r"is \[rows, columns\], from 1 on"),
        ({"placement": {}}, "is `line`, or a mapping"),
        ({"placement": {"qubits": [0, 1, 2, [True, False]]}}, r"not \[True, False\]"),
        ({"placement": {"qubits": [0, 1, 2, 10**30]}}, r"a place is a number on a line"),
        ({"placement": {"grid": [2, 2], "qubits": [0, 1, 2, 3]}}, r"q\(0\) is not on the device"),
        ({"placement": {"line": 0}}, "a number of qubits, from 1 on"),
        ({"placement": {"line": 4, "grid": [2, 2]}}, "a line or a grid, not both"),
        ({"placement": {"grid": [2]}}, r"is \[rows, columns\]"),
        ({"placement": {"grid": [1000, 1000]}}, "has 1000000 qubits; 10000 is the most"),
        ({"placement": {"qubits": {"q_0": 1}}}, "gives a place to each of q_0, q_1, q_2, q_10"),
        ({"placement": {"qubits": [1, 1, 2, 3]}}, "two qubits on one place"),
        ({"placement": {"qubits": [1, 2, 3, "x"]}}, "not 'x'"),
        ({"placement": {"line": 4, "qubits": [1, 2, 3, 4]}}, r"q\(4\) is not on the device"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_its_key(spec: Json, message: str) -> None:
    with pytest.raises(ToolError, match=message) as caught:
        compile_circuit(random_circuit(1), spec, LOCAL)

    assert caught.value.kind == "client_error"


def test_null_is_what_is_not_said() -> None:
    circuit = random_circuit(1, gates=2)
    machine = Capabilities("ionq", local=False, gateset="ionq")

    assert compile_circuit(
        circuit, {"gateset": None, "placement": None, "optimize": None}, machine
    ) == compile_circuit(circuit, None, machine)


@pytest.mark.parametrize("name", ["cz", "ionq"])
@pytest.mark.parametrize("optimize", [True, False])
def test_what_no_gate_set_knows_is_named_on_one_line(name: str, optimize: bool) -> None:
    a, b = QUBITS[:2]
    conditional = [cirq.measure(a, key="k"), cirq.X(b).with_classical_controls("k")]
    for ops, message in (
        (conditional, r"X\(q_2\).with_classical_controls\(k\) has no form"),
        ([cirq.reset(a)], r"reset\(q_0\) has no form"),
        ([cirq.CZ(a, b) ** sympy.Symbol("t")], r"CZ\*\*t\(q_0, q_2\) has symbols without values"),
    ):
        with pytest.raises(ToolError, match=message) as caught:
            compile_circuit(cirq.Circuit(ops), {"gateset": name, "optimize": optimize}, LOCAL)
        assert "\n" not in caught.value.message


def test_parts_that_nothing_joins_are_placed_together() -> None:
    circuit = cirq.Circuit(
        cirq.X(QUBITS[0]), cirq.CX(*QUBITS[:2]), cirq.CX(*QUBITS[2:4]), cirq.measure(*QUBITS[:4], key="m")
    )

    assert_same(circuit, compile_circuit(circuit, {"placement": "line"}, LOCAL))


def test_measurements_before_the_end_are_not_placed() -> None:
    a, b = QUBITS[:2]
    circuit = cirq.Circuit(
        cirq.measure(a, key="k"), cirq.X(b).with_classical_controls("k"), cirq.measure(b, key="m")
    )

    with pytest.raises(ToolError, match="only circuits that measure at their end"):
        compile_circuit(circuit, {"placement": "line"}, LOCAL)


def test_a_gate_that_a_gate_set_has_no_form_for_is_named() -> None:
    circuit = cirq.Circuit(cirq.depolarize(0.1).on(QUBITS[0]), cirq.measure(QUBITS[0], key="m"))

    for optimize in (True, False):
        with pytest.raises(ToolError, match=r"cannot be rewritten for cz.*depolarize") as caught:
            compile_circuit(circuit, {"gateset": "cz", "optimize": optimize}, LOCAL)
        assert caught.value.type == "CompileError"
