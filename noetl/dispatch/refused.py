"""Reports what came from a broker and is not a message of NoETL, to the log and to the keeper of
dead letters.

Anybody who can write to a broker can put anything there. Nothing of it may end a worker, and
nothing may vanish.
"""

from __future__ import annotations

import logging
from typing import Final

from celery.utils.dispatch import Signal

log = logging.getLogger(__name__)

#: Sent with `queue`, `reason` and `body`: all of them legible text, of bounded length.
refused: Final = Signal(name="refused", providing_args=("queue", "reason", "body"))

#: Characters that are kept of a body, and of a reason or the name of a queue.
KEPT: Final = 2000
KEPT_WORDS: Final = 300


def refuse(queue: object, reason: str, body: object) -> None:
    """Tells all listeners, and the log. Never raises: Celery's signals keep to themselves what
    receivers raise."""
    where, why, what = (
        escape_text(queue, KEPT_WORDS),
        escape_text(reason, KEPT_WORDS),
        escape_text(body, KEPT),
    )
    log.error("A message was dropped from the queue %s: %s: %.200s", where, why, what)
    refused.send(sender=None, queue=where, reason=why, body=what)


def escape_text(value: object, limit: int) -> str:
    """At most `limit` characters of `value`. What no terminal should be sent is escaped."""
    escaped = "".join(one if one.isprintable() else _escape(one) for one in _text(value, limit))
    return escaped if len(escaped) <= limit else f"{escaped[: limit - 1]}…"


def _text(value: object, limit: int) -> str:
    match value:
        case bytes():
            return value[: limit + 1].decode("utf-8", "backslashreplace")
        case str():
            return value[: limit + 1]
    try:
        return repr(value)[: limit + 1]
    except RecursionError:
        return f"<{type(value).__name__}, nested too deeply to be shown>"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
