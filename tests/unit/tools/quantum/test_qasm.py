"""OpenQASM: what is understood means what its definition says, and what is not names its line."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import cirq
import numpy as np
import pytest
from cirq.contrib.qasm_import import circuit_from_qasm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.quantum.circuits import qasm, qasm_gates
from noetl.quantum.circuits.qasm_tokens import QasmError

HEAD = 'OPENQASM 2.0;\ninclude "qelib1.inc";\n'
HEAD3 = 'OPENQASM 3.0;\ninclude "stdgates.inc";\n'
Matrix = np.ndarray


def circuit(body: str, head: str = HEAD) -> cirq.Circuit:
    return qasm.read(head + body)[0]


def unitary(body: str, qubits: int, head: str = HEAD) -> Matrix:
    order = [cirq.NamedQubit(f"q_{index}") for index in range(qubits)]
    return circuit(f"qreg q[{qubits}];\n{body}", head).unitary(
        qubit_order=order, qubits_that_should_be_present=order
    )


def same(one: Matrix, other: Matrix) -> bool:
    return bool(cirq.equal_up_to_global_phase(one, other, atol=1e-6))


# --- what is refused
# -------------------------------------------------------------------------------

BIG_GATES = "gate g0 a { h a; h a; }\n" + "".join(
    f"gate g{n + 1} a {{ g{n} a; g{n} a; }}\n" for n in range(40)
)

BIG_ANGLES = "gate g0(a) q { rx(a+a*a) q; }\n" + "".join(
    f"gate g{n + 1}(a) q {{\ng{n}(a+a*a) q;\n}}\n" for n in range(40)
)

#: Each call of `g1` computes some 50,000 parts of angles.
HEAVY_GATES = (
    "gate g0(t) a { " + f"rx({'+'.join(f'sin({n}*t)' for n in range(40))}) a; " * 10 + "}\n"
    "gate g1(t) a { " + "g0(t/2) a; " * 10 + "}\nqreg q[1];\n" + "g1(0.3) q[0];\n" * 100
)

REFUSED = [
    ("", 1, "does not begin with `OPENQASM"),
    ("// nothing\n\n", 1, "does not begin with `OPENQASM"),
    ("\n\nqreg q[2];", 3, "does not begin with `OPENQASM"),
    ("OPENQASM 2.0", 1, "`;` is missing behind the version"),
    ("OPENQASM", 1, "the version is 'OPENQASM'"),
    ("OPENQASM 4.0;", 1, "the version is '4.0'"),
    ("OPENQASM 2.0;\nOPENQASM 2.0;", 2, "version is given twice"),
    ('OPENQASM 2.0;\ninclude "foo.inc";', 2, '"foo.inc" is not known'),
    ('OPENQASM 2.0;\ninclude "qelib1.inc" "x";', 2, "`include` takes one library"),
    ('OPENQASM 2.0;\nqreg q[1];\ninclude "qelib1.inc";', 3, "before all other statements"),
    ("OPENQASM 2.0;\nqreg q[1];\n\nh q;", 4, "there is no gate 'h'; `include \"qelib1.inc\";` brings it"),
    ("OPENQASM 3.0;\nqubit q;\n\nh q;", 4, "there is no gate 'h'; `include \"stdgates.inc\";` brings it"),
    (
        "OPENQASM 3;\nqubit q;\nfoo q;",
        3,
        "there is no gate 'foo'; `include \"stdgates.inc\";` brings the usual",
    ),
    (HEAD + "qreg q[2]\nh q[0];", 4, "'h' is not expected here (is a `;` missing before it?)"),
    (HEAD + "qreg q[2];\nh q[0]", 4, "ends inside of a statement"),
    (HEAD + "qreg q[2];\n\nhh q[0];", 5, "there is no gate 'hh'; did you mean 'h'"),
    (HEAD + "qreg q[2];\ncx q[0];", 4, "cx takes 2 qubit(s), not 1"),
    (HEAD + "qreg q[2];\nrx q[0];", 4, "rx takes 1 parameter(s), not 0"),
    (HEAD + "qreg q[2];\nrx() q[0];", 4, "rx takes 1 parameter(s), not 0"),
    (HEAD + "qreg q[2];\nU(1,2) q[0];", 4, "U takes 3 parameter(s), not 2"),
    (HEAD + "qreg q[2];\ncu(1,2,3) q[0],q[1];", 4, "cu takes 4 parameter(s), not 3"),
    (HEAD + "qreg q[2];\nrx(\n1/0) q[0];", 4, "divided by 0"),
    (HEAD + "qreg q[2];\nrx(9^9^9^9) q[0];", 4, "too large"),
    (HEAD + "qreg q[2];\nrx((-1)^0.5) q[0];", 4, "no finite real number"),
    (HEAD + "qreg q[2];\nrx(1e999) q[0];", 4, "too large a number"),
    (HEAD + "qreg q[2];\nrx(exp(1000)) q[0];", 4, "exp has no value at 1000"),
    (HEAD + "qreg q[2];\nrx(sqrt(-1)) q[0];", 4, "sqrt has no value at -1"),
    (HEAD + "qreg q[2];\nrx(ln(0)) q[0];", 4, "ln has no value at 0"),
    (HEAD + "qreg q[2];\nrx(foo(1)) q[0];", 4, "there is no function 'foo'"),
    (HEAD + "qreg q[2];\nrx(theta) q[0];", 4, "'theta' has no value; in OpenQASM 3 `input float theta;`"),
    (HEAD + "qreg q[2];\nrx(1234567890123456) q[0];", 4, "more than 15 digits"),
    (HEAD + "qreg q[2];\nrx(10ns) q[0];", 4, "'10n' is no number"),
    (HEAD + "qreg q[2];\nrx(π) q[0];", 4, "write pi"),
    (HEAD + "qreg q[2];\nrx(2**3) q[0];", 4, "powers are not known"),
    (HEAD + "qreg q[2];\ncx q[0],q[0];", 4, "Overlapping qubits"),
    (HEAD + "qreg q[2];\nqreg r[3];\ncx q,r;", 5, "Non matching quantum registers"),
    (HEAD + "qreg q[2];\nh r;", 4, 'Undefined quantum register "r"'),
    (HEAD + "qreg q[2];\nh q[7];", 4, "Out of bounds qubit index 7"),
    (HEAD + "qreg q[2];\nh q[0:1];", 4, "ranges of registers"),
    (HEAD + "qreg q[0];", 3, "zero-length register 'q'"),
    (HEAD + "qreg q[2];\nqreg q[3];", 4, "q is already defined"),
    (HEAD + "qreg q[2];\ncreg c[1];\nmeasure q->c;", 5, "mismatched register sizes 2 -> 1"),
    (HEAD + "qreg q[2];\ncreg c[2];\nmeasure q[0]->c[5];", 5, "Out of bounds bit index 5"),
    (HEAD + "qreg q[2];\nmeasure q;", 4, "what is known is `measure q -> c;`"),
    (HEAD + "qreg q[2];\nmeasure q->d;", 4, 'Undefined classical register "d"'),
    (HEAD + "creg c[2];\nc = measure q;", 4, 'Undefined quantum register "q"'),
    (HEAD + "qreg q[2];\nif(c==1) x q;", 4, 'Undefined classical register "c"'),
    (HEAD + "qreg q[2];creg c[2];\nmeasure q->c;\nif(c==5) x q;", 5, "a register of 2 bit(s) is never 5"),
    (HEAD + "qreg q[2];creg c[2];\nif(c==1) x q;", 4, "c_0 is not measured before"),
    (HEAD + "qreg q[1];creg c[1];\nif(c==1) {\nmeasure q->c; }", 5, "`measure` in the body of `if`"),
    (HEAD + "qreg q[1];creg c[1];\nif(c) x q;", 4, "what is known is `if (c == 1) x q[0];`"),
    (HEAD + "qreg q[2];\ngate g a {\nh a;", 4, "the body of this gate is never closed"),
    (HEAD + "qreg q[2];\ngate g a {\nh a\n}", 6, "a `;` is missing before '}'"),
    (HEAD + "qreg q[2];\n}", 4, "'}' closes nothing"),
    (HEAD + "qreg q[2];\n{ h q; }", 4, "'{' opens the body of a `gate`"),
    (HEAD + "gate g(t) a {\nrx(t) a;\ncx a,b;\n}", 5, "Undefined qubit 'b'"),
    (HEAD + "gate g(t) a {\nrx(s) a;\n}", 4, "Undefined parameter 's'"),
    (HEAD + "qreg q[2];\ngate g a {\nh q;\n}", 5, "'q' is a register, not a qubit"),
    (HEAD + "qreg q[2];\ngate g a {\nh q[0];\n}", 5, "'q[0]' in the body of a gate"),
    (HEAD + "gate g(a,a) q {}", 3, "two parameters or qubits of one name"),
    (HEAD + "gate g q {}\ngate g q {}", 4, "g is defined twice"),
    (HEAD + "gate g(t) a { rx(t) a; }\nqreg q[2];\ng q;", 5, "g takes 1 parameter(s), not 0"),
    (HEAD + "gate g(t) a { rx(1/t) a; }\nqreg q[2];\ng(0) q;", 5, "an angle is divided by 0"),
    (
        HEAD + "gate g(t) a { u3(0,0,sqrt(t)) a; }\nqreg q[2];\ng(-1) q;",
        5,
        "an angle is no finite real number",
    ),
    (HEAD + "gate g(t) a { rx(ln(t)) a; }\nqreg q[2];\ng(0) q;", 5, "ln has no value at 0"),
    (HEAD + "gate g a { h a; }\nqreg q[2];\ng q[0],q[1];", 5, "g takes 1 qubit(s), not 2"),
    (HEAD + BIG_GATES, 16, "g13 is more than 10,000 operations"),
    (HEAD + BIG_ANGLES, 17, "an angle of g4 has more than 10,000 parts"),
    (HEAD + "qreg q[1000000000];", 3, "more than 10,000 qubits and bits"),
    (HEAD + "qreg q[2]; /* x\n\n", 3, "a comment is never closed"),
    (HEAD + "qreg q[2];\nopaque magic a;", 4, "`opaque` is not known"),
    (HEAD + "qreg q[2];\n$", 4, "'$' is not known here"),
    (HEAD + 'qreg q[2];\nh "q";', 4, "text in quotes"),
    (HEAD3 + "qubit[2] q;\nctrl @ x q[0],q[1];", 4, "`ctrl` is not known"),
    (HEAD3 + "qubit[2] q;\nsqrt @ x q[0];", 4, "modifiers of gates"),
    (HEAD3 + "qubit[2] q;\nfor int i in [0:1] { h q[i]; }", 4, "`for` is not known"),
    (HEAD3 + "qubit[2] q;\nfor int i in {0, 1} { h q[i]; }", 4, "`for` is not known"),
    (HEAD3 + "qubit[2] q;\nwhile (true) { h q; }", 4, "`while` is not known"),
    (HEAD3 + "def f(qubit a) { h a; }", 3, "`def` is not known"),
    (HEAD3 + "const int n = 3;", 3, "`const` is not known"),
    (HEAD3 + "float x;", 3, "`float` is not known"),
    (HEAD3 + "qubit q;\nU(0,0,2^3) q;", 4, "`^` is a bitwise operation"),
    (HEAD3 + "qubit q;\ndelay[100] q;", 4, "`delay` is not known"),
    (HEAD3 + "#pragma x\n", 3, "pragmas are not known"),
    (HEAD + "input float x;", 3, "only supported in OpenQASM 3.0"),
    (HEAD3 + "input float x;\ninput float x;", 4, "x is already defined"),
    (HEAD3 + "input float[0] x;", 3, "bit width of zero"),
    (HEAD3 + "input int x;", 3, "what is known is `input float theta;`"),
    (HEAD + "h q[0];", 3, 'Undefined quantum register "q": declare it before, as in `qreg q[2];`'),
    ("\ufeff\ufeffOPENQASM 2.0;", 1, "does not begin with `OPENQASM"),
    ("openqasm 2.0;\nqreg q[1];", 1, "does not begin with `OPENQASM"),
    ("OPENQASM 2.1;", 1, "the version is '2.1', and 2.0 and 3.0 are known"),
    ("OPENQASM 2.0;\ninclude", 2, "`include` takes one library"),
    ("OPENQASM 2.0;\ninclude ;", 2, "`include` takes one library"),
    ('OPENQASM 2.0;\ninclude "../../etc/passwd";', 2, "is not known: there are qelib1.inc and stdgates.inc"),
    ('OPENQASM 2.0;\ninclude "qelib1.inc;\n', 2, "'\"' is not known here"),
    (HEAD + "qreg q[2];\r\nh q[0];\r\nfoo q;", 5, "there is no gate 'foo'"),
    (HEAD + "qreg q[2];\nh q[0];\0", 4, "'\\x00' is not known here"),
    (HEAD + "qreg q[2];\nһ q[0];", 4, "names have letters from a to z"),
    (HEAD + "qreg q[2];\nh q[１];", 4, "is no number"),
    (HEAD + "qreg q[2];\nh q[-1];", 4, "'-' is not expected here: what is known is `cx q[0], q[1];`"),
    (HEAD + "qreg q[2];\nh q[0;\nh q[1];", 4, "';' is not expected here"),
    (HEAD + "qreg q[2];\nrx(pi/2 q[0];", 4, "'q' is not expected here"),
    (HEAD + "qreg q[2];\nrx(0x10) q[0];", 4, "'0x' is no number"),
    (HEAD + "qreg q[2];\nrx(asin(2)) q[0];", 4, "asin has no value at 2"),
    (
        HEAD3 + "input float t;\nqubit q;\nrx(sin(t)) q;\n\nx q;",
        5,
        "sin of a symbol: symbols take + - * /, powers and sqrt",
    ),
    (HEAD3 + "input float t;\nqubit q;\ngate g(a) x { rx(2*ln(a)) x; }\ng(t) q;\nx q;", 6, "ln of a symbol"),
    (HEAD + "qreg q[2];\nbarrier z;", 4, 'Undefined quantum register "z"'),
    (HEAD + "qreg q[2];\nbarrier q, q[0];", 4, "barrier takes no angles, and each qubit once"),
    (HEAD + "qreg q[1];creg c[1];\nmeasure q->c;\nif(c!=1) x q;", 5, "conditions are `c == 1`"),
    (HEAD3 + "qubit q;bit c;\nc = measure q;\nif (c == 1) {\nx q;\nfoo q;\n}", 7, "there is no gate 'foo'"),
    (HEAD3 + "qubit q;bit[2] c;\nif (c[0]) { if (c[1]) { x q; } }", 4, "join the conditions with `&&`"),
    (HEAD3 + "qubit q;bit[2] c;\nif (c[0]) {\nx q;\n", 4, "the body of this if is never closed"),
    (HEAD3 + "qubit q;bit[2] c;\nif (!) x q;", 4, "conditions are `c == 1`"),
    (HEAD3 + "qubit q;bit c;\ninput float c_0;\nc = measure q;\nif (c == 1) x q;", 6, "rename it"),
    (HEAD3 + "qubit q;\n@name\nh q;", 4, "annotations are not known"),
    (HEAD3 + "h $0;", 3, "no qubits of a machine"),
    (HEAD + "gate g a { g a; }", 3, "there is no gate 'g'"),
    (HEAD + "gate f a {\ng a; }\ngate g a { f a; }", 4, "there is no gate 'g'"),
    (
        HEAD + "gate g a {\nmeasure a -> c; }",
        4,
        "`measure` in the body of `gate`: it has gates and nothing else",
    ),
    (HEAD + "gate g a {\ngate f b { h b; } }", 4, "`gate` in the body of `gate`"),
    (HEAD + "gate U a { h a; }", 3, "U is a word of the language"),
    (HEAD + "gate g(a) q { rx(asin(a)) q; }\nqreg q[1];\ng(2) q;", 5, "asin has no value at 2"),
    (
        HEAD3 + "input float t;\nqubit q;\ngate f(a) x { rx(1/a) x; }\ngate g(a) x {\nf(a-a) x; }",
        7,
        "not finite",
    ),
    (HEAD + "qreg q[2];\n" + "g" * 1000 + " q;", 4, "a name has more than 200 characters"),
    (HEAD + "qreg q[2];\nrx(" + "(" * 60, 4, "more than 50 parentheses within each other"),
    (HEAD + "qreg q[2];\nrx(" + "1+" * 300 + "1) q;", 4, "more than 500 words and marks within parentheses"),
    (HEAD + "qreg q[1];\n" + "h q;\n" * 170_000, 166_666, "more than 500,000 words and marks"),
    (HEAD + "qreg q[2];\nrx(" + "(" * 500_100, 4, "more than 500,000 words and marks"),
    (HEAD + "qreg q[1000];\n" + "h q;\n" * 101, 104, "more than 100,000 operations"),
    (HEAD + HEAVY_GATES, 7, "the angles of calls of gates have more than 100,000 parts"),
]


@pytest.mark.parametrize(("text", "line", "said"), REFUSED, ids=range(len(REFUSED)))
def test_whatever_is_refused_names_its_line_and_what_is_wrong(text: str, line: int, said: str) -> None:
    with pytest.raises(QasmError) as caught:
        qasm.read(text)

    assert (caught.value.kind, caught.value.type) == ("client_error", "QasmError")
    assert caught.value.line == line
    assert f"at line {line}, column " in caught.value.message
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_circuit_has_no_more_operations_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qasm_gates, "MOST_OPERATIONS", 30)

    with pytest.raises(QasmError, match="line 5, column 1: the circuit has more than 30 operations"):
        circuit("qreg q[10];\nh q; h q; h q;\nh q[0];")


def test_a_syntax_error_names_the_column_of_the_token() -> None:
    with pytest.raises(QasmError, match="line 4, column 11: '0' is not expected here"):
        circuit("qreg q[2];\ncx q[0], 0;".replace(", 0", ",  0"))


# --- what is understood
# ----------------------------------------------------------------------------


def u3(theta: float, phi: float, lam: float) -> Matrix:
    """Of arXiv:1707.03429, with the phase of OpenQASM 3."""
    cos, sin = np.cos(theta / 2), np.sin(theta / 2)
    return np.array(
        [[cos, -np.exp(1j * lam) * sin], [np.exp(1j * phi) * sin, np.exp(1j * (phi + lam)) * cos]]
    )


def rotation(axis: Matrix, angle: float) -> Matrix:
    one = np.eye(len(axis))
    return np.cos(angle / 2) * one - 1j * np.sin(angle / 2) * axis


def controlled(inner: Matrix, controls: int = 1) -> Matrix:
    whole = np.eye(2**controls * len(inner), dtype=complex)
    whole[-len(inner) :, -len(inner) :] = inner
    return whole


X, Y, Z = (cirq.unitary(gate) for gate in (cirq.X, cirq.Y, cirq.Z))
H = (X + Z) / np.sqrt(2)
SX = ((1 + 1j) * np.eye(2) + (1 - 1j) * X) / 2
SWAP = np.eye(4)[[0, 2, 1, 3]]

FIXED: list[tuple[str, int, Matrix]] = [
    ("x", 1, X),
    ("y", 1, Y),
    ("z", 1, Z),
    ("h", 1, H),
    ("id", 1, np.eye(2)),
    ("s", 1, np.diag([1, 1j])),
    ("sdg", 1, np.diag([1, -1j])),
    ("t", 1, np.diag([1, np.exp(0.25j * np.pi)])),
    ("tdg", 1, np.diag([1, np.exp(-0.25j * np.pi)])),
    ("sx", 1, SX),
    ("sxdg", 1, SX.conj().T),
    ("CX", 2, controlled(X)),
    ("cx", 2, controlled(X)),
    ("cy", 2, controlled(Y)),
    ("cz", 2, controlled(Z)),
    ("ch", 2, controlled(H)),
    ("csx", 2, controlled(SX)),
    ("swap", 2, SWAP),
    ("iswap", 2, np.array([[1, 0, 0, 0], [0, 0, 1j, 0], [0, 1j, 0, 0], [0, 0, 0, 1]])),
    ("ccx", 3, controlled(X, 2)),
    ("cswap", 3, controlled(SWAP)),
    ("c3x", 4, controlled(X, 3)),
    ("c3sqrtx", 4, controlled(SX, 3)),
    ("c4x", 5, controlled(X, 4)),
]
TURNED: list[tuple[str, int, int, Callable[..., Matrix]]] = [
    ("U", 3, 1, u3),
    ("u", 3, 1, u3),
    ("u3", 3, 1, u3),
    ("u2", 2, 1, lambda phi, lam: u3(np.pi / 2, phi, lam)),
    ("u1", 1, 1, lambda lam: u3(0, 0, lam)),
    ("p", 1, 1, lambda lam: u3(0, 0, lam)),
    ("r", 2, 1, lambda theta, phi: rotation(np.cos(phi) * X + np.sin(phi) * Y, theta)),
    ("rx", 1, 1, lambda theta: rotation(X, theta)),
    ("ry", 1, 1, lambda theta: rotation(Y, theta)),
    ("rz", 1, 1, lambda theta: rotation(Z, theta)),
    ("rxx", 1, 2, lambda theta: rotation(np.kron(X, X), theta)),
    ("ryy", 1, 2, lambda theta: rotation(np.kron(Y, Y), theta)),
    ("rzz", 1, 2, lambda theta: rotation(np.kron(Z, Z), theta)),
    ("crx", 1, 2, lambda theta: controlled(rotation(X, theta))),
    ("cry", 1, 2, lambda theta: controlled(rotation(Y, theta))),
    ("crz", 1, 2, lambda theta: controlled(rotation(Z, theta))),
    ("cp", 1, 2, lambda lam: controlled(u3(0, 0, lam))),
    ("cu1", 1, 2, lambda lam: controlled(u3(0, 0, lam))),
    ("cu3", 3, 2, lambda *angles: controlled(u3(*angles))),
    ("cu", 4, 2, lambda *angles: controlled(np.exp(1j * angles[3]) * u3(*angles[:3]))),
]


@pytest.mark.parametrize(("name", "qubits", "matrix"), FIXED, ids=[one[0] for one in FIXED])
def test_a_gate_is_the_matrix_of_its_definition(name: str, qubits: int, matrix: Matrix) -> None:
    assert same(unitary(f"{name} {', '.join(f'q[{index}]' for index in range(qubits))};", qubits), matrix)


@pytest.mark.parametrize(("name", "angles", "qubits", "matrix"), TURNED, ids=[one[0] for one in TURNED])
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_a_gate_with_angles_is_the_matrix_of_its_definition(
    name: str, angles: int, qubits: int, matrix: Callable[..., Matrix], data: st.DataObject
) -> None:
    values = data.draw(
        st.lists(st.floats(-10, 10).map(lambda x: round(x, 6)), min_size=angles, max_size=angles)
    )
    places = ", ".join(f"q[{index}]" for index in range(qubits))

    found = unitary(f"{name}({', '.join(map(repr, values))}) {places};", qubits)

    assert same(found, matrix(*values))


def test_relative_phase_toffoli_is_what_qelib1_defines() -> None:
    defined = "h q[2]; t q[2]; cx q[1],q[2]; tdg q[2]; cx q[0],q[2]; t q[2]; cx q[1],q[2]; tdg q[2]; h q[2];"

    assert same(unitary("rccx q[0],q[1],q[2];", 3), unitary(defined, 3))


ANGLE = st.one_of(
    st.floats(0, 6).map(repr),
    st.sampled_from(["pi/2", "-pi/4", "2*pi/3", "1+2*3-4/5", "sin(0.5)*2", "2^3", "-(1+2)"]),
)
PLACE = st.integers(0, 2)


@st.composite
def statements(draw: st.DrawFn) -> str:
    a, b, c = draw(st.permutations(range(3)))
    angle = draw(ANGLE)
    return draw(
        st.sampled_from(
            [
                f"h q[{a}];",
                "x q;",
                f"rx({angle}) q[{a}];",
                f"u3({angle},0.2,{angle}) q[{a}];",
                f"cx q[{a}],q[{b}];",
                f"cu1({angle}) q[{a}],q[{b}];",
                f"ccx q[{a}],q[{b}],q[{c}];",
                f"mine({angle}) q[{a}],q[{b}];",
                f"barrier q[{a}],q[{b}];",
                f"// {a}\n",
            ]
        )
    )


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = draw(st.lists(statements(), min_size=1, max_size=8))
    return "gate mine(t) a,b { rx(t/2) a; cx a,b; rz(-t) b; }\nqreg q[3];\n" + "\n".join(body)


@given(body=programs())
@settings(max_examples=25, deadline=None)
def test_a_program_means_what_cirq_reads(body: str) -> None:
    bare = re.sub(r"barrier[^;]*;", "", body)
    expected = circuit_from_qasm(HEAD + bare + "\nid q;")

    assert same(circuit(body + "\nid q;").unitary(), expected.unitary())


@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_what_cirq_writes_is_read(seed: int) -> None:
    written = cirq.testing.random_circuit(4, 5, 0.8, random_state=seed)
    qubits = sorted(written.all_qubits())
    text = (
        cirq.Circuit(written, cirq.I.on_each(*qubits)).to_qasm(qubit_order=qubits)
        if qubits
        else HEAD + "qreg q[1];"
    )

    found, form = qasm.read(text)

    assert form == "qasm2"
    if qubits:
        expected = cirq.Circuit(written, cirq.I.on_each(*qubits)).unitary(qubit_order=qubits)
        assert same(found.unitary(), expected)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("OPENQASM 2.0;", "qasm2"),
        ("OPENQASM 2;", "qasm2"),
        ("// hello\n/* world\n */ OPENQASM 3;", "qasm3"),
        ("\ufeffOPENQASM 3.1;\r\n", "qasm3"),
    ],
)
def test_the_version_is_detected(text: str, form: str) -> None:
    assert qasm.read(text + " qreg q[1]; U(0,0,0) q;")[1] == form


def test_comments_barriers_and_windows_lines_change_nothing() -> None:
    plain = circuit("qreg q[2]; h q[0]; cx q[0], q[1];")
    decorated = circuit(
        "qreg q[2];\r\n/* a;\n{ */ h q[0]; // ; \r\nbarrier q;\r\nbarrier q[0], q[1]; cx /**/ q[0], q[1];"
    )

    assert decorated == plain


def test_openqasm_3_declares_measures_and_takes_parameters() -> None:
    found = circuit("input float theta;\nqubit[2] q;\nrx(theta / 2) q[0];\nbit[2] c = measure q;", HEAD3)

    assert cirq.parameter_names(found) == {"theta"}
    assert found.all_measurement_key_names() == {"c_0", "c_1"}
    resolved = cirq.resolve_parameters(found, {"theta": 2 * np.pi})
    assert cirq.Simulator().run(resolved).measurements["c_0"].item() == 1


def test_parameters_of_gates_that_cross_are_kept_apart() -> None:
    body = "gate f(a,b) q { rx(sin(a)) q; ry(b) q; }\ngate g(a,b) q { f(b,a) q; }\n"

    found = unitary("g(0.1,0.2) q[0];", 1, HEAD + body)

    assert same(found, rotation(Y, 0.1) @ rotation(X, np.sin(0.2)))


def test_a_gate_of_the_text_wins_over_one_of_the_library() -> None:
    assert same(unitary("h q[0];", 1, HEAD + "gate h a { x a; }\n"), X)


@pytest.mark.parametrize("value", range(4))
def test_if_applies_a_gate_to_a_whole_register_where_the_register_has_that_value(value: int) -> None:
    body = (
        f"qreg q[2]; qreg r[2]; creg c[2]; creg d[2]; x q[1]; measure q->c; if(c=={value}) x r; measure r->d;"
    )

    result = cirq.Simulator().run(circuit(body))

    wanted = int(value == 2)
    assert [result.measurements[key].item() for key in ("d_0", "d_1")] == [wanted, wanted]


def test_bits_that_are_not_measured_are_zero() -> None:
    body = "qreg q[1]; qreg r[1]; creg c[2]; creg d[1]; x q; measure q[0]->c[0]; if(c==1) x r; measure r->d;"

    assert cirq.Simulator().run(circuit(body)).measurements["d_0"].item() == 1


# --- whatever text
# -----------------------------------------------------------------------------------

VALID = [
    HEAD + "gate g(a) x,y { rx(a/2) x; cx x,y; }\nqreg q[2];\ncreg c[2];\nh q;\ng(pi) "
    "q[0],q[1];\nmeasure q -> c;\n",
    HEAD3 + "input float[64] t;\nqubit[2] q;\nbit[2] c;\nrz(-t+1.5e-3) q[0];\nc[0] = measure q[0];\nif "
    "(c[0] == 1) x q[1];\n",
    HEAD + "qreg q[3]; /* x */ barrier q; u3(sin(0.3),2^2,-(1)) q[0]; reset q[1]; // y\n",
]
PIECE = st.sampled_from(
    [*"{}[]();,+/*-^=@:\"'\n\\#$π\0", "->", "==", "&&", "/*", "*/", "//", "9" * 20, "1e400", "^9^9^9", "gate", "if", "q",
     "measure", "qreg", "include", "OPENQASM 3;", "pi", "[10000]", "rx(", "sin(", "\ud800", "\r", "²"]
)  # fmt: skip


@st.composite
def mutants(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(VALID))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        gone = draw(st.integers(0, 6))
        text = text[:at] + draw(st.one_of(PIECE, st.just(""), st.text(max_size=2))) + text[at + gone :]
    return text


def refusal(text: str) -> QasmError | None:
    try:
        qasm.read(text)
    except QasmError as error:
        return error
    return None


@given(text=st.one_of(mutants(), st.text(max_size=40), st.text(max_size=20).map(HEAD.__add__)))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_does_anything_but_be_read_or_refused_with_its_line(text: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        refused = refusal(text)
    if refused is not None:
        assert refused.line is not None
        assert 1 <= refused.line <= text.count("\n") + 1
        assert refused.message.startswith(f"The OpenQASM is refused at line {refused.line}, column ")
    assert (out.getvalue(), err.getvalue()) == ("", "")


def test_nothing_is_written_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    circuit("qreg q[1]; h q; // written nowhere")
    with pytest.raises(QasmError):
        circuit("qreg q[1]; h h h; // written nowhere")

    assert list(tmp_path.iterdir()) == []


def test_threads_read_side_by_side() -> None:
    found: dict[int, int] = {}

    def read(count: int) -> None:
        for turn in range(3):
            found[count] = len(list(circuit(f"qreg q[1]; // {turn}\n" + "x q;" * count).all_operations()))

    threads = [threading.Thread(target=read, args=(count,)) for count in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {count: count for count in range(1, 9)}


def test_what_a_text_defines_is_unknown_to_the_next() -> None:
    circuit("gate mine a { x a; }\nqreg q[3];\ncreg c[3];\nmine q;\nmeasure q -> c;")

    with pytest.raises(QasmError, match="there is no gate 'mine'"):
        circuit("qreg q[1];\nmine q;")
    assert len(circuit("qreg q[1]; h q;").all_qubits()) == 1


@pytest.mark.parametrize(
    ("angle", "value"),
    [
        ("6/-2*3", -9),
        ("2^-1*3", 1.5),
        ("-2^2", -4),
        ("2*-3+4", -2),
        ("-2*-3", 6),
        ("8/-2/-2", 2),
        ("2^3^2", 512),
        ("1-2-3", -4),
        ("+1--2", 3),
        ("2^-2^2", 2**-4),
    ],
)
def test_a_sign_binds_more_than_a_product_and_less_than_a_power(angle: str, value: float) -> None:
    # Small angles: of large ones whole turns would hide.
    assert same(unitary(f"rz(({angle})/512) q[0];", 1), rotation(Z, value / 512))


def test_what_a_caller_does_to_a_circuit_is_its_own() -> None:
    text = "qreg q[1]; h q;"
    circuit(text).append(cirq.X(cirq.NamedQubit("q_0")))

    assert len(list(circuit(text).all_operations())) == 1
