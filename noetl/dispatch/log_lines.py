"""The log for people: one line, behind it the traceback where there is one."""

from __future__ import annotations

import copy
import logging
from typing import Final

LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogLines(logging.Formatter):
    """`is_brief` shows of a traceback its last line alone, behind the message."""

    def __init__(self, *, is_brief: bool = False) -> None:
        super().__init__(LINE)
        self._is_brief = is_brief

    def format(self, record: logging.LogRecord) -> str:
        if not (self._is_brief and record.exc_info):
            return super().format(record)
        # The text, where there is one already, has no secrets in it.
        trace = record.exc_text or self.formatException(record.exc_info)
        line = copy.copy(record)
        line.exc_info = line.exc_text = None
        return f"{super().format(line)}: {trace.splitlines()[-1]}"
