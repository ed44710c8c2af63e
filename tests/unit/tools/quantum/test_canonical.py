"""One text for a circuit, and nothing but circuits out of texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cirq
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.quantum.circuits import builders, canonical, qasm
from noetl.quantum.model import Point

QUBITS = cirq.LineQubit.range(4)
A, B = sympy.symbols("a b")

ANGLES = st.one_of(
    st.floats(-7, 7),
    st.sampled_from([A, 2 * A + B, A * B / sympy.pi, A**2 - 1, sympy.Rational(1, 3) * B, -A]),
)


@st.composite
def operations(draw: st.DrawFn) -> cirq.Operation:
    one, other = draw(st.permutations(QUBITS))[:2]
    angle = draw(ANGLES)
    inner = cirq.FrozenCircuit(cirq.X(one) ** angle, cirq.CZ(one, other))
    return draw(
        st.sampled_from(
            [
                cirq.H(one),
                cirq.rx(angle).on(one),
                cirq.PhasedXZGate(x_exponent=angle, z_exponent=0.25, axis_phase_exponent=angle).on(one),
                cirq.CZ(one, other) ** angle,
                cirq.Z(one).controlled_by(other, control_values=[0]),
                cirq.X(one).with_tags("tag"),
                cirq.CircuitOperation(inner, repetitions=2),
                cirq.depolarize(0.125).on(one),
                cirq.MatrixGate(cirq.unitary(cirq.ISWAP)).on(one, other),
            ]
        )
    )


@st.composite
def circuits(draw: st.DrawFn) -> cirq.Circuit:
    made = cirq.Circuit(draw(st.lists(operations(), max_size=8)))
    if draw(st.booleans()):
        made.append([cirq.measure(QUBITS[0], key="k"), cirq.X(QUBITS[1]).with_classical_controls("k")])
    return made


@given(circuit=circuits())
@settings(max_examples=60)
def test_a_text_reads_back_to_an_equal_circuit_with_the_same_text(circuit: cirq.Circuit) -> None:
    text = canonical.text(circuit)

    again = canonical.read(text)

    assert again == circuit
    assert canonical.text(again) == text


@given(circuit=circuits(), order=st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_operations_in_a_moment_is_not_told(circuit: cirq.Circuit, order: Any) -> None:
    moments = []
    for moment in circuit:
        operations = list(moment.operations)
        order.shuffle(operations)
        moments.append(cirq.Moment(operations))

    assert canonical.text(cirq.Circuit(moments)) == canonical.text(circuit)


def hashes_of_circuits() -> list[str]:
    """Of circuits of every origin."""
    specs = [
        {"name": "qaoa_maxcut", "edges": [[0, 1], [1, 2], [2, 0]], "layers": 2},
        {"name": "grover", "marked": ["101", "010"]},
        {"name": "random", "qubits": 4, "depth": 8, "seed": 7},
    ]
    a, b, c = sympy.symbols("a b c")
    made = [builders.build(spec) for spec in specs]
    made.append(cirq.Circuit(cirq.X(cirq.LineQubit(0)) ** (a * b + b * c + a**2 / sympy.pi + 2)))
    program = (
        'OPENQASM 3.0; include "stdgates.inc"; input float t; qubit[2] q; bit[2] d; gate g(s) x {'
        " u3(s, 2*s, -s) x; } g(t + 1) q[0]; d = measure q; if (d == 2) x q;"
    )
    made.append(qasm.read(program)[0])
    return [canonical.sha256(canonical.text(one)) for one in made]


@pytest.mark.parametrize(
    ("operation", "type"),
    [
        (cirq.X(QUBITS[0]) ** float("nan"), "NotFinite"),
        (cirq.rz(float("inf")).on(QUBITS[0]), "NotFinite"),
        (cirq.X(QUBITS[0]) ** sympy.sin(A), "NoCircuitJson"),
    ],
)
def test_what_json_cannot_hold_is_refused(operation: cirq.Operation, type: str) -> None:
    with pytest.raises(ToolError) as caught:
        canonical.text(cirq.Circuit(operation))

    assert (caught.value.kind, caught.value.type) == ("client_error", type)


def test_a_gate_of_ones_own_is_refused() -> None:
    class Own(cirq.Gate):
        def _num_qubits_(self) -> int:
            return 1

    with pytest.raises(ToolError, match="The circuit has no JSON"):
        canonical.text(cirq.Circuit(Own().on(QUBITS[0])))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "is no JSON at line 1"),
        ('{"a":\n', "is no JSON at line 2"),
        ("[" * 100_000, "nested too deep"),
        ("3", "is no circuit but of type int"),
        ("[1]", "is no circuit but of type list"),
        ('{"cirq_type": "LineQubit", "x": 0}', "is no circuit but of type LineQubit"),
        ('{"cirq_type": "nope"}', "`cirq_type` 'nope', which no circuit of Cirq"),
        ('{"cirq_type": "pandas.Index", "data": [], "name": null}', "`cirq_type` 'pandas.Index'"),
        ('{"cirq_type": ["x"]}', "is no circuit of Cirq"),
        ('{"cirq_type": "Circuit"}', "is no circuit of Cirq"),
        ('{"cirq_type": "Circuit", "moments": [3]}', "is no circuit of Cirq"),
        ('{"cirq_type": "Circuit", "moments": NaN}', "NaN or an infinity"),
        ('{"cirq_type": "Circuit", "moments": 1e999}', "NaN or an infinity"),
        ('{"cirq_type": "REF", "key": 3}', "is no circuit of Cirq"),
        (" " * (canonical.MOST_TEXT + 1), "more than"),
    ],
)
def test_a_text_that_is_not_a_circuit_is_refused(given: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        canonical.read(given)

    assert caught.value.kind == "client_error"
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "name", ["Not", "Xor", "Indexed", "IndexedBase", "And", "Add", "Integer", "Equality"]
)
@pytest.mark.parametrize("form", ["text", "value", "qubit"])
def test_no_text_is_run_as_python(name: str, form: str, tmp_path: Path) -> None:
    """sympy evaluates texts, and `cirq.read_json` hands it those of a file."""
    evil = f"__import__('os').system('touch {tmp_path}/evil')"
    inner = {
        "text": evil,
        "value": {"cirq_type": "VAL", "key": 0, "val": evil},
        "qubit": {"cirq_type": "NamedQubit", "name": evil},
    }[form]
    arguments = {"i": inner} if name == "Integer" else {"args": [inner, inner]}

    with pytest.raises(ToolError, match="neither number nor symbol"):
        canonical.read(json.dumps({"cirq_type": f"sympy.{name}", **arguments}))

    assert list(tmp_path.iterdir()) == []


@given(text=st.text(max_size=40), at=st.integers(0, 600), gone=st.integers(0, 20))
@settings(max_examples=150)
def test_a_damaged_text_is_read_or_refused(text: str, at: int, gone: int) -> None:
    whole = canonical.text(builders.build({"name": "ghz", "qubits": 2}))

    try:
        canonical.read(whole[:at] + text + whole[at + gone :])
    except ToolError as error:
        refused = error
    else:
        return
    assert refused.kind == "client_error"


def test_the_hash_of_a_sweep_is_of_values_and_order() -> None:
    one, other = Point(0, {"a": 1.0, "b": 2.0}), Point(1, {"b": 0.5, "a": 0.1})

    assert canonical.sweep_sha256([one, other]) == canonical.sweep_sha256(
        [Point(0, {"b": 2.0, "a": 1.0}), Point(1, {"a": 0.1, "b": 0.5})]
    )
    assert canonical.sweep_sha256([one, other]) != canonical.sweep_sha256([other, one])
