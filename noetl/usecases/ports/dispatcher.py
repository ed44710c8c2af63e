"""The port of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from noetl.usecases.ports.commands import CommandRow


class Dispatcher(Protocol):
    """Messages leave. The log is the truth: a message may be lost, doubled or reordered."""

    def send(self, commands: Sequence[CommandRow]) -> None:
        """Hands commands to their queues. Lanes that share a `chord_id` travel as one chord whose
        body wakes the scheduler; lanes that are sent again carry their place in it. Raises
        Unavailable."""

    def wake(self) -> None:
        """Asks the scheduler for a turn, which serves all executions that owe one: where another
        wake still waits to be taken, that one will do. Raises Unavailable."""

    def waiting(self, queue: str) -> int:
        """About how many messages wait in `queue`. Raises Unavailable."""
