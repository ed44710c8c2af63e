"""OpenQASM as Cirq's parser takes it: one statement a line, so that whatever it refuses has a place. What it does not know
at all is refused here, by name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from noetl.quantum.circuits.qasm_rewriting import CONDITIONS, behind_condition, rewritten, unfolded
from noetl.quantum.circuits.qasm_text import Statement, Token, statements

#: Qubits and bits of all registers; words and marks within parentheses, and parentheses within each other.
MOST_BITS: Final = 10_000
MOST_INSIDE: Final = 500
MOST_DEPTH: Final = 50

_LIBRARIES: Final = {"qelib1.inc", "stdgates.inc"}
_REGISTERS: Final = frozenset({"qreg", "creg", "qubit", "bit"})
_NO_GATES: Final = _REGISTERS | {"measure", "reset", "if", "input", "gate"}
_MARKS: Final = frozenset(["->", "==", "&&", *"{}[]();,+/*-^="])

_CLASSICAL: Final = "nothing is computed beside the circuit: write the value itself, or put it into `params`"
_UNROLLED: Final = "write each round, or make the circuit in `code`"
_TIMED: Final = "circuits have no timing here: leave it away"
_DEFINED: Final = "define a `gate`, or make the circuit in `code`"
_CONTROLLED: Final = "write a gate that is controlled by itself, such as cx, ccx, crz or cu3"
#: Words that begin statements of the languages which no circuit here can have, and what to write instead.
UNKNOWN: Final = {
    "opaque": "give the gate a body: `gate name a, b { ... }`",
    **dict.fromkeys(("for", "while", "break", "continue"), _UNROLLED),
    **dict.fromkeys(("def", "extern", "return", "defcal", "defcalgrammar", "cal"), _DEFINED),
    **dict.fromkeys(
        ("const", "int", "uint", "bool", "complex", "array", "float", "angle", "let"), _CLASSICAL
    ),
    **dict.fromkeys(("box", "delay", "duration", "stretch", "nop"), _TIMED),
    **dict.fromkeys(("ctrl", "negctrl"), _CONTROLLED),
    "inv": "write the inverse gate, such as sdg, tdg or rx with the angle negated",
    "pow": "write the gate as often as its power says, or with another angle",
    **dict.fromkeys(("switch", "case", "else"), "write an `if` before each gate"),
    "gphase": "a global phase is measured by nothing: leave it away",
    "output": "what is measured is the output: leave it away",
    "pragma": "leave it away",
    "end": "the circuit ends where its text ends: leave it away",
}
#: Marks of the languages that no circuit here can have, and what to write instead.
UNKNOWN_MARKS: Final = {
    "@": f"modifiers of gates are not known: {_CONTROLLED}",
    "**": "powers are not known as `**` in OpenQASM 2: write `^`",
    ":": "ranges of registers are not known: name each qubit, or the whole register",
    "#": "pragmas are not known: leave it away",
    "$": "'$' is not known here: a circuit has registers, as in `qubit[2] q;`, and no qubits of a machine",
    **dict.fromkeys(("!", "<", ">", "|", "&", "~"), CONDITIONS),
}


class Program:
    """The statements of a text, and the text that Cirq's parser gets: each on a line of its own."""

    def __init__(self, version: str, statements: Sequence[Statement]) -> None:
        self.version = version
        self.statements = statements
        self._starts: list[int] = []
        self._tokens: list[Token] = []
        first = f"OPENQASM {version};\n"
        self._offset = len(first)
        self.text = first + "".join(f"{self._line(statement)}\n" for statement in statements[1:])

    def _line(self, statement: Statement) -> str:
        line = ""
        for token in statement:
            # Cirq's lexer wants none before the `;` of an include.
            line += " " if line and token.text != ";" else ""
            self._starts.append(self._offset + len(line))
            self._tokens.append(token)
            line += _spelled(token)
        self._offset += len(line) + 1
        return line

    def at(self, offset: int) -> Token:
        """The token at a place of `text`."""
        found = bisect_right(self._starts, offset) - 1
        return self._tokens[found] if found >= 0 else self.statements[0][0]

    def of_line(self, line: int) -> Token:
        """What the statement on a line of `text`, from 1, begins with; the nearest where there is none."""
        statement = self.statements[min(max(line, 1), len(self.statements)) - 1]
        # In a block of `if` the gate may be far from the word.
        return statement[behind_condition(statement)] if statement[0].text == "if" else statement[0]


def _spelled(token: Token) -> str:
    match token.kind:
        case "number" if not token.text.isdecimal():
            # Cirq's lexer knows no 12.5e3; what python prints it knows.
            return repr(float(token.text))
        case "string":
            return f'"{token.text[1:-1]}"'
        case "word" if not token.text.isascii():
            return "pi"
        case "mark" if token.text == "**":
            return "^"
    return token.text


