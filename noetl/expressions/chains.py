"""Names with attributes: what most templates are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

#: Names that are written behind a dot; others stand in brackets.
_WORD: Final = re.compile(r"[^\W\d][\w-]*")
_STEP: Final = re.compile(r"""\.([^\W\d][\w-]*)|\[(?P<index>-?[0-9]{1,9})\]|\['([^']+)'\]|\["([^"]+)"\]""")
_PATH: Final = re.compile(f"({_STEP.pattern})+")


@dataclass(frozen=True, slots=True)
class Chain:
    """`head.part.part`: a name, then attributes and constant items."""

    head: str
    parts: tuple[str | int, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return (self.head, *map(str, self.parts))


def path_text(parts: tuple[str | int, ...]) -> str:
    """`data.rows[0].id`, and `['odd name']` for what is no word: one text for each path."""
    return "".join(_step_text(part) for part in parts).removeprefix(".")


def _step_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if _WORD.fullmatch(part) else f"['{part}']"


def path_of(text: str) -> tuple[str | int, ...] | None:
    """The parts of `data.rows[0].id`, with or without `$.` before it; None where it is no path."""
    rest = text.strip()
    if rest.startswith("$"):
        rest = rest[1:]
    elif not rest.startswith("["):
        rest = f".{rest}"
    if _PATH.fullmatch(rest) is None:
        return None
    return tuple(_part(step) for step in _STEP.finditer(rest))


def _part(step: re.Match[str]) -> str | int:
    return int(step["index"]) if step["index"] else next(word for word in step.groups() if word is not None)
