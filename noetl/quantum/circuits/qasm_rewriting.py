"""Statements of OpenQASM in spellings that Cirq's parser does not know, in those that it knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from noetl.quantum.circuits.qasm_text import Statement, Token

#: What to write where a condition is another one.
CONDITIONS: Final = "conditions are `c == 1`, `c[0]`, `!c[0]`, joined by `&&`"
_BITS: Final = {"true": "1", "false": "0"}


def behind_condition(statement: Statement) -> int:
    """Where an `if` goes on behind its condition; its end where that is never closed."""
    closed = (place for place, token in enumerate(statement) if token.text == ")")
    return min(next(closed, len(statement)) + 1, len(statement) - 1)


def unfolded(found: Sequence[Statement]) -> Iterator[Statement]:
    """`if (c == 1) { a; b; }` is `if (c == 1) a; if (c == 1) b;`: gates do not change `c`."""
    condition: Statement | None = None
    for statement in found:
        if statement[0].text == "if" and statement[-1].text == "{":
            condition = statement[:-1]
        elif condition is None:
            yield statement
        elif statement[-1].text == "}":
            condition = None
        else:
            yield (*condition, *statement)


def rewritten(statement: Statement) -> Iterator[Statement]:
    """The statement as Cirq knows it: none, one or several."""
    words = [token.text for token in statement]
    match words[0]:
        case "barrier" if len(words) == 2:
            return
        case "input" if len(words) > 2 and words[2] != "[":
            kind = statement[1]
            width = [kind.instead("mark", "["), kind.instead("number", "64"), kind.instead("mark", "]")]
            yield (*statement[:2], *width, *statement[2:])
        case "bit" if "=" in words:
            place = words.index("=")
            yield (*statement[:place], statement[-1])
            yield (statement[place - 1], *statement[place:])
        case "if" if words[1] == "(":
            close = behind_condition(statement) - 1
            yield (*statement[:2], *_conditions(statement[2:close]), *_without_empty(statement[close:]))
        case _:
            yield tuple(_without_empty(statement))


def _conditions(tokens: Statement) -> Iterator[Token]:
    term: list[Token] = []
    for token in tokens:
        if token.text == "&&":
            yield from (*_comparison(term), token)
            term = []
        else:
            term.append(token)
    yield from _comparison(term)


def _comparison(term: Sequence[Token]) -> Iterator[Token]:
    """`c[0]` is `c[0] == 1`, `!c[0]` is `c[0] == 0`, and bits are `true` or `false` too."""
    words = [token.text for token in term]
    match words:
        case ["!", _, "[", _, "]"]:
            yield from (*term[1:], term[-1].instead("mark", "=="), term[-1].instead("number", "0"))
        case [_, "[", _, "]"]:
            yield from (*term, term[-1].instead("mark", "=="), term[-1].instead("number", "1"))
        case [*_, "==", "true" | "false" as bit]:
            yield from (*term[:-1], term[-1].instead("number", _BITS[bit]))
        case _ if "!" in words:
            raise term[words.index("!")].refused(CONDITIONS)
        case _:
            yield from term


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
