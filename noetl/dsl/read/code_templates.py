"""Where templates stand in python code: in string literals, in comments, or where python could
never have them."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
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
    for line in code.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    literals, comments, opened = list[Span](), list[Span](), list[int]()
    for token in _tokens(code):
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


def _tokens(code: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(code).readline)
    except (tokenize.TokenError, SyntaxError):
        return
