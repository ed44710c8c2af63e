"""OpenQASM as Cirq's parser takes it: one statement a line, so that whatever it refuses has a place.

Comments, barriers and spellings that Cirq does not know and that have another one are rewritten; what it does not know at
all is refused here, by name. Languages: arXiv:1707.03429 (OpenQASM 2), https://openqasm.com (OpenQASM 3).
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.errors import ToolError

#: Characters of a text, qubits and bits of its registers, digits of a whole number.
MOST_TEXT: Final = 4 * 1024 * 1024
MOST_BITS: Final = 10_000
MOST_DIGITS: Final = 15

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"[^"\n]*"|'[^'\n]*')
    |(?P<number>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>->|==|&&|\*\*|.)""",
    re.VERBOSE | re.DOTALL,
)
_VERSIONS: Final = {"2": "2.0", "2.0": "2.0", "3": "3.0", "3.0": "3.0", "3.1": "3.0"}
_LIBRARIES: Final = {"qelib1.inc", "stdgates.inc"}
_REGISTERS: Final = frozenset({"qreg", "creg", "qubit", "bit"})
_MARKS: Final = frozenset(["->", "==", "&&", *"{}[]();,+/*-^="])

_CLASSICAL: Final = "nothing is computed beside the circuit: write the value itself, or put it into `params`"
_UNROLLED: Final = "write each round, or make the circuit in `code`"
_TIMED: Final = "circuits have no timing here: leave it away"
_DEFINED: Final = "define a `gate`, or make the circuit in `code`"
_CONTROLLED: Final = "write a gate that is controlled by itself, such as cx, ccx, crz or cu3"
#: Words that begin statements of the languages which no circuit here can have, and what to write instead.
_UNKNOWN: Final = {
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
}
_WRONG_MARKS: Final = {
    "@": f"modifiers of gates are not known: {_CONTROLLED}",
    "**": "powers are not known: write the value itself",
    ":": "ranges of registers are not known: name each qubit, or the whole register",
    "#": "pragmas are not known: leave it away",
}


class QasmError(ToolError):
    """A text is refused. The message names its line and column."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(
            "client_error",
            f"The OpenQASM is refused at line {line}, column {column}: {what}.",
            type="QasmError",
            line=line,
        )


@dataclass(frozen=True, slots=True)
class Token:
    """A word, number, string or mark; `line` and `column` count from 1."""

    kind: str
    text: str
    line: int
    column: int

    def refused(self, what: str) -> QasmError:
        return QasmError(what, self.line, self.column)


Statement = tuple[Token, ...]


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

    def of_line(self, line: int) -> Statement:
        """The statement on a line of `text`, from 1; the nearest where there is none."""
        return self.statements[min(max(line, 1), len(self.statements)) - 1]


def _spelled(token: Token) -> str:
    # Cirq's lexer knows no 12.5e3; what python prints it knows.
    if token.kind == "number" and not token.text.isdecimal():
        return repr(float(token.text))
    return token.text


def program(text: str) -> Program:
    """Raises QasmError."""
    if len(text) > MOST_TEXT:
        raise QasmError(f"it has more than {MOST_TEXT:,} characters", 1, 1)
    tokens = list(_tokens(text.removeprefix("\ufeff")))
    version = _version(tokens)
    statements = list(_statements(tokens))
    for statement in statements[1:]:
        _check_words(statement, version)
    _check_order(statements)
    _check_blocks(statements)
    _check_registers(statements)
    rewritten = [done for statement in statements[1:] for done in _rewritten(statement)]
    return Program(version, [statements[0], *rewritten])


def _tokens(text: str) -> Iterator[Token]:
    line, begin = 1, 0
    for match in _TOKEN.finditer(text):
        kind, found = str(match.lastgroup), match[0]
        if kind != "space":
            token = Token(kind, found, line, match.start() - begin + 1)
            _check_token(token, text[match.end() : match.end() + 1])
            yield token
        if "\n" in found:
            line += found.count("\n")
            begin = match.start() + found.rindex("\n") + 1


def _check_token(token: Token, behind: str) -> None:
    if token.text == "/" and behind == "*":
        raise token.refused("a comment is never closed")
    if token.kind == "word" and not token.text.isascii():
        known = "write pi" if token.text in ("π", "𝜋") else "names have letters from a to z, digits and _"
        raise token.refused(f"{token.text!r} is not known here: {known}")
    if token.kind == "number":
        _check_number(token, behind)


def _check_number(token: Token, behind: str) -> None:
    if not token.text.isascii() or behind.isalnum() or behind == "_":
        raise token.refused(f"'{token.text}{behind}' is no number: numbers are decimal and have no unit")
    if token.text.isdecimal() and len(token.text) > MOST_DIGITS:
        raise token.refused(f"a whole number has more than {MOST_DIGITS} digits")
    if not token.text.isdecimal() and not math.isfinite(float(token.text)):
        raise token.refused(f"{token.text[:40]} is too large a number")


def _version(tokens: Sequence[Token]) -> str:
    first = tokens[0] if tokens else Token("mark", "", 1, 1)
    if first.text != "OPENQASM":
        raise first.refused("it does not begin with `OPENQASM 2.0;` or `OPENQASM 3.0;`")
    given = tokens[1] if len(tokens) > 1 else first
    if given.text not in _VERSIONS:
        raise given.refused(f"the version is {given.text!r}, and 2.0 and 3.0 are known")
    if len(tokens) < 3 or tokens[2].text != ";":
        raise given.refused("a `;` is missing behind the version")
    return _VERSIONS[given.text]


def _statements(tokens: Sequence[Token]) -> Iterator[Statement]:
    current: list[Token] = []
    for token in tokens:
        current.append(token)
        if token.text in (";", "{", "}"):
            if current != [token] or token.text != ";":
                yield tuple(current)
            current = []
    if current:
        yield tuple(current)


def _check_order(statements: Sequence[Statement]) -> None:
    """The version once, and libraries before all that may use them: Cirq's gates would replace those defined before."""
    began = False
    for statement in statements[1:]:
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
    name = statement[1]
    if len(statement) != 3 or name.kind != "string":
        raise name.refused('`include` takes one library: `include "qelib1.inc";`')
    if name.text[1:-1] not in _LIBRARIES:
        raise name.refused(f"{name.text} is not known: there are qelib1.inc and stdgates.inc")


