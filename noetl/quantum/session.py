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
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.send_tokens import SendTokens
from noetl.tools.code.user_code import Runners
from noetl.tools.kit.base import Services
from noetl.tools.kit.calls import StopSignal

if TYPE_CHECKING:
    from noetl.tools.kit.http.transport import HttpClient


class SharedResources:
    """What the tool holds for all of its calls: processes for code, connections, and the rights to
    send jobs. Safe for threads."""

    def __init__(self, services: Services) -> None:
        self.runners = Runners(services)
        #: The rights of this process to send jobs.
        self.send_tokens = SendTokens()
        self._services = services
        self._lock = threading.Lock()
        self._client: HttpClient | None = None

    def client(self) -> HttpClient:
        """Connections to vendors, made when they are needed first."""
        from noetl.tools.kit.http.transport import HttpClient

        with self._lock:
            if self._client is None:
                self._client = HttpClient(
                    allow_private=self._services.allow_private_networks,
                    networks=self._services.allowed_networks,
                )
            return self._client

    def close(self) -> None:
        self.runners.close()
        if self._client is not None:
            self._client.close()


@dataclass(frozen=True, slots=True)
class TaskSession:
    """`deadline_s` are the seconds that the call has; `ends` is when they are over, as
    `time.monotonic`. `pins` are what its checkpoint repeats, whatever else is in it."""

    call: Call
    config: QuantumConfig
    services: Services
    held: SharedResources
    stop: StopSignal
    deadline_s: float
    ends: float
    pins: dict[str, Json] = field(default_factory=dict)

    def check_cancelled(self) -> None:
        """Raises ToolError(cancelled) where the execution was."""
        if self.stop.cancelled:
            raise ToolError("cancelled", "The execution was cancelled while circuits ran.", type="Cancelled")

    def check(self) -> None:
        """Raises ToolError(cancelled | timeout) where the call is to end: asked between two
        circuits."""
        self.check_cancelled()
        if time.monotonic() > self.ends:
            raise ToolError(
                "timeout",
                f"The circuits did not end within {self.deadline_s:g} s; what was kept by then "
                "is not run again when the "
                "task is tried again. Raise `spec.timeout`.",
                retryable=True,
                type="Interrupted",
            )


def now() -> str:
    """The instant, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
