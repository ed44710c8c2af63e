"""What a template writes and binds while it is rendered: text, quoted where a port says how, and
variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from noetl.expressions.limits import MAX_TEXT, Broken, Meter, OverLimit
from noetl.expressions.rendering import Rendering


class Quoting(Protocol):
    """Follows one text from its beginning to its end. Its parts come in order, the author's and the
    values."""

    def read(self, text: str) -> str:
        """Takes what the author wrote next; returns it as it is to stand in the text. Raises
        Broken."""

    def value(self, text: str) -> str:
        """How a value is written at this place. Raises Broken where it could be read as something
        else."""


#: Begins a text.
BeginQuoting: TypeAlias = Callable[[], Quoting]


class NoQuoting:
    """For a process that does not know how values are quoted: a text may have none."""

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


#: Characters of a quoted text that one unit of work covers.
_READ_PER_UNIT = 16


class TextOutput:
    """Text that grows: at most `MAX_TEXT` characters. What expressions yield is written as
    `quoting` says, where there is one."""

    __slots__ = ("_meter", "_parts", "_quoting", "_size", "_unread")

    def __init__(self, meter: Meter, quoting: Quoting | None = None) -> None:
        self._meter = meter
        self._quoting = quoting
        self._parts: list[str] = []
        self._size = 0
        #: The first part that `quoting` has not read.
        self._unread = 0

    def write(self, part: str) -> None:
        """Appends what the template itself says. Raises OverLimit."""
        self._meter.text(len(part))
        self._size += len(part)
        if self._size > MAX_TEXT:
            raise OverLimit(f"makes a text of more than {MAX_TEXT} characters")
        self._parts.append(part)

    def insert(self, part: str) -> None:
        """Appends what an expression yielded."""
        if self._quoting is not None:
            self._read(self._quoting)
            part = self._quoting.value(part)
        self.write(part)
        self._unread = len(self._parts)

    def text(self) -> str:
        """All of it. To be called once, at the end."""
        if self._quoting is not None:
            self._read(self._quoting)
        return "".join(self._parts)

    def _read(self, quoting: Quoting) -> None:
        # All of it at once: what means something together may be written piece by piece.
        text = "".join(self._parts[self._unread :])
        self._meter.work(len(text) // _READ_PER_UNIT)
        self._parts[self._unread :] = [quoting.read(text)]


_MISSING: Final = object()


class Scope:
    """The names that a template has bound, innermost first, and the rendering that they belong
    to."""

    __slots__ = ("_parent", "run", "variables")

    def __init__(self, run: Rendering, parent: Scope | None = None) -> None:
        self.run = run
        self.variables: dict[str, Any] = {}
        self._parent = parent

    def inner(self) -> Scope:
        """A scope within this one."""
        return Scope(self.run, self)

    def lookup(self, name: str) -> Any:
        """What the template bound to `name`, else what it was given."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.variables.get(name, _MISSING)
            if value is not _MISSING:
                return value
            scope = scope._parent
        return self.run.name(name)


#: A compiled expression, a compiled statement, and a compiled target of an assignment.
Eval: TypeAlias = Callable[[Scope], Any]
Render: TypeAlias = Callable[[Scope, TextOutput], None]
Bind: TypeAlias = Callable[[Scope, Any], None]
