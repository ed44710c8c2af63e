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


#: Characters of a quoted text that one unit of work covers.
_READ_PER_UNIT = 16


class Out:
    """Text that grows: at most `MAX_TEXT` characters."""

    __slots__ = ("_meter", "_parts", "_size")

    def __init__(self, meter: Meter) -> None:
        self._parts: list[str] = []
        self._meter = meter
        self._size = 0

    def write(self, part: str) -> None:
        """Goes on with what the template itself says."""
        self._pay(part)
        self._parts.append(part)

    def insert(self, part: str) -> None:
        """Goes on with what an expression yielded."""
        self.write(part)

    def text(self) -> str:
        """All of it."""
        return "".join(self._parts)

    def _pay(self, part: str) -> None:
        self._meter.text(len(part))
        self._size += len(part)
        if self._size > MAX_TEXT:
            raise OverLimit(f"makes a text of more than {MAX_TEXT} characters")


class QuotedOut(Out):
    """Text whose values are written as `quoting` says."""

    __slots__ = ("_quoting", "_unread")

    def __init__(self, meter: Meter, quoting: Quoting) -> None:
        super().__init__(meter)
        self._quoting = quoting
        self._unread: list[str] = []

    def write(self, part: str) -> None:
        self._pay(part)
        self._unread.append(part)

    def insert(self, part: str) -> None:
        self._catch_up()
        super().write(self._quoting.value(part))

    def text(self) -> str:
        self._catch_up()
        return super().text()

    def _catch_up(self) -> None:
        # All of it at once: what means something together may be written piece by piece.
        text, self._unread = "".join(self._unread), []
        self._meter.work(len(text) // _READ_PER_UNIT)
        self._parts.append(self._quoting.read(text))


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
Render: TypeAlias = Callable[[Scope, Out], None]
Bind: TypeAlias = Callable[[Scope, Any], None]
