"""Circuits as textbooks, Qiskit's exporters and collections of benchmarks write them: they do what theory says."""

from __future__ import annotations

from collections.abc import Mapping

import cirq
import numpy as np
import pytest

from noetl.quantum.circuits import qasm

HEAD = 'OPENQASM 2.0;\ninclude "qelib1.inc";\n'
HEAD3 = 'OPENQASM 3.0;\ninclude "stdgates.inc";\n'


def amplitudes(text: str) -> Mapping[str, complex]:
    """Bits of the qubits in the order of their names → amplitude, those of 0 left out."""
    found = qasm.read(text)[0]
    state = found.final_state_vector(qubit_order=sorted(found.all_qubits()))
    width = len(found.all_qubits())
    return {f"{index:0{width}b}": value for index, value in enumerate(state) if abs(value) > 1e-4}


def chances(text: str) -> Mapping[str, float]:
    return {bits: abs(value) ** 2 for bits, value in amplitudes(text).items()}


def counts(text: str, *keys: str, repetitions: int = 200) -> Mapping[str, int]:
    """The bits of `keys`, in this order, and how often they were read."""
    result = cirq.Simulator(seed=7).run(qasm.read(text)[0], repetitions=repetitions)
    read = np.hstack([result.records[key][:, -1, :] for key in keys])
    found: dict[str, int] = {}
    for row in read:
        bits = "".join(map(str, row))
        found[bits] = found.get(bits, 0) + 1
    return found


# --- arithmetic: Cuccaro's adder, arXiv:quant-ph/0410184, as the paper on OpenQASM 2 has it ---------------

ADDER = """
gate majority a,b,c { cx c,b; cx c,a; ccx a,b,c; }
gate unmaj a,b,c { ccx a,b,c; cx c,a; cx a,b; }
qreg cin[1]; qreg a[4]; qreg b[4]; qreg cout[1]; creg ans[5];
"""
ADDED = """
majority cin[0],b[0],a[0];
majority a[0],b[1],a[1];
majority a[1],b[2],a[2];
majority a[2],b[3],a[3];
cx a[3],cout[0];
unmaj a[2],b[3],a[3];
unmaj a[1],b[2],a[2];
unmaj a[0],b[1],a[1];
unmaj cin[0],b[0],a[0];
measure b[0] -> ans[0]; measure b[1] -> ans[1]; measure b[2] -> ans[2]; measure b[3] -> ans[3];
measure cout[0] -> ans[4];
"""


@pytest.mark.parametrize(("one", "other"), [(0, 0), (1, 15), (7, 9), (15, 15), (5, 6)])
def test_the_adder_of_the_paper_adds(one: int, other: int) -> None:
    set_bits = "".join(
        f"x {name}[{index}];"
        for name, number in (("a", one), ("b", other))
        for index in range(4)
        if number >> index & 1
    )

    found = counts(HEAD + ADDER + set_bits + ADDED, *(f"ans_{index}" for index in reversed(range(5))))

    assert found == {f"{one + other:05b}": 200}


# --- algorithms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["1011", "0000", "1111"])
def test_bernstein_vazirani_reads_the_secret_at_once(secret: str) -> None:
    oracle = "".join(f"cx q[{index}],anc[0];" for index, bit in enumerate(secret) if bit == "1")
    text = f"{HEAD}qreg q[4];qreg anc[1];creg c[4];x anc;h anc;h q;barrier q,anc;{oracle}barrier q;h q;measure q->c;"

    assert counts(text, *(f"c_{index}" for index in range(4))) == {secret: 200}


QFT = """gate cphase_(t) a,b { u1(t/2) a; cx a,b; u1(-t/2) b; cx a,b; u1(t/2) b; }
gate qft a,b,c { h a; cphase_(pi/2) b,a; cphase_(pi/4) c,a; h b; cphase_(pi/2) c,b; h c; swap a,c; }
qreg q[3];
"""


def test_a_fourier_transform_of_gates_in_gates_is_its_matrix() -> None:
    found = qasm.read(HEAD + QFT + "qft q[0],q[1],q[2];")[0].unitary()

    powers = np.outer(range(8), range(8))
    assert cirq.equal_up_to_global_phase(found, np.exp(2j * np.pi * powers / 8) / np.sqrt(8), atol=1e-6)


