"""OpenQASM 2 and 3: a text is checked and rewritten by `qasm_program`, read by `qasm_parser`, and what is refused is told
in the places and words of the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import cirq
from cirq.contrib.qasm_import.exception import QasmException

from noetl.quantum.circuits import qasm_parser
from noetl.quantum.circuits.qasm_angles import FUNCTIONS
from noetl.quantum.circuits.qasm_program import Program, program
from noetl.quantum.circuits.qasm_text import QasmError, Token

Form: TypeAlias = Literal["qasm2", "qasm3"]
#: Texts whose circuits are kept.
_KEPT: Final = 16

_PLACE: Final = re.compile(r",?\s+(?:at|in) line (\d+)'?")
#: What statements look like, for those that are not understood.
_SHAPES: Final = {
    "measure": "`measure q -> c;`, or `c = measure q;`",
    "if": "`if (c == 1) x q[0];`, `if (c[0]) { x q[0]; }`, several conditions with `&&`",
    "gate": "`gate name(angle) a, b { ... }`",
    "qreg": "`qreg q[2];`",
    "creg": "`creg c[2];`",
    "qubit": "`qubit[2] q;`",
    "bit": "`bit[2] c;`",
    "input": "`input float theta;`",
    "reset": "`reset q[0];`",
}
#: What Cirq and Python say, and what is said instead.
_REASONS: Final = tuple(
    (re.compile(pattern), meant)
    for pattern, meant in {
        r"^Parameter '(.*)' not supported": r"'\1' has no value; in OpenQASM 3 `input float \1;` makes it a parameter",
        r"^Function not recognized: '(.*)'": (
            rf"there is no function '\1': there are {', '.join([*FUNCTIONS][:-1])} and {[*FUNCTIONS][-1]}"
        ),
        r"^Unsupported indexed qreg '(.*)'": r"'\1' in the body of a gate: name the gate's own qubits",
        r'^(Undefined quantum register "(.*)")': r"\1: declare it before, as in `qreg \2[2];`",
        r'^(Undefined classical register "(.*)")': r"\1: declare it before, as in `creg \2[2];`",
        r"^(Undefined qubit .*)": r"\1: the body of a gate has the gate's own qubits",
        r"^(Undefined parameter .*)": r"\1: the body of a gate has the gate's own parameters",
        r"^(Overlapping qubits in arguments)": r"\1: a gate acts on different qubits",
        r"^(Non matching quantum registers.*)": r"\1: registers of one call have one length",
        r"^(Out of bounds .*)": r"\1: indices count from 0",
        r"^maximum recursion depth exceeded.*": "an angle is nested too deep",
    }.items()
)


def read(text: str) -> tuple[cirq.Circuit, Form]:
    """The circuit of an OpenQASM text, and its version. Raises QasmError, which names the line.

    Qubits are called `<register>_<index>`, and so are measurement keys. Angles are radians.
    """
    circuit, form, _ = _read(text)
    return circuit.unfreeze(), form


def idle(text: str) -> tuple[cirq.Qid, ...]:
    """The qubits of registers on which nothing acts, in their order. Raises QasmError."""
    return _read(text)[2]


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> tuple[cirq.FrozenCircuit, Form, tuple[cirq.Qid, ...]]:
    prepared = program(text)
    circuit, declared = _parsed(prepared)
    unused = sorted(set(declared) - circuit.all_qubits())
    return circuit.freeze(), "qasm3" if prepared.version == "3.0" else "qasm2", tuple(unused)


def _parsed(prepared: Program) -> tuple[cirq.Circuit, list[cirq.Qid]]:
    parser = qasm_parser.fresh()
    try:
        return parser.read(prepared.text), parser.declared()
    except qasm_parser.Unexpected as error:
        raise _unexpected(prepared, prepared.at(error.offset)) from None
    except QasmException as error:
        raise _explained(prepared, error.message, parser.line()) from None
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise _explained(prepared, str(error), parser.line()) from None


def _unexpected(prepared: Program, token: Token) -> QasmError:
    statement = next((one for one in prepared.statements if token in one), prepared.statements[-1])
    place = statement.index(token)
    missing = place and statement[place - 1].line < token.line
    shape = _SHAPES.get(statement[0].text, "`cx q[0], q[1];` or `rx(pi/2) q[0];`")
    hint = " (is a `;` missing before it?)" if missing else f": what is known is {shape}"
    return token.refused(f"{token.text!r} is not expected here{hint}")


def _explained(prepared: Program, message: str, line: int) -> QasmError:
    found = _PLACE.search(message)
    if found and int(found[1]):
        line = int(found[1])
    reason = _PLACE.sub("", message).rstrip(" ,.") or "it cannot be read"
    for pattern, meant in _REASONS:
        reason = pattern.sub(meant, reason)
    return prepared.of_line(line).refused(reason)
