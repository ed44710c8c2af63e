"""A template in its pieces: texts, and the expressions between them."""

from __future__ import annotations

from jinja2.exceptions import TemplateSyntaxError

from noetl.expressions.grammar import is_template
from noetl.expressions.limits import MAX_SOURCE
from noetl.expressions.run import SANDBOX


def pieces(source: str) -> tuple[str, ...]:
    """`source` cut before and behind every `{{ ... }}`; joined they are `source` again.

    What cannot be cut is one piece: templates with statements, comments or control of white space, where a piece
    means something only beside the others, and what cannot be read.
    """
    if len(source) > MAX_SOURCE or not is_template(source):
        return (source,)
    found: list[str] = []
    inside = False
    try:
        for _, kind, text in SANDBOX.lex(source):
            if not inside and kind not in ("data", "variable_begin"):
                return (source,)
            if inside:
                found[-1] += text
            else:
                found.append(text)
            if kind in ("variable_begin", "variable_end"):
                inside = kind == "variable_begin"
                if text not in ("{{", "}}"):
                    return (source,)
    except (TemplateSyntaxError, RecursionError):
        return (source,)
    # The lexer has one kind of line end.
    return tuple(found) if not inside and "".join(found) == source else (source,)
