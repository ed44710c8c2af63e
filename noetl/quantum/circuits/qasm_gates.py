"""Gates of OpenQASM. Angles are radians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import cirq
import sympy

# There are no public names for them.
from cirq.contrib.qasm_import._parser import QasmGateStatement, QasmParser, _generate_op_qubits
from cirq.contrib.qasm_import.exception import QasmException

from noetl.quantum.circuits.qasm_angles import Angle, AngleValues

MOST_IN_GATE: Final = 10_000
#: Parts of an angle in the body of a gate, with those of the gates around it put in.
MOST_PARTS: Final = 10_000
#: Parts of all angles that calls of gates with a body compute.
MOST_WORK: Final = 100_000


class QasmGate:
    """A gate with a body. Its parameters are called `<gate>.<name>` inside, so that those of a gate
    that it calls never are among them.

    No angle of the body has more than `parts` parts, and all of them together have `work`: what a
    call costs."""

    def __init__(
        self,
        name: str,
        params: Sequence[str],
        qubits: Sequence[cirq.Qid],
        body: Iterable[cirq.Operation],
        parts: int = 1,
        work: int = 1,
    ) -> None:
        self.name, self.params, self.qubits = name, params, qubits
        self.parts, self.work = parts, work
        own = {param: sympy.Symbol(f"{name}.{param}") for param in params}
        self.body = [_resolve(op, own) for op in body]

    def on(self, params: list[Angle], args: list[list[cirq.Qid]], lineno: int) -> Iterator[cirq.Operation]:
        """What a call is put in the place of: the body for each qubit of its registers. Raises
        QasmException where arguments and gate do not fit."""
        for what, given, known in (("parameter", params, self.params), ("qubit", args, self.qubits)):
            if len(given) != len(known):
                raise QasmException(
                    f"{self.name} takes {len(known)} {what}(s), not {len(given)} at line {lineno}"
                )
        places = _generate_op_qubits(args, lineno)
        if len(self.body) * len(places) > MOST_IN_GATE:
            raise QasmException(f"{self.name} is more than {MOST_IN_GATE:,} operations at line {lineno}")
        values = {f"{self.name}.{name}": value for name, value in zip(self.params, params, strict=True)}
        body = [_resolve(op, values) for op in self.body]
        for qubits in places:
            placed = dict(zip(self.qubits, qubits, strict=True))
            yield from (op.transform_qubits(placed) for op in body)


class Barrier:
    """Nothing, on qubits that there are: nothing here moves what shares a qubit."""

    def on(self, params: list[Angle], args: list[list[cirq.Qid]], lineno: int) -> Iterator[cirq.Operation]:
        """Raises QasmException where arguments and gate do not fit."""
        qubits = [qubit for register in args for qubit in register]
        if params or len(set(qubits)) < len(qubits):
            raise QasmException(f"barrier takes no angles, and each qubit once at line {lineno}")
        return iter(())


def _resolve(op: cirq.Operation, values: Mapping[Any, Angle]) -> cirq.Operation:
    return cirq.resolve_parameters(op, AngleValues(values)) if values and cirq.is_parameterized(op) else op


def _u3(angles: Sequence[Angle]) -> cirq.Gate:
    """Rz(phi) Ry(theta) Rz(lambda), but for a global phase."""
    theta, phi, lam = (angle / math.pi for angle in angles)
    return cirq.PhasedXZGate(x_exponent=theta, z_exponent=phi + lam, axis_phase_exponent=0.5 - lam)


def _u2(angles: Sequence[Angle]) -> cirq.Gate:
    return _u3([math.pi / 2, *angles])


def _phase(angles: Sequence[Angle]) -> cirq.Gate:
    return cirq.ZPowGate(exponent=angles[0] / math.pi)


def _r(angles: Sequence[Angle]) -> cirq.Gate:
    return cirq.PhasedXPowGate(exponent=angles[0] / math.pi, phase_exponent=angles[1] / math.pi)


def _controlled_u(name: str, *more: str) -> QasmGate:
    """`cu3` as qelib1.inc defines it; `cu` is `cu3` with a phase of the control."""
    control, target = cirq.NamedQubit.range(2, prefix="")
    theta, phi, lam, *gamma = map(sympy.Symbol, ("theta", "phi", "lambda", *more))
    body = [
        *(_phase([phase]).on(control) for phase in gamma),
        _phase([(lam + phi) / 2]).on(control),
        _phase([(lam - phi) / 2]).on(target),
        cirq.CX(control, target),
        _u3([-theta / 2, 0, -(phi + lam) / 2]).on(target),
        cirq.CX(control, target),
        _u3([theta / 2, phi, 0]).on(target),
    ]
    return QasmGate(name, ["theta", "phi", "lambda", *more], [control, target], body)


def _statement(name: str, make: Callable[[Sequence[Angle]], cirq.Gate], angles: int) -> QasmGateStatement:
    return QasmGateStatement(qasm_gate=name, cirq_gate=make, num_params=angles, num_args=1)


#: Gates without a library, and those of qelib1.inc and stdgates.inc.
BASIC: Final[dict[str, Any]] = {
    **QasmParser.basic_gates,
    "U": _statement("U", _u3, 3),
    "barrier": Barrier(),
}
LIBRARY: Final[dict[str, Any]] = {
    **QasmParser.qelib_gates,
    "u": _statement("u", _u3, 3),
    "u3": _statement("u3", _u3, 3),
    "u2": _statement("u2", _u2, 2),
    "u1": _statement("u1", _phase, 1),
    "phase": _statement("phase", _phase, 1),
    "r": _statement("r", _r, 2),
    "cu1": QasmParser.qelib_gates["cp"],
    "cphase": QasmParser.qelib_gates["cp"],
    "cu3": _controlled_u("cu3"),
    "cu": _controlled_u("cu", "gamma"),
}
