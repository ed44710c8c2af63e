"""OpenQASM 2 and 3: a text is checked and rewritten by `qasm_text`, read by `qasm_parser`, and what is refused is told
in the places and words of the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import cirq
import numpy as np
from cirq.contrib.qasm_import.exception import QasmException

from noetl.tools.quantum import qasm_parser
from noetl.tools.quantum.qasm_text import Program, QasmError, Token, program

Form: TypeAlias = Literal["qasm2", "qasm3"]
#: Texts whose circuits are kept.
_KEPT: Final = 16

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
    return _parsed(prepared).freeze(), "qasm3" if prepared.version == "3.0" else "qasm2"


def _parsed(prepared: Program) -> cirq.Circuit:
    parser = qasm_parser.fresh()
    try:
        # An angle that is not finite, or not real, once its parameters have values.
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            return parser.read(prepared.text)
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
