"""Lines as YAML 1.2 ends them.

The parser follows YAML 1.1, where U+0085, U+2028 and U+2029 end lines as well: in a text that
somebody pasted, they would cut it in two.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from yaml import events

#: The C parser is ten times faster; wheels without it still work.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ENDS_OF_1_1: Final = frozenset("\x85\u2028\u2029")
#: For private use, and more of them than a document may have characters: some are free in each.
_STAND_INS: Final = range(0xF0000, 0x10FFFE)


def split_lines(text: str) -> list[str]:
    """The lines of `text`, each with its end."""
    return list(io.StringIO(text, newline=""))


def parse(text: str) -> Iterator[events.Event]:
    """The events of `text`, whose marks count the lines that it has. Raises as the parser does."""
    hidden, meant = _hide(text)
    for event in yaml.parse(hidden, Loader=LOADER):
        if meant and isinstance(event, events.ScalarEvent):
            event.value = event.value.translate(meant)
        yield event


def _hide(text: str) -> tuple[str, Mapping[int, str]]:
    """`text` with stand-ins for what ends no line, and what each stands for."""
    ends = [end for end in ENDS_OF_1_1 if end in text]
    if not ends:
        return text, {}
    free = (sign for sign in _STAND_INS if chr(sign) not in text)
    meant = dict(zip(free, ends, strict=False))
    return text.translate({ord(end): sign for sign, end in meant.items()}), meant
