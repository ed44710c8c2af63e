"""How our workers and the scheduler take messages and tell Flower of them: Celery's consumer, with less talk.

Named by `worker_consumer` in `celeryconfig`.
"""

from __future__ import annotations

from typing import Any, Final

from celery.worker import consumer

from noetl.dispatch.naming import SCHEDULER_QUEUE

#: Seconds for which events for Flower are collected. Sent one by one they cost a worker's parent process as
#: much as everything else that it does.
EVENTS_S: Final = 0.1


class Consumer(consumer.Consumer):
    """Celery's, with two changes that need no guarantee of the broker."""

    event_dispatcher: Any
    hub: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._collecting = False
        wakes = self.app.amqp.queues.consume_from.get(SCHEDULER_QUEUE)
        if wakes is not None:
            # A wake that dies with the scheduler is made up for by the sweeper, which sees who owes a turn:
            # keeping accounts of each would cost two more round trips to the broker.
            wakes.no_ack = True

    def on_send_event_buffered(self) -> Any:
        if self.hub and not self._collecting:
            self._collecting = True
            # Not `call_later` from here, which may be a thread of the pool: the hub's timers take no lock.
            self.hub.call_soon(self._collect)

    def _collect(self) -> None:
        self.hub.call_later(EVENTS_S, self._send_collected)

    def _send_collected(self) -> None:
        self._collecting = False
        if self.event_dispatcher:
            self.event_dispatcher.flush()

    def on_close(self) -> None:
        """The connection was lost, and the timers have gone with it."""
        super().on_close()
        self._collecting = False

    def stop(self) -> None:
        self._send_collected()
        super().stop()
