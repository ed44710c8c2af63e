"""The port through which somebody else says how values are written into a text, such as a command
line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from noetl.expressions.refusals import Broken


class Quoting(Protocol):
    """Follows one text from its beginning to its end. Its parts come in order, the author's and the
    values."""

    def read(self, text: str) -> str:
        """Goes on with what the author wrote; returns it as it is to stand in the text. Raises
        Broken."""

    def value(self, text: str) -> str:
        """How a value is written at this place. Raises Broken where it could be read as something
        else."""


#: Begins a text.
BeginQuoting: TypeAlias = Callable[[], Quoting]


class NoQuoting:
    """Of a process in which nobody says how values are quoted: a text may have none."""

    def read(self, text: str) -> str:
        return text

    def value(self, text: str) -> str:  # noqa: ARG002  # whatever it is
        """Raises Broken where no value can stand at this place."""
        raise Broken("puts a value into a command line, and this process does not know how to quote it")


class QuotedText(str):
    """A template that `evaluate` renders, where it is mixed text, with its values written as
    `begin()` says."""

    __slots__ = ("begin",)
    begin: BeginQuoting

    def __new__(cls, template: str, begin: BeginQuoting) -> QuotedText:
        made = super().__new__(cls, template)
        made.begin = begin
        return made
