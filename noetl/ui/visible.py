"""Templates show every text with what cannot be seen in it made visible: names, messages and
whatever else people and executions say.

What a browser sends back, follows or finds elements by is written as it is: the attributes of
elements, but for those that people read, and the text in a field of a form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jinja2 import Environment
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup, escape

from noetl.ui.json_text import make_visible

#: Attributes whose text people read, or have read to them.
_READ: Final = frozenset({"alt", "aria-description", "aria-label", "aria-valuetext", "placeholder", "title"})
#: An attribute that is still open where the text of a template is interrupted.
_OPEN: Final = re.compile(r'([\w-]+)="[^"]*\Z')
_AREA: Final = re.compile(r"<(/?)textarea\b")
_FILTER: Final = "exact"


class VisibleText(Extension):
    """Has templates write texts as `make_visible` has them, where people read them. Markup is as it
    is: what is in it went through a template already."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.finalize = _show
        environment.filters[_FILTER] = escape

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """The template with `exact` around each expression that nobody reads."""
        place, is_exact = _Place(), False
        for token in stream:
            if token.type == "data":
                place.pass_text(token.value)
            elif token.type == "variable_begin":
                is_exact = place.is_exact
            if is_exact and token.type == "variable_end":
                yield from (Token(token.lineno, kind, value) for kind, value in _CLOSE)
            yield token
            if is_exact and token.type == "variable_begin":
                yield Token(token.lineno, "lparen", "(")


_CLOSE: Final = (("rparen", ")"), ("pipe", "|"), ("name", _FILTER))


def _show(value: Any) -> Any:
    return make_visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class _Place:
    """Where in the HTML of a template an expression stands, as far as the text before it tells."""

    def __init__(self) -> None:
        self._attribute = ""
        self._is_area = self._is_inside = False

    def pass_text(self, text: str) -> None:
        """Goes on behind `text`."""
        if found := _OPEN.search(text):
            self._attribute = found[1]
        elif '"' in text:
            self._attribute = ""
        for tag in _AREA.finditer(text):
            self._is_area = not tag[1]
        self._is_inside = self._is_area and text.rstrip().endswith(">")

    @property
    def is_exact(self) -> bool:
        """Whether what stands there is for the browser."""
        return self._is_inside or (self._attribute != "" and self._attribute not in _READ)