def program(text: str) -> Program:
    """Raises QasmError."""
    version, found = statements(text)
    for statement in found[1:]:
        _check_words(statement, version)
        _check_inside(statement)
    _check_order(found)
    _check_blocks(found)
    _check_registers(found)
    known = [done for statement in unfolded(found[1:]) for done in rewritten(statement)]
    return Program(version, [found[0], *known])


def _check_words(statement: Statement, version: str) -> None:
    head = statement[0]
    if head.text == "@":
        raise head.refused("annotations are not known: leave it away")
    if head.text in UNKNOWN:
        raise head.refused(f"`{head.text}` is not known: {UNKNOWN[head.text]}")
    for token in statement:
        if token.kind == "mark" and not _is_known(token.text, head.text, version):
            raise token.refused(UNKNOWN_MARKS.get(token.text, f"{token.text!r} is not known here"))
        if token.kind == "string" and head.text != "include":
            raise token.refused("text in quotes stands behind `include` only")
        if token.text == "^" and version == "3.0":
            raise token.refused("`^` is a bitwise operation in OpenQASM 3 and is not known: powers are `**`")


def _is_known(mark: str, head: str, version: str) -> bool:
    return mark in _MARKS or (mark == "**" and version == "3.0") or (mark == "!" and head == "if")


def _check_inside(statement: Statement) -> None:
    """An angle is bounded, and so is what sympy takes for it: it grows with the square of its length, and recursively."""
    depth = inside = 0
    for token in statement:
        if token.text == ")":
            depth = max(depth - 1, 0)
        inside += depth > 0
        if token.text == "(":
            depth += 1
        if depth > MOST_DEPTH:
            raise token.refused(f"there are more than {MOST_DEPTH} parentheses within each other")
        if inside > MOST_INSIDE:
            raise token.refused(f"there are more than {MOST_INSIDE} words and marks within parentheses")


def _check_order(found: Sequence[Statement]) -> None:
    """The version once, and libraries before all that may use them: Cirq's gates would replace those defined before."""
    began = False
    for statement in found[1:]:
        head = statement[0]
        if head.text == "OPENQASM":
            raise head.refused("the version is given twice")
        if head.text == "include":
            _check_include(statement)
            if began:
                raise head.refused("`include` stands before all other statements, behind the version")
        else:
            began = True


def _check_include(statement: Statement) -> None:
    name = statement[1] if len(statement) > 1 else statement[0]
    if len(statement) != 3 or name.kind != "string":
        raise name.refused('`include` takes one library: `include "qelib1.inc";`')
    if name.text[1:-1] not in _LIBRARIES:
        raise name.refused(f"{name.text[:80]} is not known: there are qelib1.inc and stdgates.inc")


def _check_blocks(found: Sequence[Statement]) -> None:
    block: Token | None = None
    for statement in found:
        head, end = statement[0], statement[-1]
        match end.text:
            case "{":
                block = _opened(statement, block)
            case "}":
                _check_close(statement, block)
                block = None
            case ";":
                if block is not None and head.text in _NO_GATES:
                    raise head.refused(
                        f"`{head.text}` in the body of `{block.text}`: it has gates and nothing else"
                    )
            case _:
                raise end.refused("the text ends inside of a statement (is a `;` missing?)")
    if block is not None:
        raise block.refused(f"the body of this {block.text} is never closed: a '}}' is missing")


def _opened(statement: Statement, block: Token | None) -> Token:
    head, end = statement[0], statement[-1]
    if head.text not in ("gate", "if"):
        raise end.refused("'{' opens the body of a `gate` or an `if` and nothing else")
    if block is not None:
        hint = (
            "join the conditions with `&&`"
            if head.text == block.text == "if"
            else "it has gates and nothing else"
        )
        raise head.refused(f"`{head.text}` in the body of `{block.text}`: {hint}")
    if head.text == "if" and behind_condition(statement) != len(statement) - 1:
        raise end.refused("'{' stands right behind the condition of `if`")
    return head


def _check_close(statement: Statement, block: Token | None) -> None:
    end = statement[-1]
    if block is None:
        raise end.refused("'}' closes nothing")
    if len(statement) > 1:
        raise end.refused("a `;` is missing before '}'")


def _check_registers(found: Sequence[Statement]) -> None:
    total = 0
    for statement in found:
        if statement[0].text in _REGISTERS:
            total += sum(
                int(token.text) for token in statement if token.kind == "number" and token.text.isdecimal()
            )
            if total > MOST_BITS:
                raise statement[0].refused(f"the registers have more than {MOST_BITS:,} qubits and bits")
