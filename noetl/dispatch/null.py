"""No messages at all: the scheduler's sweeper finds what is in the tables."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.errors import Unavailable
from noetl.usecases.ports import CommandRow


class NullDispatcher:
    """For processes that write to the log and have no broker: everything is left to the sweeper."""

    def send(self, commands: Sequence[CommandRow]) -> None:
        """Raises Unavailable."""
        raise Unavailable(f"{len(commands)} commands wait for a sweeper: this process has no broker.")

    def wake(self) -> None:
        """Raises Unavailable."""
        raise Unavailable("A turn is owed and waits for a sweeper: this process has no broker.")

    def waiting(self, queue: str) -> int:
        """Raises Unavailable."""
        raise Unavailable(f"Nothing is known of queue {queue!r}: this process has no broker.")
