"""Splits OpenQASM into words and marks, and reads them one after another. Languages:
arXiv:1707.03429 (OpenQASM 2), https://openqasm.com (3)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from noetl.errors import ToolError

#: Characters, and words and marks, of a text; characters of a name, digits of a whole number.
MOST_TEXT: Final = 4 * 1024 * 1024
MOST_TOKENS: Final = 500_000
MOST_NAME: Final = 200
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
_SURE: Final = frozenset("[](){};,")
_GREEK_PI: Final = frozenset("π𝜋")
#: Words that stand for a number.
PI: Final = _GREEK_PI | {"pi"}
#: Marks that the grammar has a use for in some place.
MARKS: Final = frozenset(["->", "==", "&&", "**", *"{}[]();,+/*-^=!"])
_CLASSICAL: Final = "nothing is computed beside the circuit: write the value itself, or put it into `params`"
_UNROLLED: Final = "write each round, or make the circuit in `code`"
_TIMED: Final = "circuits have no timing here: leave it away"
_DEFINED: Final = "define a `gate`, or make the circuit in `code`"
_CONTROLLED: Final = "write a gate that is controlled by itself, such as cx, ccx, crz or cu3"
#: Words that begin statements of the languages which no circuit here can have, and what to write
#: instead.
UNKNOWN_WORDS: Final = {
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

REGISTERS: Final = frozenset({"qreg", "creg", "qubit", "bit"})
NO_GATES: Final = REGISTERS | {"measure", "reset", "if", "input", "gate"}
#: Words that are no names.
_RESERVED: Final = NO_GATES | PI | {"float", "angle"}
#: The mark of powers, by version.
POWERS: Final = {"2.0": "^", "3.0": "**"}
CONDITIONS: Final = "conditions are `c == 1`, `c[0]`, `!c[0]`, joined by `&&`"
#: Marks of the languages that stand nowhere here, and what to write instead.
_UNKNOWN_MARKS: Final = {
    "@": "modifiers of gates are not known: write a gate that is controlled by itself, such as cx, ccx, crz "
    "or cu3",
    "**": "powers are not known as `**` in OpenQASM 2: write `^`",
    "^": "`^` is a bitwise operation in OpenQASM 3 and is not known: powers are `**`",
    ":": "ranges of registers are not known: name each qubit, or the whole register",
    "#": "pragmas are not known: leave it away",
    "$": "'$' is not known here: a circuit has registers, as in `qubit[2] q;`, and no qubits of a machine",
    **dict.fromkeys(("!", "<", ">", "|", "&", "~"), CONDITIONS),
}
#: What no statement begins with, and why.
_NO_BEGINNINGS: Final = {
    **{word: f"`{word}` is not known: {instead}" for word, instead in UNKNOWN_WORDS.items()},
    "@": "annotations are not known: leave it away",
    "}": "'}' closes nothing",
    "OPENQASM": "the version is given twice",
}
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

T = TypeVar("T")


class QasmError(ToolError):
    """A text is refused. The message names its line and column."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(
            "client_error",
            f"The OpenQASM is refused at line {line}, column {column}: {what}.",
            type="QasmError",
            line=line,
        )


class QasmToken(NamedTuple):
    """A word, number, string or mark; `line` and `column` count from 1."""

    kind: str
    text: str
    line: int
    column: int

    def error(self, what: str) -> QasmError:
        return QasmError(what, self.line, self.column)


def tokenize(text: str) -> tuple[str, list[QasmToken]]:
    """The version, `2.0` or `3.0`, and what follows it. Raises QasmError."""
    if len(text) > MOST_TEXT:
        raise QasmError(f"it has more than {MOST_TEXT:,} characters", 1, 1)
    tokens = list(_scan(text.removeprefix("\ufeff")))
    version = _read_version(tokens)
    # The end has the place of the last token.
    return version, [*tokens[3:], tokens[-1]._replace(kind="end", text="")]


def _scan(text: str) -> Iterator[QasmToken]:
    line, begin, left = 1, 0, MOST_TOKENS
    for match in _TOKEN.finditer(text):
        kind, found, start = str(match.lastgroup), match[0], match.start()
        if kind != "space":
            token = QasmToken(kind, found, line, start - begin + 1)
            if found not in _SURE:
                _check_token(token, text, match.end())
            yield token
            left -= 1
            if left < 0:
                raise token.error(f"the text has more than {MOST_TOKENS:,} words and marks")
        if "\n" in found:
            line += found.count("\n")
            begin = start + found.rindex("\n") + 1


def _check_token(token: QasmToken, text: str, end: int) -> None:
    match token.kind:
        case "number":
            _check_number(token, text[end : end + 1])
        case "word":
            _check_word(token)
        case "mark" if token.text == "/" and text[end : end + 1] == "*":
            raise token.error("a comment is never closed: `*/` is missing")


