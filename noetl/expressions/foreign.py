"""What people write who come from other languages, in templates that cannot be parsed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PIECE: Final = re.compile(r"\{\{(.*?)(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: The first that is found is told.
_HINTS: Final = (
    (re.compile(r"\{\{"), "one pair of braces is enough"),
    (re.compile(r"&&"), "write `and`"),
    (re.compile(r"\|\|"), "write `or`"),
    (re.compile(r"[=!]=="), "write `==` or `!=`"),
    (re.compile(r"\$"), "names stand without $"),
    (re.compile(r"\?"), "write `a if condition else b`, or default(...)"),
    (re.compile(r"!(?!=)"), "write `not`"),
    (re.compile(r"^[^(]*(?<![=!<>])=(?!=)"), "write `==` to compare"),
)


def hint_at_foreign(source: str, bare: bool) -> str:
    """How what is meant is written here; empty where nothing foreign is seen. With `bare`, `source`
    is an expression."""
    for piece in (source,) if bare else _expressions(source):
        code = _TEXT.sub("''", piece)
        for pattern, hint in _HINTS:
            if pattern.search(code):
                return hint
    return ""


def _expressions(source: str) -> Iterator[str]:
    return (found[1] for found in _PIECE.finditer(source) if found[1] is not None)
