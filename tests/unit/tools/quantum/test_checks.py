"""One clear error for each thing that is wrong with a circuit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cirq
import pytest
import sympy

from noetl.errors import ToolError
from noetl.quantum.circuits import checks, params
from noetl.quantum.config.task import Limits
from noetl.quantum.model import Capabilities

QUBITS = cirq.LineQubit.range(40)
ONE = QUBITS[0]
WIDE = cirq.Circuit(cirq.H.on_each(*QUBITS))
THETA = cirq.Circuit(cirq.rx(sympy.Symbol("theta")).on(ONE), cirq.measure(ONE, key="m"))
PLAIN = cirq.Circuit(cirq.X(ONE), cirq.measure(ONE, key="m"))
SIMULATOR = Capabilities("simulator", True, bytes_per_amplitude=8)
MATRIX = Capabilities("density_matrix", True, bytes_per_amplitude=8, mixed=True)
VENDOR = Capabilities("ionq", False, max_qubits=29)


def symbols(circuit: cirq.Circuit, given: Any) -> None:
    checks.check_symbols(circuit, params.points(given))


@pytest.mark.parametrize(
    ("check", "type", "said"),
    [
        (lambda: symbols(THETA, None), "UnresolvedSymbols", "symbol 'theta' has no value in `params`."),
        (lambda: symbols(THETA, {"thta": 1}), "UnresolvedSymbols", "Is 'thta' of `params` meant for it?"),
        (
            lambda: symbols(THETA, {"list": [{"theta": 1}, {"x": 2}]}),
            "UnresolvedSymbols",
            "symbol 'theta' has no value at point 1 of `params`.",
        ),
        (
            lambda: symbols(cirq.Circuit(cirq.rx(sympy.Symbol(f"t{n}")).on(ONE) for n in range(7)), None),
            "UnresolvedSymbols",
            "symbols 't0', 't1', 't2', 't3', 't4' and 2 more have no value",
        ),
        (
            lambda: symbols(THETA, {"theta": 1, "tehta": 2}),
            "UnknownSymbols",
            "`params` has 'tehta', and the circuit has no such symbol. Did you mean 'theta'?",
        ),
        (lambda: symbols(THETA, {"theta": 1, "zzzzzzz": 2}), "UnknownSymbols", "It has 'theta'."),
        (lambda: symbols(PLAIN, {"theta": 1}), "UnknownSymbols", "It has no symbols at all."),
        (lambda: checks.check_measures(WIDE), "NoMeasurement", "`measure: true` measures all qubits"),
        (
            lambda: checks.check_measures(PLAIN + PLAIN),
            "RepeatedKey",
            "measures 2 times under the key 'm'",
        ),
        (
            lambda: checks.check_clifford(cirq.Circuit(cirq.H(ONE), cirq.T(ONE), cirq.measure(ONE))),
            "NotClifford",
            "T(q(0)) in moment 2 is no Clifford operation",
        ),
        (
            lambda: checks.check_clifford(cirq.Circuit(cirq.rx(0.3).on(ONE))),
            "NotClifford",
            "in moment 1 is no Clifford operation",
        ),
        (lambda: checks.check_sound(cirq.Circuit()), "EmptyCircuit", "has no operations"),
        (lambda: checks.check_sound(cirq.Circuit(cirq.Moment())), "EmptyCircuit", "has no operations"),
        (
            lambda: checks.check_sound(cirq.Circuit(cirq.measure(cirq.LineQid(0, 3)))),
            "Qudits",
            "which has 3 levels",
        ),
    ],
)
def test_what_the_author_wrote_wrong_is_reported(check: Callable[[], None], type: str, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        check()

    assert (caught.value.kind, caught.value.type) == ("client_error", type)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("capabilities", "limits", "type", "said"),
    [
        (
            SIMULATOR,
            Limits(),
            "TooMuchMemory",
            "40 qubits takes 2^40 × 8 bytes = 8 TiB, and 4 GiB are allowed",
        ),
        (MATRIX, Limits(max_memory_mb=100), "TooMuchMemory", "4^40 × 8 bytes"),
        (VENDOR, Limits(), "TooManyQubits", "has 40 qubits, and ionq has 29"),
        (
            Capabilities("clifford", True),
            Limits(max_qubits=39),
            "TooManyQubits",
            "39 are allowed (limits.max_qubits)",
        ),
    ],
)
def test_a_circuit_that_is_too_large_says_how_large(
    capabilities: Capabilities, limits: Limits, type: str, said: str
) -> None:
    with pytest.raises(ToolError) as caught:
        checks.check_size(WIDE, capabilities, limits, 4096)

    assert (caught.value.kind, caught.value.type) == ("limit", type)
    assert said in caught.value.message


def test_what_is_right_passes() -> None:
    symbols(THETA, {"product": {"theta": [0, 1]}})
    symbols(PLAIN, None)
    checks.check_measures(THETA)
    checks.check_sound(THETA)
    checks.check_clifford(
        cirq.Circuit(cirq.H(ONE), cirq.S(ONE), cirq.rx(math.pi / 2).on(ONE), cirq.measure(ONE))
    )
    checks.check_size(WIDE, Capabilities("clifford", True), Limits(max_memory_mb=1))
    checks.check_size(PLAIN, SIMULATOR, Limits(max_qubits=1), 1)
    checks.check_size(WIDE, SIMULATOR, Limits(max_memory_mb=9 * 2**20), 1)


@pytest.mark.parametrize(("qubits", "bytes"), [(0, 8), (10, 8 << 10)])
def test_a_state_takes_its_amplitudes(qubits: int, bytes: int) -> None:
    assert checks.state_bytes(qubits, SIMULATOR) == bytes
    assert checks.state_bytes(qubits, MATRIX) == 8 << 2 * qubits
    assert checks.state_bytes(qubits, VENDOR) is None
