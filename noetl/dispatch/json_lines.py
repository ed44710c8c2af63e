"""The log of a service for machines: one JSON object a line, with what it is about."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from noetl.dispatch.naming import parse_arguments
from noetl.usecases.log_context import ids

#: Keys that may come with a record (`extra`), where its thread does not know what it is about.
_EXTRAS: Final = ("execution", "command", "step")


class JsonLines(logging.Formatter):
    """One JSON object a line: `{at, level, logger, message, process}`, `error` where there is a
    traceback, and what the thread works on: `request`, `command`, `execution`, `step`, `run`,
    `delivery`, `iteration`, `task`, `attempt`."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **_about(record),
        }
        if record.exc_info:
            # The text, where there is one already, has no secrets in it.
            said["error"] = record.exc_text or self.formatException(record.exc_info)
        return json.dumps(said, ensure_ascii=False)


def _about(record: logging.LogRecord) -> dict[str, Any]:
    known = record.__dict__
    extras = {name: known[name] for name in _EXTRAS if name in known}
    data = known.get("data")
    # Celery's own lines, of which many come from a process or a moment that works on nothing.
    celery = parse_arguments(data.get("args")) if isinstance(data, dict) else {}
    return {**celery, **ids(), **extras, **known.get("fields", {})}
