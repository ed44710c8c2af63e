"""Templates of command lines: their text, and where it is written."""

from __future__ import annotations

from noetl.expressions.quoting import Reader
from noetl.expressions.run import Run
from noetl.expressions.statements import Out


class ShellText(str):
    """A template of a command line: `evaluate` writes its values as `ShellOut` does."""

    __slots__ = ()


class ShellOut(Out):
    """Text that a shell will read. What the template itself says is read with it, in order to follow the quotes."""

    __slots__ = ("_bare", "_reader", "_unread")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._reader = Reader()
        self._unread: list[str] = []
        self._bare = False

    def write(self, part: str) -> None:
        if self._bare and part[:1] in ("<", ">"):
            # Without the blank a number would be that of the file which is redirected.
            super().write(" ")
        self._bare = self._bare and not part
        self._unread.append(part)
        super().write(part)

    def insert(self, part: str) -> None:
        self._catch_up()
        self._bare = self._reader.mode in ("", "(") and part.isascii() and part.isdigit()
        super().write(self._reader.value(part))

    def text(self) -> str:
        self._catch_up()
        return super().text()

    def _catch_up(self) -> None:
        # All of it at once: what means something together may be written piece by piece.
        text, self._unread = "".join(self._unread), []
        self._run.work(len(text) // 16)
        self._reader.read(text)
