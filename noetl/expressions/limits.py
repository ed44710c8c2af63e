"""What one rendering may cost, and why a template is refused: with a cause, before its source is
known. `compile_template` turns a `Refusal` into a `TemplateError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from noetl.errors import TemplateError, TemplateLimit, TemplateSecurity
from noetl.facts.json import Json
from noetl.facts.reference import Lazy
from noetl.facts.secret import MARK, is_secret


class Refusal(Exception):
    """Becomes an `error`. `cause` completes the sentence "The template … "; `line` counts from 1
    within the template. `word` is the filter, the test or the tag that it is about."""

    error: ClassVar[type[TemplateError]] = TemplateError

    def __init__(self, cause: str, line: int | None = None, hint: str = "", word: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.line = line
        self.hint = hint
        self.word = word


class Broken(Refusal):
    """The template cannot be read, or does not fit its data."""


class OverLimit(Refusal):
    """The template asks for too many steps, characters or digits."""

    error = TemplateLimit


class Barred(Refusal):
    """The template reaches out of the sandbox."""

    error = TemplateSecurity


def refuse_secret(value: Any, verb: str) -> None:
    """Raises Barred for a secret, whose value could answer alone. `verb` as in "The template
    `...` compares a secret"."""
    if isinstance(value, Mapping) and is_secret(value):
        raise Barred(f"{verb} a secret, whose value is known only inside of a tool call")


def refuse_marked(value: Any) -> None:
    """Raises Barred for a text that a secret will be put into."""
    if isinstance(value, str) and MARK in value:
        raise Barred("changes a text with a secret in it, whose value is known only inside of a tool call")


#: Characters of one template.
MAX_SOURCE = 262_144
#: Units of work, of about a microsecond: a turn of a loop costs two and more, see `Meter.work`.
MAX_WORK = 400_000
#: Characters of one text that a template makes, and of all texts of one rendering.
MAX_TEXT = 10_000_000
MAX_TEXTS = 30_000_000
#: Bits of an integer: below the 4,300 digits that Python prints.
MAX_BITS = 14_000
#: Levels of a template's syntax tree.
MAX_TREE = 150
#: Lists and mappings within one another in a result.
MAX_NESTING = 200
#: Width and precision in format specifications.
MAX_WIDTH = 10_000
#: Digits to round to.
MAX_DIGITS = 300
#: Elements of a lazy list that are held at once. What goes through them one by one may see more.
MAX_HELD = 250_000
#: Characters that one unit of work covers.
_CHARS_PER_UNIT = 512
#: Elements copied or looked at in C that one unit of work covers.
_ITEMS_PER_UNIT = 4


class Meter:
    """The budgets of one rendering; never shared between renderings."""

    __slots__ = ("_chars", "_units", "line")

    def __init__(self) -> None:
        self._units = MAX_WORK
        self._chars = MAX_TEXTS
        self.line = 1

    def open_references(self, value: Json) -> Json:
        """`value` with the references inside of it replaced; itself for one who knows none."""
        return value

    def close_list(self, value: Lazy) -> Json:
        """What stands for a lazy list in plain JSON: the list itself without references."""
        return value.whole()

    def work(self, units: int) -> None:
        """Pay for `units` steps. Raises OverLimit where too few are left."""
        self._units -= units
        # Not `< 0`: a NaN from the template must not disarm the meter.
        if not self._units >= 0:
            raise OverLimit(f"takes more than {MAX_WORK} steps")

    def items(self, count: int) -> None:
        """Pay for copying or comparing `count` elements."""
        self.work(1 + count // _ITEMS_PER_UNIT)

    def walk(self, count: int) -> None:
        """Pay for going into a list or mapping of `count` elements, one by one."""
        self.work(2 + count // _ITEMS_PER_UNIT)

    def read(self, chars: int) -> None:
        """Pay for looking through a text of `chars` characters."""
        if chars > _CHARS_PER_UNIT:
            self.work(chars // _CHARS_PER_UNIT)

    def text(self, chars: int) -> None:
        """Pay for a text of `chars` characters, before it is made. Raises OverLimit."""
        if chars > MAX_TEXT:
            raise OverLimit(f"makes a text of more than {MAX_TEXT} characters")
        self.read(chars)
        self._chars -= chars
        if not self._chars >= 0:
            raise OverLimit(f"makes more than {MAX_TEXTS} characters of text")


def check_bits(bits: int) -> None:
    """Raises OverLimit for integers of more than `MAX_BITS` bits."""
    if bits > MAX_BITS:
        raise OverLimit(f"makes a number of more than {MAX_BITS} bits")


def check_width(width: int) -> None:
    """Raises OverLimit for absurd widths and precisions."""
    if not abs(width) <= MAX_WIDTH:
        raise OverLimit(f"asks for a width of {width}; {MAX_WIDTH} is the most")
