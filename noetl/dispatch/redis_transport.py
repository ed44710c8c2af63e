"""kombu's Redis transport, for queues into which others may write: what is no message is dropped.

kombu reads what stands in a list as its own envelope; anything else ends the worker that took it.
"""

from __future__ import annotations

import json
import logging
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

log = logging.getLogger(__name__)

#: What every envelope of kombu has, and of which type.
_ENVELOPE = {"body": str, "headers": dict, "properties": dict}


class Channel(redis.Channel):
    """Reads past what is no JSON."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            log.error("Something that is no message was dropped from a queue: %s", error)  # noqa: TRY400
            raise Empty from error

    def _has_queue(self, queue: str, **_: Any) -> bool:  # noqa: ARG002 - kombu names it
        """A list that is not there is an empty queue: asking for both would be a round trip more."""
        return True

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Takes a message off the accounts, where it was put on them: those taken with `no_ack` are not."""
        if delivery_tag in (self.qos._delivered or ()):
            super().basic_ack(delivery_tag, multiple)


class Transport(redis.Transport):
    """Delivers envelopes only."""

    Channel = Channel

    def _deliver(self, message: Any, queue: str | None) -> None:
        if is_envelope(message):
            super()._deliver(message, queue)
        else:
            log.error("Something that is no message was dropped from the queue %s: %.200r", queue, message)


def is_envelope(message: Any) -> bool:
    """Whether kombu can make a message of it."""
    if not isinstance(message, dict):
        return False
    if any(not isinstance(message.get(name), kind) for name, kind in _ENVELOPE.items()):
        return False
    properties = message["properties"]
    return "delivery_tag" in properties and isinstance(properties.get("delivery_info"), dict)


def install() -> None:
    """Makes `redis://` and its relatives mean this transport. Before the first connection."""
    for alias in ("redis", "rediss"):
        TRANSPORT_ALIASES[alias] = f"{__name__}:{Transport.__name__}"