def _check_word(token: QasmToken) -> None:
    if len(token.text) > MOST_NAME:
        raise token.error(f"a name has more than {MOST_NAME} characters")
    if not token.text.isascii() and token.text not in _GREEK_PI:
        raise token.error(f"{token.text!r} is not known here: names have letters from a to z, digits and _")


def _check_number(token: QasmToken, behind: str) -> None:
    if not token.text.isascii() or behind.isalnum() or behind == "_":
        shown = f"{token.text[:40]}{behind}"
        raise token.error(f"{shown!r} is no number: numbers are decimal and have no unit")
    if token.text.isdecimal() and len(token.text) > MOST_DIGITS:
        raise token.error(f"a whole number has more than {MOST_DIGITS} digits")
    if not token.text.isdecimal() and not math.isfinite(float(token.text)):
        raise token.error(f"{token.text[:40]} is too large a number")


def _read_version(tokens: Sequence[QasmToken]) -> str:
    first = tokens[0] if tokens else QasmToken("mark", "", 1, 1)
    if first.text != "OPENQASM":
        raise first.error("it does not begin with `OPENQASM 2.0;` or `OPENQASM 3.0;`")
    given = tokens[1] if len(tokens) > 1 else first
    if given.text not in _VERSIONS:
        raise given.error(f"the version is {given.text[:40]!r}, and 2.0 and 3.0 are known")
    if len(tokens) < 3 or tokens[2].text != ";":
        raise given.error("a `;` is missing behind the version")
    version = _VERSIONS[given.text]
    for token in tokens:
        if version == "2.0" and token.text in _GREEK_PI:
            raise token.error(f"{token.text!r} is not known in OpenQASM 2: write pi")
    return version


class TokenReader:
    """Goes through the tokens of a text, from statement to statement."""

    def __init__(self, version: str, tokens: Sequence[QasmToken]) -> None:
        self._version = version
        self._tokens = tokens
        self._at = 0
        self._head = tokens[0]

    @property
    def _token(self) -> QasmToken:
        """The next one, which stays."""
        return self._tokens[self._at]

    @property
    def _behind(self) -> QasmToken:
        """The one behind it."""
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    def _next(self) -> QasmToken:
        token = self._token
        self._at += token.kind != "end"
        return token

    def _begin(self) -> QasmToken:
        """The first token of a statement, which stays."""
        self._head = self._token
        if self._head.text in _NO_BEGINNINGS:
            raise self._head.error(_NO_BEGINNINGS[self._head.text])
        return self._head

    def _accept(self, text: str) -> bool:
        found = self._token.text == text and self._token.kind != "end"
        self._at += found
        return found

    def _expect(self, *texts: str) -> QasmToken:
        if self._token.text not in texts:
            raise self._make_refusal()
        return self._next()

    def _read_name(self) -> QasmToken:
        if self._token.kind != "word" or self._token.text in _RESERVED:
            raise self._make_refusal()
        return self._next()

    def _read_names(self) -> list[str]:
        return [name.text for name in self._read_list(self._read_name, ",")]

    def _read_list(self, read: Callable[[], T], mark: str) -> Iterator[T]:
        """What stands between marks, one or more."""
        yield read()
        while self._accept(mark):
            yield read()

    def _read_number(self) -> int:
        if not self._token.text.isdecimal():
            raise self._make_refusal()
        return int(self._next().text)

    def _read_index(self) -> int:
        """`[2]`"""
        self._expect("[")
        number = self._read_number()
        self._expect("]")
        return number

    def _make_refusal(self) -> QasmError:
        """The next token, for which the grammar has no use here."""
        token, text, head = self._token, self._token.text, self._head.text
        unknown = text in _UNKNOWN_MARKS and text != POWERS[self._version]
        match token.kind, text:
            case "end", _:
                return token.error("the text ends inside of a statement (is a `;` missing?)")
            case "mark", _ if unknown:
                return token.error(_UNKNOWN_MARKS[text])
            case "mark", _ if text not in MARKS:
                return token.error(f"{text!r} is not known here")
            case "string", _:
                return token.error("text in quotes stands behind `include` only")
            case _, "{" if head not in ("gate", "if"):
                return token.error("'{' opens the body of a `gate` or an `if` and nothing else")
            case _, "}":
                return token.error("a `;` is missing before '}'")
        before = self._tokens[self._at - 1]
        is_new_line = token is not self._head and before.line < token.line
        shape = _SHAPES.get(head, "`cx q[0], q[1];` or `rx(pi/2) q[0];`")
        hint = " (is a `;` missing before it?)" if is_new_line else f": what is known is {shape}"
        return token.error(f"{text!r} is not expected here{hint}")
