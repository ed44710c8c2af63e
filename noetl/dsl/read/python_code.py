"""Python code: its syntax tree or why it has none, and where templates stand in it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
#: From Python 3.12 on f-strings come in pieces.
_F_STARTS: Final = getattr(tokenize, "FSTRING_START", -1)
_F_ENDS: Final = getattr(tokenize, "FSTRING_END", -1)

#: From where to where, in characters of the code.
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why code is not python: `line` and `column` count from 1."""

    line: int
    column: int
    message: str


@lru_cache(maxsize=32)
def parse_python(code: str) -> ast.Module | Fault:
    """The syntax tree of python code, which must not be changed."""
    try:
        with warnings.catch_warnings():
            # Invalid escapes in strings warn; they are the author's business, not a problem.
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except SyntaxError as error:
        return Fault(max(error.lineno or 1, 1), max(error.offset or 1, 1), error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return Fault(1, 1, str(error) or "nested too deeply")


@dataclass(frozen=True, slots=True)
class Templates:
    """Those outside of string literals and comments, and the comments."""

    code: tuple[Span, ...]
    comments: tuple[Span, ...]


@lru_cache(maxsize=32)
def templates_between(code: str) -> Templates:
    """The templates of `code` that are neither in a literal nor in a comment, and where comments
    stand."""
    if "{{" not in code and "{%" not in code:
        return Templates((), ())
    literals, comments = _spans(code)
    found = [
        one.span()
        for one in _TEMPLATE.finditer(code)
        if not any(start <= one.start() < end for start, end in (*literals, *comments))
    ]
    return Templates(tuple(found), tuple(comments))


def _spans(code: str) -> tuple[list[Span], list[Span]]:
    """Literals and comments, as far as the code can be read."""
    starts = [0]
    for line in io.StringIO(code):
        starts.append(starts[-1] + len(line))
    literals, comments, opened = list[Span](), list[Span](), list[int]()
    # What follows what cannot be read is not looked at.
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            span = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
            if token.type == tokenize.COMMENT:
                comments.append(span)
            elif token.type == tokenize.STRING:
                literals.append(span)
            elif token.type == _F_STARTS:
                opened.append(span[0])
            elif token.type == _F_ENDS and opened:
                literals.append((opened.pop(), span[1]))
    return literals, comments