def _check_blocks(statements: Sequence[Statement]) -> None:
    gate: Token | None = None
    for statement in statements:
        head, end = statement[0], statement[-1]
        if end.text == "{":
            if head.text == "if":
                raise end.refused("`if` takes one gate: write `if (c == 1) x q[0];` for each")
            if head.text != "gate" or gate is not None:
                raise end.refused("'{' opens the body of a `gate` and nothing else")
            gate = head
        elif end.text == "}":
            if gate is None:
                raise end.refused("'}' closes nothing")
            if len(statement) > 1:
                raise end.refused("a `;` is missing before '}'")
            gate = None
        elif end.text != ";":
            raise end.refused("the text ends inside of a statement; is a `;` missing?")
    if gate is not None:
        raise gate.refused("the body of this gate is never closed: a '}' is missing")


def _check_registers(statements: Sequence[Statement]) -> None:
    total = 0
    for statement in statements:
        if statement[0].text in _REGISTERS:
            total += sum(
                int(token.text) for token in statement if token.kind == "number" and token.text.isdecimal()
            )
        if total > MOST_BITS:
            raise statement[0].refused(f"the registers have more than {MOST_BITS:,} qubits and bits")


def _check_words(statement: Statement, version: str) -> None:
    head = statement[0]
    if head.text in _UNKNOWN:
        raise head.refused(f"`{head.text}` is not known: {_UNKNOWN[head.text]}")
    for token in statement:
        if token.kind == "mark" and token.text not in _MARKS:
            raise token.refused(_WRONG_MARKS.get(token.text, f"{token.text!r} is not known here"))
        if token.kind == "string" and head.text != "include":
            raise token.refused("text in quotes stands behind `include` only")
        if token.text == "^" and version == "3.0":
            raise token.refused("`^` is a bitwise operation in OpenQASM 3 and is not known: write the value")


def _rewritten(statement: Statement) -> Iterator[Statement]:
    """The statement as Cirq knows it: none, one or several."""
    words = [token.text for token in statement]
    if words[0] == "barrier":
        # It orders what a compiler may move, and nothing here moves what shares a qubit.
        return
    if words[0] == "input" and len(words) > 2 and words[2] != "[":
        kind = statement[1]
        width = [Token("mark", "[", kind.line, kind.column), Token("number", "64", kind.line, kind.column)]
        yield (*statement[:2], *width, Token("mark", "]", kind.line, kind.column), *statement[2:])
    elif words[0] == "bit" and "=" in words:
        place = words.index("=")
        name = statement[place - 1]
        yield (*statement[:place], statement[-1])
        yield (name, *statement[place:])
    else:
        yield tuple(_without_empty(statement))


def _without_empty(statement: Statement) -> Iterator[Token]:
    """`g() q;` is `g q;`."""
    skipped = False
    for token, behind in zip(statement, [*statement[1:], None], strict=True):
        if token.text == "(" and behind is not None and behind.text == ")":
            skipped = True
        elif skipped and token.text == ")":
            skipped = False
        else:
            yield token
