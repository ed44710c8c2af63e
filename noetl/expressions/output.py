"""The text that a template writes, paid for as it grows."""

from __future__ import annotations

from noetl.expressions.limits import MAX_TEXT, Meter
from noetl.expressions.quoting import Quoting
from noetl.expressions.refusals import OverLimit

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
