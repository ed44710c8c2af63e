"""One call of the tool: what it was asked, and what ends it before its time."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.quantum.config import QuantumConfig
from noetl.quantum.jobs.tickets import Tickets
from noetl.tools.code.user_code import Runners
from noetl.tools.kit.base import Services
from noetl.tools.kit.calls import Stop

if TYPE_CHECKING:
    from noetl.tools.kit.http.transport import Client


class Held:
    """What the tool holds for all of its calls: processes for code, connections, and the tickets of jobs. Safe for
    threads."""

    def __init__(self, services: Services) -> None:
        self.runners = Runners(services)
        #: The rights of this process to send jobs.
        self.tickets = Tickets()
        self._services = services
        self._lock = threading.Lock()
        self._client: Client | None = None

    def client(self) -> Client:
        """Connections to vendors, made when they are needed first."""
        from noetl.tools.kit.http.transport import (
            Client,  # with its libraries 100 ms, and simulators need none
        )

        with self._lock:
            if self._client is None:
                self._client = Client(
                    allow_private=self._services.allow_private_networks,
                    networks=self._services.allowed_networks,
                )
            return self._client

    def close(self) -> None:
        self.runners.close()
        if self._client is not None:
            self._client.close()


@dataclass(frozen=True, slots=True)
class Session:
    """`deadline_s` are the seconds that the call has; `ends` is when they are over, as `time.monotonic`. `pins` are what its
    checkpoint repeats, whatever else is in it."""

    call: Call
    config: QuantumConfig
    services: Services
    held: Held
    stop: Stop
    deadline_s: float
    ends: float
    pins: dict[str, Json] = field(default_factory=dict)

    def check_cancelled(self) -> None:
        """Raises ToolError(cancelled) where the execution was."""
        if self.stop.cancelled:
            raise ToolError("cancelled", "The execution was cancelled while circuits ran.", type="Cancelled")

    def check(self) -> None:
        """Raises ToolError(cancelled | timeout) where the call is to end: asked between two circuits."""
        self.check_cancelled()
        if time.monotonic() > self.ends:
            raise ToolError(
                "timeout",
                f"The circuits did not end within {self.deadline_s:g} s; what was kept by then is not run again when the "
                "task is tried again. Raise `spec.timeout`.",
                retryable=True,
                type="Interrupted",
            )


def now() -> str:
    """The instant, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