def test_a_fourier_transform_of_measurements_and_conditions_undoes_a_phase() -> None:
    """The semi-classical transform of the paper on OpenQASM 2, of a state whose transform is |011>."""
    phases = "".join(f"rz(2*pi*3/{2 ** (index + 1)}) q[{2 - index}];" for index in range(3))
    text = f"""{HEAD}qreg q[3]; creg c0[1]; creg c1[1]; creg c2[1];
h q; {phases}
h q[2]; measure q[2] -> c0[0];
if(c0==1) u1(-pi/2) q[1]; h q[1]; measure q[1] -> c1[0];
if(c0==1) u1(-pi/4) q[0]; if(c1==1) u1(-pi/2) q[0]; h q[0]; measure q[0] -> c2[0];
"""
    bits = counts(text, "c2_0", "c1_0", "c0_0")

    assert len(bits) == 1
    assert bits == {"011": 200}


@pytest.mark.parametrize("marked", ["101", "000"])
def test_grover_finds_what_is_marked_with_the_chance_of_theory(marked: str) -> None:
    flips = "".join(f"x q[{index}];" for index, bit in enumerate(marked) if bit == "0")
    turn = f"{flips}h q[2];ccx q[0],q[1],q[2];h q[2];{flips}h q;x q;h q[2];ccx q[0],q[1],q[2];h q[2];x q;h q;"

    found = chances(f"{HEAD}qreg q[3];h q;{turn}{turn}")

    assert found[marked] == pytest.approx(np.sin(5 * np.arcsin(np.sqrt(1 / 8))) ** 2, abs=1e-5)


def test_phase_estimation_finds_an_eighth() -> None:
    text = f"""{HEAD}qreg q[3]; qreg e[1]; x e; h q;
cu1(pi/4) q[0],e[0]; cu1(pi/2) q[1],e[0]; cu1(pi) q[2],e[0];
swap q[0],q[2]; h q[0]; cu1(-pi/2) q[0],q[1]; h q[1]; cu1(-pi/4) q[0],q[2]; cu1(-pi/2) q[1],q[2]; h q[2];
"""
    # `e` is first by its name; q[2] is the most significant bit of 1.
    assert chances(text) == pytest.approx({"1100": 1.0}, abs=1e-5)


def test_a_w_state_has_one_excitation_spread_evenly() -> None:
    text = f"""{HEAD}gate cG(t) c,x {{ ry(t/2) x; cz c,x; ry(-t/2) x; }}
qreg q[3]; x q[0];
cG(2*acos(sqrt(1/3))) q[0],q[1]; cx q[1],q[0];
cG(2*acos(sqrt(1/2))) q[1],q[2]; cx q[2],q[1];
"""
    assert chances(text) == pytest.approx(dict.fromkeys(("100", "010", "001"), 1 / 3), abs=1e-5)


def test_a_cat_state_is_all_or_nothing() -> None:
    text = f"{HEAD}qreg q[8]; h q[0];" + "".join(f"cx q[{one}],q[{one + 1}];" for one in range(7))

    assert chances(text) == pytest.approx({"0" * 8: 0.5, "1" * 8: 0.5}, abs=1e-5)


def test_a_trotter_step_of_an_ising_chain_is_its_exponential() -> None:
    text = f"""{HEAD}gate zz(t) a,b {{ cx a,b; u1(t) b; cx a,b; }}
qreg q[3]; zz(0.6) q[0],q[1]; zz(0.6) q[1],q[2]; rz(-0.3) q; """
    signs = np.array([[1 - 2 * (index >> place & 1) for place in (2, 1, 0)] for index in range(8)])
    energy = 0.6 * (signs[:, 0] * signs[:, 1] + signs[:, 1] * signs[:, 2]) - 0.3 * signs.sum(axis=1)

    found = qasm.read(text)[0].unitary()

    assert cirq.equal_up_to_global_phase(found, np.diag(np.exp(-0.5j * energy)), atol=1e-6)


def test_layers_of_a_neural_network_are_the_product_of_their_matrices() -> None:
    angles = np.linspace(0.1, 2.9, 12).reshape(3, 4)
    body, expected = "", np.eye(16)
    chain = np.eye(16)
    for one in range(3):
        chain = np.kron(np.kron(np.eye(2**one), cirq.unitary(cirq.CNOT)), np.eye(2 ** (2 - one))) @ chain
    for layer in angles:
        body += "".join(f"ry({angle}) q[{index}];" for index, angle in enumerate(layer))
        body += "".join(f"cx q[{one}],q[{one + 1}];" for one in range(3))
        turned = np.eye(1)
        for angle in layer:
            cos, sin = np.cos(angle / 2), np.sin(angle / 2)
            turned = np.kron(turned, [[cos, -sin], [sin, cos]])
        expected = chain @ turned @ expected

    found = qasm.read(f"{HEAD}qreg q[4];{body}")[0].unitary()

    assert cirq.equal_up_to_global_phase(found, expected, atol=1e-6)


