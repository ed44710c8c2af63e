"""Lines of a log that say the same again and again."""

from __future__ import annotations

import logging
from typing import Final

#: Seconds after which a line is said again.
REPEAT_S: Final = 60.0


def drop_repeats() -> None:
    """Has this process log the same line once in `REPEAT_S` seconds: what fails in a sweep fails in
    each of them."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(_Unrepeated())


class _Unrepeated(logging.Filter):
    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        line = (record.name, record.getMessage())
        said = self._said.get(line)
        if said is not None and record.created - said < REPEAT_S:
            return False
        self._said = {one: at for one, at in self._said.items() if record.created - at < REPEAT_S}
        self._said[line] = record.created
        return True
