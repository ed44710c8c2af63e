"""Gates of OpenQASM: those of its libraries, and those that a text defines. Angles are radians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

import cirq
import numpy as np
import sympy

from noetl.facts.nearest import nearest
from noetl.quantum.circuits.qasm_angles import Angle, AngleValues, size
from noetl.quantum.circuits.qasm_tokens import QasmToken

Qubits: TypeAlias = Sequence[cirq.Qid]

#: Operations of a circuit, and of one call of a gate.
MOST_OPERATIONS: Final = 100_000
MOST_IN_GATE: Final = 10_000
#: Parts of an angle in the body of a gate, with those of the gates around it put in; and of all
#: angles that calls of gates with a body compute.
MOST_PARTS: Final = 10_000
MOST_WORK: Final = 100_000


@dataclass(frozen=True, slots=True)
class NativeGate:
    """A gate that Cirq has. `make` makes it of so many angles."""

    angles: int
    qubits: int
    make: Callable[..., cirq.Gate]
    #: Each of its angles is one of a call.
    parts: ClassVar[int] = 1

    @property
    def work(self) -> int:
        """How many angles a call computes."""
        return self.angles

    def on(self, angles: Sequence[Angle], places: Iterable[Qubits]) -> list[cirq.Operation]:
        """What a call stands for, on the qubits of each place."""
        gate = self.make(*angles)
        return [gate.on(*qubits) for qubits in places]


@dataclass(frozen=True, slots=True)
class DefinedGate:
    """A gate with a body, in which its parameters are symbols. No angle of the body has more than
    `parts` parts, and all of them together have `work`: what a call costs."""

    name: str
    symbols: Sequence[sympy.Dummy]
    places: Qubits
    body: Sequence[cirq.Operation]
    parts: int = 1
    work: int = 1

    @property
    def angles(self) -> int:
        """How many it takes."""
        return len(self.symbols)

    @property
    def qubits(self) -> int:
        """How many it takes."""
        return len(self.places)

    def on(self, angles: Sequence[Angle], places: Sequence[Qubits]) -> list[cirq.Operation]:
        """What a call stands for, on the qubits of each place. Raises ValueError where that is too
        much, or where an angle of the body has no value."""
        if len(self.body) * len(places) > MOST_IN_GATE:
            raise ValueError(f"{self.name} is more than {MOST_IN_GATE:,} operations")
        values = AngleValues(dict(zip(self.symbols, angles, strict=True)))
        body = [cirq.resolve_parameters(op, values) if cirq.is_parameterized(op) else op for op in self.body]
        maps = [dict(zip(self.places, qubits, strict=True)) for qubits in places]
        return [op.transform_qubits(placed) for placed in maps for op in body]


def _u3(theta: Angle, phi: Angle, lam: Angle) -> cirq.Gate:
    """Rz(phi) Ry(theta) Rz(lambda), but for a global phase."""
    theta, phi, lam = theta / math.pi, phi / math.pi, lam / math.pi
    return cirq.PhasedXZGate(x_exponent=theta, z_exponent=phi + lam, axis_phase_exponent=0.5 - lam)


def _u2(phi: Angle, lam: Angle) -> cirq.Gate:
    return _u3(math.pi / 2, phi, lam)


def _r(theta: Angle, phi: Angle) -> cirq.Gate:
    return cirq.PhasedXPowGate(exponent=theta / math.pi, phase_exponent=phi / math.pi)


def _turn(gate: Callable[..., cirq.Gate]) -> Callable[[Angle], cirq.Gate]:
    """`gate` by its angle instead of its exponent."""
    return lambda angle: gate(exponent=angle / math.pi)


def _control(make: Callable[[Angle], cirq.Gate]) -> Callable[[Angle], cirq.Gate]:
    return lambda angle: cirq.ControlledGate(make(angle))


def _make_controlled_u(name: str, *more: str) -> DefinedGate:
    """`cu3` as qelib1.inc defines it; `cu` is `cu3` with a phase of the control."""
    control, target = cirq.NamedQubit.range(2, prefix="")
    symbols = list(map(sympy.Dummy, ("theta", "phi", "lambda", *more)))
    theta, phi, lam, *gamma = symbols
    body = [
        *(_PHASE(phase).on(control) for phase in gamma),
        _PHASE((lam + phi) / 2).on(control),
        _PHASE((lam - phi) / 2).on(target),
        cirq.CX(control, target),
        _u3(-theta / 2, 0, -(phi + lam) / 2).on(target),
        cirq.CX(control, target),
        _u3(theta / 2, phi, 0).on(target),
    ]
    return DefinedGate(name, symbols, [control, target], body)


_PHASE: Final = _turn(cirq.ZPowGate)
#: Gates of qelib1.inc without angles.
_FIXED: Final[Mapping[str, cirq.Gate]] = {
    "x": cirq.X,
    "y": cirq.Y,
    "z": cirq.Z,
    "h": cirq.H,
    "id": cirq.I,
    "s": cirq.S,
    "sdg": cirq.S**-1,
    "t": cirq.T,
    "tdg": cirq.T**-1,
    "sx": cirq.X**0.5,
    "sxdg": cirq.X**-0.5,
    "cx": cirq.CX,
    "cy": cirq.CY,
    "cz": cirq.CZ,
    "ch": cirq.ControlledGate(cirq.H),
    "csx": cirq.ControlledGate(cirq.X**0.5),
    "swap": cirq.SWAP,
    "iswap": cirq.ISWAP,
    "ccx": cirq.CCX,
    "cswap": cirq.CSWAP,
    "rccx": cirq.MatrixGate(cirq.block_diag(np.diag([1, 1, 1, 1, 1, -1]), np.array([[0, 0 - 1j], [1j, 0]]))),
    "c3x": cirq.ControlledGate(cirq.X, 3),
    "c3sqrtx": cirq.ControlledGate(cirq.X**0.5, 3),
    "rc3x": cirq.MatrixGate(cirq.block_diag(np.diag([1] * 12 + [1j, 0 - 1j]), np.array([[0, 1], [-1, 0]]))),
    "c4x": cirq.ControlledGate(cirq.X, 4),
}
#: Gates without a library, and those of qelib1.inc and stdgates.inc.
BASIC: Final[Mapping[str, NativeGate | DefinedGate]] = {
    "CX": NativeGate(0, 2, lambda: cirq.CX),
    "U": NativeGate(3, 1, _u3),
}
LIBRARY: Final[Mapping[str, NativeGate | DefinedGate]] = {
    **{name: NativeGate(0, cirq.num_qubits(gate), lambda gate=gate: gate) for name, gate in _FIXED.items()},
    "u": NativeGate(3, 1, _u3),
    "u3": NativeGate(3, 1, _u3),
    "u2": NativeGate(2, 1, _u2),
    "u1": NativeGate(1, 1, _PHASE),
    "u0": NativeGate(1, 1, lambda _: cirq.I),
    "p": NativeGate(1, 1, _PHASE),
    "phase": NativeGate(1, 1, _PHASE),
    "r": NativeGate(2, 1, _r),
    "rx": NativeGate(1, 1, cirq.rx),
    "ry": NativeGate(1, 1, cirq.ry),
    "rz": NativeGate(1, 1, cirq.rz),
    "rxx": NativeGate(1, 2, _turn(cirq.XXPowGate)),
    "ryy": NativeGate(1, 2, _turn(cirq.YYPowGate)),
    "rzz": NativeGate(1, 2, _turn(cirq.ZZPowGate)),
    "crx": NativeGate(1, 2, _control(cirq.rx)),
    "cry": NativeGate(1, 2, _control(cirq.ry)),
    "crz": NativeGate(1, 2, _control(cirq.rz)),
    "cp": NativeGate(1, 2, _control(_PHASE)),
    "cphase": NativeGate(1, 2, _control(_PHASE)),
    "cu1": NativeGate(1, 2, _control(_PHASE)),
    "cu3": _make_controlled_u("cu3"),
    "cu": _make_controlled_u("cu", "gamma"),
}


class GateSet:
    """The gates that a text may call, and what its calls have cost so far."""

    def __init__(self, version: str) -> None:
        self._library = "stdgates.inc" if version == "3.0" else "qelib1.inc"
        self._gates: dict[str, NativeGate | DefinedGate] = {**BASIC}
        #: Operations, those of definitions too: each may be made of all that were before it.
        self._made = 0
        #: Parts of angles that calls have computed.
        self._worked = 0
        #: Whether a gate is being defined; parts of its largest angle, and of all of them.
        self._defines = False
        self._parts = self._work = 1

    def include(self) -> None:
        """Adds the gates of the libraries."""
        self._gates |= LIBRARY

    def begin(self, head: QasmToken, name: str) -> None:
        """The calls that follow are the body of a gate. Raises QasmError where there cannot be one
        of that name."""
        if name in ("U", "barrier"):
            raise head.error(f"{name} is a word of the language: give the gate another name")
        if isinstance(self._gates.get(name), DefinedGate) and name not in LIBRARY:
            raise head.error(f"{name} is defined twice")
        self._defines, self._parts, self._work = True, 1, 1

    def define(
        self,
        head: QasmToken,
        name: str,
        symbols: Sequence[sympy.Dummy],
        places: Qubits,
        body: Sequence[cirq.Operation],
    ) -> None:
        """Adds a gate, whose body was called. Raises QasmError where that is too much."""
        if len(body) > MOST_IN_GATE:
            raise head.error(f"{name} is more than {MOST_IN_GATE:,} operations")
        self._gates[name] = DefinedGate(name, symbols, places, body, self._parts, self._work)
        self._defines = False

    def count(self, head: QasmToken, operations: int) -> None:
        """Raises QasmError where there are too many operations."""
        self._made += operations
        if self._made > MOST_OPERATIONS:
            raise head.error(f"the circuit has more than {MOST_OPERATIONS:,} operations")

    def call(
        self, name: QasmToken, angles: Sequence[Angle], args: Sequence[Sequence[cirq.Qid]]
    ) -> list[cirq.Operation]:
        """The operations of a call; `args` are qubits, and registers of them. Raises QasmError, and
        ValueError of angles."""
        if name.text == "barrier":
            qubits = [qubit for register in args for qubit in register]
            if angles or len(set(qubits)) < len(qubits):
                raise name.error("barrier takes no angles, and each qubit once")
            return []
        gate = self._gates.get(name.text)
        if gate is None:
            raise name.error(f"there is no gate '{name.text}'{self._suggest(name.text)}")
        if len(angles) != gate.angles:
            raise name.error(f"{name.text} takes {gate.angles} parameter(s), not {len(angles)}")
        if len(args) != gate.qubits:
            raise name.error(f"{name.text} takes {gate.qubits} qubit(s), not {len(args)}")
        self._check_angles(name, gate, angles)
        operations = gate.on(angles, _broadcast(args))
        self.count(name, len(operations))
        return operations

    def _check_angles(self, name: QasmToken, gate: NativeGate | DefinedGate, angles: Sequence[Angle]) -> None:
        """Each level of gates in gates multiplies the parts of an angle, and the work of computing
        them."""
        most = max(map(size, angles), default=1)
        if self._defines:
            self._parts = max(self._parts, gate.parts * most)
            self._work += gate.work * most
            if self._parts > MOST_PARTS:
                raise name.error(f"an angle of {name.text} has more than {MOST_PARTS:,} parts")
        if angles and isinstance(gate, DefinedGate):
            self._worked += gate.work * most
            if self._worked > MOST_WORK:
                raise name.error(f"the angles of calls of gates have more than {MOST_WORK:,} parts")

    def _suggest(self, gate: str) -> str:
        if gate in LIBRARY:
            return f'; `include "{self._library}";` brings it'
        near = nearest(gate, (*self._gates, "barrier"))
        meant = f"; did you mean '{near}'" if near else ""
        return meant if "h" in self._gates else f'{meant}; `include "{self._library}";` brings the usual ones'


def _broadcast(args: Sequence[Sequence[cirq.Qid]]) -> list[list[cirq.Qid]]:
    """The qubits of each call: registers side by side, single qubits with each of them."""
    width = max(map(len, args))
    if any(len(one) not in (1, width) for one in args):
        lengths = sorted(set(map(len, args)))
        raise ValueError(
            f"Non matching quantum registers of length {lengths}: registers of one call have one length"
        )
    places = [[one[index % len(one)] for one in args] for index in range(width)]
    if any(len(set(qubits)) < len(qubits) for qubits in places):
        raise ValueError("Overlapping qubits in arguments: a gate acts on different qubits")
    return places