# --- conditions ------------------------------------------------------------------------------------------

TELEPORT2 = f"""{HEAD}qreg q[3]; creg c0[1]; creg c1[1]; creg c2[1];
u3(0.3,0.2,0.1) q[0]; h q[1]; cx q[1],q[2]; barrier q; cx q[0],q[1]; h q[0];
measure q[0] -> c0[0]; measure q[1] -> c1[0];
if(c0==1) z q[2];
if(c1==1) x q[2];
u3(-0.3,-0.1,-0.2) q[2];
measure q[2] -> c2[0];
"""
#: As Qiskit's exporter of OpenQASM 3 writes it.
TELEPORT3 = f"""{HEAD3}bit[1] c0;
bit[1] c1;
bit[1] c2;
qubit[3] q;
U(0.3, 0.2, 0.1) q[0];
h q[1];
cx q[1], q[2];
barrier q[0], q[1], q[2];
cx q[0], q[1];
h q[0];
c0[0] = measure q[0];
c1[0] = measure q[1];
if (c1[0]) {{
  x q[2];
}}
if (c0 == 1) {{
  z q[2];
}}
U(-0.3, -0.1, -0.2) q[2];
c2[0] = measure q[2];
"""


@pytest.mark.parametrize("text", [TELEPORT2, TELEPORT3], ids=["2", "3"])
def test_a_state_is_teleported_whatever_was_measured(text: str) -> None:
    found = counts(text, "c0_0", "c1_0", "c2_0")

    assert set(found) == {"000", "010", "100", "110"}


@pytest.mark.parametrize("flipped", range(3))
def test_a_repetition_code_puts_one_flip_right(flipped: int) -> None:
    """Of the paper on OpenQASM 2: a syndrome of two bits, read as a number."""
    text = f"""{HEAD}gate syndrome d1,d2,d3,a1,a2 {{ cx d1,a1; cx d2,a1; cx d2,a2; cx d3,a2; }}
qreg q[3]; qreg a[2]; creg c[3]; creg syn[2];
x q; barrier q; x q[{flipped}]; syndrome q[0],q[1],q[2],a[0],a[1];
measure a -> syn;
if(syn==1) x q[0];
if(syn==2) x q[2];
if(syn==3) x q[1];
measure q -> c;
"""
    assert counts(text, "c_0", "c_1", "c_2") == {"111": 200}


@pytest.mark.parametrize(
    ("condition", "applies"),
    [
        ("c[0]", True),
        ("!c[0]", False),
        ("c[1]", False),
        ("!c[1]", True),
        ("c[0] && !c[1]", True),
        ("c[0] == true", True),
        ("c[1] == true", False),
        ("c[1] == false && c == 1", True),
        ("c == 1", True),
        ("c == 2", False),
    ],
)
def test_a_block_of_if_applies_each_of_its_gates_under_its_condition(condition: str, applies: bool) -> None:
    text = f"""{HEAD3}gate both a, b {{ x a; x b; }}
qubit[2] q; qubit[3] r; bit[2] c; bit[3] d;
x q[0]; c = measure q;
if ({condition}) {{
  both r[0], r[1];
  barrier r;
  rx(pi) r[2]; // and the last
}}
d = measure r;
"""
    assert counts(text, "d_0", "d_1", "d_2") == {"111" if applies else "000": 200}


# --- exporters -------------------------------------------------------------------------------------------

#: As Qiskit's `qasm2.dumps` writes gates that qelib1.inc lacks.
QISKIT2 = f"""{HEAD}gate ryy(param0) q0,q1 {{ rx(pi/2) q0; rx(pi/2) q1; cx q0,q1; rz(param0) q1; cx q0,q1; rx(-pi/2) q0; rx(-pi/2) q1; }}
gate xx_plus_yy(param0,param1) q0,q1 {{ rz(param1) q0; sdg q1; sx q1; s q1; s q0; cx q1,q0; ry((-0.5)*param0) q1; ry((-0.5)*param0) q0; cx q1,q0; sdg q0; sdg q1; sxdg q1; s q1; rz(-1.0*param1) q0; }}
gate dcx q0,q1 {{ cx q0,q1; cx q1,q0; }}
gate gate_PauliEvolution(param0) q0,q1 {{ ryy(0.4) q0,q1; }}
qreg q[2];
creg meas[2];
"""


