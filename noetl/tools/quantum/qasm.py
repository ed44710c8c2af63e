"""OpenQASM 2 and 3, read by Cirq's parser.

That parser is sound for gates, registers and measurements. Corrected here: `cu3`, `cu` and `u` with angles below 0
(Cirq's controlled ones are off by a phase), `if` before a gate on a register (Cirq's applies it to the first qubit),
`if` on values that a register never has, arithmetic (unbounded, and NaN), gates in gates (unbounded, and names of
parameters that cross). Gates that a text defines are put in the place of their calls.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import cirq
import numpy as np
import sympy

# Its functions name the grammar that ply reads. There is no public name for the class.
from cirq.contrib.qasm_import._parser import QasmParser
from cirq.contrib.qasm_import.exception import QasmException

from noetl.facts.nearest import did_you_mean
from noetl.tools.quantum.qasm_gates import (
    BASIC,
    FUNCTIONS,
    LIBRARY,
    MOST_IN_GATE,
    MOST_PARTS,
    OPERATORS,
    Angle,
    Gate,
    size,
)
from noetl.tools.quantum.qasm_text import Program, QasmError, Token, program

Form: TypeAlias = Literal["qasm2", "qasm3"]
#: Operations of a circuit, and of one call of a gate that the text defines.
MOST_OPERATIONS: Final = 100_000
#: Texts whose circuits are kept.
_KEPT: Final = 16

#: ply keeps what it is doing in its module.
_one_at_a_time = threading.Lock()
_PLACE: Final = re.compile(r",?\s+(?:at|in) line (\d+)'?")
#: What statements look like, for those that are not understood.
_SHAPES: Final = {
    "measure": "`measure q -> c;`, or `c = measure q;`",
    "if": "`if (c == 1) x q[0];`, several conditions with `&&`",
    "gate": "`gate name(angle) a, b { ... }`",
    "qreg": "`qreg q[2];`",
    "creg": "`creg c[2];`",
    "qubit": "`qubit[2] q;`",
    "bit": "`bit[2] c;`",
    "input": "`input float theta;`",
    "reset": "`reset q[0];`",
}
_REASONS: Final = (
    (
        re.compile(r"Parameter '(.*)' not supported"),
        r"'\1' has no value; in OpenQASM 3 `input float \1;` makes it a parameter",
    ),
    (
        re.compile(r"Function not recognized: '(.*)'"),
        r"there is no function '\1': there are sin, cos, tan, asin, acos, atan, exp, ln and sqrt",
    ),
    (
        re.compile(r"Unsupported indexed qreg '(.*)'"),
        r"'\1' in the body of a gate: name the gate's own qubits",
    ),
)


def read(text: str) -> tuple[cirq.Circuit, Form]:
    """The circuit of an OpenQASM text, and its version. Raises QasmError, which names the line.

    Qubits are called `<register>_<index>`, and so are measurement keys. Angles are radians.
    """
    circuit, form = _read(text)
    return circuit.unfreeze(), form


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> tuple[cirq.FrozenCircuit, Form]:
    prepared = program(text)
    with _one_at_a_time:
        circuit = _parsed(prepared)
    return circuit.freeze(), "qasm3" if prepared.version == "3.0" else "qasm2"


def _parsed(prepared: Program) -> cirq.Circuit:
    parser = _Parser()
    try:
        # An angle that is not finite, or not real, once its parameters have values.
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            parser.parse(prepared.text)
    except _Unexpected as error:
        raise _unexpected(prepared, prepared.at(error.offset)) from None
    except QasmException as error:
        raise _explained(prepared, error.message, parser.line()) from None
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise _explained(prepared, str(error), parser.line()) from None
    return parser.circuit


def _unexpected(prepared: Program, token: Token) -> QasmError:
    statement = next((one for one in prepared.statements if token in one), prepared.statements[-1])
    place = statement.index(token)
    missing = place and statement[place - 1].line < token.line
    hint = " (is a `;` missing before it?)" if missing else ""
    if not hint and (shape := _SHAPES.get(statement[0].text)):
        hint = f": what is known is {shape}"
    return token.refused(f"{token.text!r} is not expected here{hint}")


def _explained(prepared: Program, message: str, line: int) -> QasmError:
    found = _PLACE.search(message)
    if found and int(found[1]):
        line = int(found[1])
    reason = _PLACE.sub("", message).rstrip(" ,.") or "it cannot be read"
    for pattern, meant in _REASONS:
        reason = pattern.sub(meant, reason)
    return prepared.of_line(line)[0].refused(reason)


class _Unexpected(QasmException):
    """A token, at `offset`, that the grammar has no use for."""

    def __init__(self, offset: int) -> None:
        super().__init__("")
        self.offset = offset


def _in_place_of(rule: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """ply orders rules, and so settles what is ambiguous, by the lines of their functions."""

    def marked(ours: Callable[..., None]) -> Callable[..., None]:
        ours.__doc__ = rule.__doc__
        ours.__dict__["co_firstlineno"] = rule.__code__.co_firstlineno
        return ours

    return marked


class _Parser(QasmParser):
    basic_gates = BASIC  # what every text knows
    qelib_gates = LIBRARY  # what `include` adds

    def __init__(self) -> None:
        super().__init__()
        self.functions = FUNCTIONS
        self.binary_operators = OPERATORS
        self._made = 0
        #: Of the gate that is being defined.
        self._parts = 1

    def line(self) -> int:
        """The line that is being read, from 1."""
        return int(self.lexer.lex.lineno)

    def p_error(self, p: Any) -> None:
        raise _Unexpected(len(self.qasm) if p is None else p.lexpos)

    def _resolve_gate_operation(self, args: Any, gate: str, p: Any, params: Any) -> None:
        if gate not in self.gate_set:
            library = "" if self.qelibinc else '; `include "qelib1.inc";` brings the usual ones'
            near = (
                did_you_mean(gate, self.gate_set).removesuffix("?").replace(" Did you mean", "; did you mean")
            )
            raise QasmException(f"there is no gate '{gate}'{near}{library} at line {p.lineno(1)}")
        if self.in_custom_gate_scope:
            self._parts = max(self._parts, self._parts_of(gate, params))
            if self._parts > MOST_PARTS:
                raise QasmException(
                    f"an angle of {gate} has more than {MOST_PARTS:,} parts at line {p.lineno(1)}"
                )
        super()._resolve_gate_operation(args, gate, p, params)
        p[0] = list(p[0])
        self._made += len(p[0])
        if self._made > MOST_OPERATIONS:
            raise QasmException(
                f"the circuit has more than {MOST_OPERATIONS:,} operations at line {p.lineno(1)}"
            )

    def _parts_of(self, gate: str, params: Sequence[Angle]) -> int:
        """At most how many parts an angle has that a call of `gate` makes: each level multiplies them."""
        called = self.gate_set[gate]
        most = max((size(param) for param in params), default=1)
        return most * called.parts if isinstance(called, Gate) else most

    def _gate_def(self, p: Any, *, has_params: bool) -> None:
        name, params = p[2], p[4] if has_params else []
        qubits, calls = p[6 if has_params else 3], p[8 if has_params else 5]
        if len({*params, *(qubit.name for qubit in qubits)}) < len(params) + len(qubits):
            raise QasmException(f"{name} has two parameters or qubits of one name at line {p.lineno(1)}")
        if isinstance(self.gate_set.get(name), Gate) and name not in self.qelib_gates:
            raise QasmException(f"{name} is defined twice at line {p.lineno(1)}")
        body = [op for call in calls for op in call]
        if len(body) > MOST_IN_GATE:
            raise QasmException(f"{name} is more than {MOST_IN_GATE:,} operations at line {p.lineno(1)}")
        self.gate_set[name] = Gate(name, params, qubits, body, self._parts)
        self._parts = 1
        self.custom_gate_scoped_params.clear()
        self.custom_gate_scoped_qubits.clear()
        self.in_custom_gate_scope = False

    @_in_place_of(QasmParser.p_if)
    def p_if(self, p: Any) -> None:
        measured = self.circuit.all_measurement_key_names()
        conditions: list[sympy.Basic] = []
        for bits, wanted in p[3]:
            if wanted >> len(bits):
                raise QasmException(
                    f"a register of {len(bits)} bit(s) is never {wanted} at line {p.lineno(1)}"
                )
            for index, bit in enumerate(bits):
                value = wanted >> index & 1
                if bit in measured:
                    conditions.append(sympy.Eq(sympy.Symbol(bit), value))
                elif value:
                    raise QasmException(f"{bit} is not measured before, and so never 1 at line {p.lineno(1)}")
        p[0] = [op.with_classical_controls(*conditions) if conditions else op for op in p[5]]
