"""OpenQASM as words and marks, and as statements. Languages: arXiv:1707.03429 (OpenQASM 2), https://openqasm.com (3)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

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
_PI: Final = frozenset("π𝜋")


class QasmError(ToolError):
    """A text is refused. The message names its line and column."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(
            "client_error",
            f"The OpenQASM is refused at line {line}, column {column}: {what}.",
            type="QasmError",
            line=line,
        )


class Token(NamedTuple):
    """A word, number, string or mark; `line` and `column` count from 1."""

    kind: str
    text: str
    line: int
    column: int

    def refused(self, what: str) -> QasmError:
        return QasmError(what, self.line, self.column)

    def instead(self, kind: str, text: str) -> Token:
        """Another one in its place."""
        return Token(kind, text, self.line, self.column)


Statement = tuple[Token, ...]


def statements(text: str) -> tuple[str, list[Statement]]:
    """The version, `2.0` or `3.0`, and the statements, that of the version first. Raises QasmError."""
    if len(text) > MOST_TEXT:
        raise QasmError(f"it has more than {MOST_TEXT:,} characters", 1, 1)
    tokens = list(_tokens(text.removeprefix("\ufeff")))
    return _version(tokens), list(_split(tokens))


def _tokens(text: str) -> Iterator[Token]:
    line, begin, left = 1, 0, MOST_TOKENS
    for match in _TOKEN.finditer(text):
        kind, found, start = str(match.lastgroup), match[0], match.start()
        if kind != "space":
            token = Token(kind, found, line, start - begin + 1)
            if found not in _SURE:
                _check_token(token, text, match.end())
            yield token
            left -= 1
            if left < 0:
                raise token.refused(f"the text has more than {MOST_TOKENS:,} words and marks")
        if "\n" in found:
            line += found.count("\n")
            begin = start + found.rindex("\n") + 1


def _check_token(token: Token, text: str, end: int) -> None:
    match token.kind:
        case "number":
            _check_number(token, text[end : end + 1])
        case "word":
            _check_word(token)
        case "mark" if token.text == "/" and text[end : end + 1] == "*":
            raise token.refused("a comment is never closed: `*/` is missing")


def _check_word(token: Token) -> None:
    if len(token.text) > MOST_NAME:
        raise token.refused(f"a name has more than {MOST_NAME} characters")
    if not token.text.isascii() and token.text not in _PI:
        raise token.refused(f"{token.text!r} is not known here: names have letters from a to z, digits and _")


def _check_number(token: Token, behind: str) -> None:
    if not token.text.isascii() or behind.isalnum() or behind == "_":
        shown = f"{token.text[:40]}{behind}"
        raise token.refused(f"{shown!r} is no number: numbers are decimal and have no unit")
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
        raise given.refused(f"the version is {given.text[:40]!r}, and 2.0 and 3.0 are known")
    if len(tokens) < 3 or tokens[2].text != ";":
        raise given.refused("a `;` is missing behind the version")
    version = _VERSIONS[given.text]
    for token in tokens:
        if version == "2.0" and token.text in _PI:
            raise token.refused(f"{token.text!r} is not known in OpenQASM 2: write pi")
    return version


def _split(tokens: Sequence[Token]) -> Iterator[Statement]:
    """Statements end with `;`, the head of a block with `{`; `}` is one by itself. Empty ones are left out."""
    current: list[Token] = []
    for token in tokens:
        current.append(token)
        if token.text in (";", "{", "}"):
            if current != [token] or token.text != ";":
                yield tuple(current)
            current = []
    if current:
        yield tuple(current)
