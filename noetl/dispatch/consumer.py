"""The consumer of workers and scheduler: Celery's, with fewer round trips to the broker and fewer
events for Flower.

Messages that are not NoETL's are refused before Celery sees them, whatever the broker: see
`envelope` and `refused`.

Named by `worker_consumer` in `settings`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from celery.worker import consumer

from noetl.dispatch.envelope import find_flaw_in_message
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.dispatch.refused import KEPT, KEPT_WORDS, escape_text, refuse

log = logging.getLogger(__name__)

#: Seconds for which events for Flower are collected. Sent one by one they cost a worker's parent
#: process as much as everything else that it does.
EVENTS_S: Final = 0.1

#: What Celery raises over values that it did not expect. Nothing else is blamed on a message: a
#: worker whose pool is broken must end, and not refuse everything from then on.
ODD: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


class Consumer(consumer.Consumer):
    """Celery's, with less talk to the broker and with less trust in it."""

    connection_errors: tuple[type[Exception], ...]
    event_dispatcher: Any
    hub: Any
    strategies: dict[str, Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._collecting = False
        wakes = self.app.amqp.queues.consume_from.get(SCHEDULER_QUEUE)
        if wakes is not None:
            # A wake that dies with the scheduler is made up for by the sweeper, which sees who owes
            # a turn: keeping accounts of each would cost two more round trips to the broker.
            wakes.no_ack = True

    def on_send_event_buffered(self) -> Any:
        if self.hub and not self._collecting:
            self._collecting = True
            # Not `call_later` from here, which may be a thread of the pool: the hub's timers take
            # no lock.
            self.hub.call_soon(self._schedule_flush)

    def _schedule_flush(self) -> None:
        self.hub.call_later(EVENTS_S, self._flush_events)

    def _flush_events(self) -> None:
        self._collecting = False
        if self.event_dispatcher:
            self.event_dispatcher.flush()

    def on_close(self) -> None:
        """The connection was lost, and the timers have gone with it."""
        super().on_close()
        self._collecting = False

    def stop(self) -> None:
        self._flush_events()
        super().stop()

    def create_task_handler(self, *args: Any, **options: Any) -> Callable[[Any], None]:
        """What is called with each message that arrives."""
        receive = super().create_task_handler(*args, **options)

        def receive_ours(message: Any) -> None:
            flaw = find_flaw_in_message(message, self.strategies)
            if flaw is not None:
                self._refuse(message, flaw)
                return
            try:
                receive(message)
            except self.connection_errors:
                raise
            except ODD as error:
                log.exception("Celery cannot work with a message")
                self._refuse(message, f"Celery cannot work with it: {type(error).__name__}: {error}")

        return receive_ours

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._refuse(message, f"it cannot be decompressed or decoded: {exc}")

    def _refuse(self, message: Any, reason: str) -> None:
        # A queue without acknowledgements has forgotten the message, and AMQP closes the channel of
        # who rejects it.
        tag = (message.delivery_info or {}).get("consumer_tag")
        if not message.acknowledged and tag not in (message.channel.no_ack_consumers or ()):
            message.reject_log_error(log, self.connection_errors)
        refuse(_queue(message), reason, _show(message))


def _queue(message: Any) -> object:
    return (message.delivery_info or {}).get("routing_key", "")


def _show(message: Any) -> object:
    """The body, behind what the headers say of it."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    words = {name: headers[name] for name in ("task", "id", "shadow") if name in headers}
    said, kind = escape_text(words, KEPT_WORDS), escape_text(message.content_type, KEPT_WORDS)
    return f"{said} {kind}: {escape_text(message.body, KEPT)}"