def of_two(text: str) -> np.ndarray:
    return qasm.read(text)[0].unitary()


def test_gates_that_qiskit_defines_are_their_matrices() -> None:
    yy = np.kron(cirq.unitary(cirq.Y), cirq.unitary(cirq.Y))
    expected = np.cos(0.2) * np.eye(4) - 1j * np.sin(0.2) * yy
    assert cirq.equal_up_to_global_phase(of_two(QISKIT2 + "ryy(0.4) q[0],q[1];"), expected, atol=1e-6)
    evolved = of_two(QISKIT2 + "gate_PauliEvolution(9) q[0],q[1];")
    assert cirq.equal_up_to_global_phase(evolved, expected, atol=1e-6)

    cos, sin = np.cos(0.35), -1j * np.sin(0.35)
    # Little-endian, as Qiskit has it: q[1] is the first of the matrix.
    little = np.array(
        [
            [1, 0, 0, 0],
            [0, cos, sin * np.exp(-0.2j), 0],
            [0, sin * np.exp(0.2j), cos, 0],
            [0, 0, 0, 1],
        ]
    )
    swap = cirq.unitary(cirq.SWAP)
    found = of_two(QISKIT2 + "xx_plus_yy(0.7,0.2) q[0],q[1];")
    assert cirq.equal_up_to_global_phase(found, swap @ little @ swap, atol=1e-6)

    first, second = cirq.unitary(cirq.CNOT), swap @ cirq.unitary(cirq.CNOT) @ swap
    found = of_two(QISKIT2 + "dcx q[0],q[1];")
    assert cirq.equal_up_to_global_phase(found, second @ first, atol=1e-6)


def test_what_qiskit_writes_of_openqasm_3_is_read() -> None:
    text = """OPENQASM 3.0;
include "stdgates.inc";
input float[64] _theta_0;
gate rzz_0(_gate_p_0) _gate_q_0, _gate_q_1 {
  cx _gate_q_0, _gate_q_1;
  rz(_gate_p_0) _gate_q_1;
  cx _gate_q_0, _gate_q_1;
}
bit[2] meas;
qubit[2] q;
U(π/2, 0, pi) q[0];
rzz_0(2**1*_theta_0/2) q[0], q[1];
U(pi/2, 0, pi) q[0];
barrier q[0], q[1];
meas[0] = measure q[0];
meas[1] = measure q[1];
"""
    found = cirq.resolve_parameters(qasm.read(text)[0], {"_theta_0": np.pi})

    # H Rz(pi) H is an X.
    assert set(map(str, cirq.Simulator().run(found, repetitions=50).measurements["meas_0"].ravel())) == {"1"}


def test_native_gates_of_ions_are_written_as_gates() -> None:
    """IonQ's gates in turns, by their definitions."""
    text = f"""{HEAD}gate gpi(phi) q {{ x q; rz(4*pi*phi) q; }}
gate gpi2(phi) q {{ rz(-2*pi*phi) q; rx(pi/2) q; rz(2*pi*phi) q; }}
gate ms(phi0,phi1) a,b {{ rz(-2*pi*phi0) a; rz(-2*pi*phi1) b; rxx(pi/2) a,b; rz(2*pi*phi0) a; rz(2*pi*phi1) b; }}
qreg q[2]; """
    turn = np.exp(2j * np.pi * 0.15)
    found = of_two(text + "gpi(0.15) q[0]; gpi2(0.3) q[1];")
    gpi = np.array([[0, turn.conj()], [turn, 0]])
    other = np.exp(2j * np.pi * 0.3)
    gpi2 = np.array([[1, -1j * other.conj()], [-1j * other, 1]]) / np.sqrt(2)
    assert cirq.equal_up_to_global_phase(found, np.kron(gpi, gpi2), atol=1e-6)

    found = of_two(text + "ms(0,0.25) q[0],q[1];")
    both = np.kron(cirq.unitary(cirq.X), cirq.unitary(cirq.Y))
    assert cirq.equal_up_to_global_phase(found, (np.eye(4) - 1j * both) / np.sqrt(2), atol=1e-6)
