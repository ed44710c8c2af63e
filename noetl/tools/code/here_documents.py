"""Here-documents of a command line: `<<END`, and the line that ends one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from noetl.expressions import Broken

_BEGIN: Final = re.compile(
    r"<<(?P<tabs>-?)[ \t]*(?:'(?P<one>[^'\n]*)'|\"(?P<two>[^\"\n]*)\"|(?P<bare>\\?[\w.+-]+))(?=[\s;&|<>()])"
)
_SPECIAL: Final = re.compile(r"([\\$`])")


@dataclass(frozen=True, slots=True)
class HereDocument:
    """What ends it, whether nothing in it is expanded, whether tabs before its lines go."""

    end: str
    raw: bool
    tabs: bool

    def quote(self, text: str) -> str:
        """How `text` is written into it."""
        return text if self.raw else _SPECIAL.sub(r"\\\1", text)

    def is_ended_by(self, line: str) -> bool:
        return (line.lstrip("\t") if self.tabs else line) == self.end

    def ended(self) -> Broken:
        """What is wrong where a value makes the line that ends it."""
        return Broken(f"puts a value into a here-document that would end it: a line {self.end!r}")


def begin_here_document(text: str, at: int) -> tuple[HereDocument, int] | None:
    """The document that `<<` at `at` begins, and the place behind its name; None where it cannot be
    read."""
    found = _BEGIN.match(text, at)
    if found is None:
        return None
    bare = found["bare"]
    end = bare.removeprefix("\\") if bare else found["one"] or found["two"] or ""
    return HereDocument(end, bare is None or bare != end, bool(found["tabs"])), found.end()
