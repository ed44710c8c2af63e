"""One call of the tool: its configuration, what it shares with others, and what ends it early."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts.durations import compact
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.quantum.config.task import QuantumConfig
from noetl.tools.code.user_code import Runners
from noetl.tools.kit.base import Services
from noetl.tools.kit.calls import StopSignal

if TYPE_CHECKING:
    from noetl.tools.kit.http.transport import HttpClient


@dataclass(frozen=True, slots=True)
class Clocks:
    """What tells jobs the time: which instant it is, and seconds that are never set back."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic


class SharedResources:
    """What the tool holds for all of its calls: processes for code, connections, and the rights to
    send jobs. Safe for threads."""

    def __init__(self, services: Services, clocks: Clocks) -> None:
        self.runners = Runners(services)
        self.clocks = clocks
        #: The rights of this process to send jobs.
        self.send_tokens = SendTokens(clock=clocks.monotonic)
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

    def check_cancellation(self) -> None:
        """Raises ToolError(cancelled) where the execution was."""
        if self.stop.cancelled:
            raise ToolError("cancelled", "The execution was cancelled while circuits ran.", type="Cancelled")

    def check(self) -> None:
        """Raises ToolError(cancelled | timeout) where the call is to end: asked between two
        circuits."""
        self.check_cancellation()
        if time.monotonic() > self.ends:
            raise ToolError(
                "timeout",
                f"The circuits did not end within {compact(self.deadline_s)}; what was kept by then "
                "is not run again when the "
                "task is tried again. Raise `spec.timeout`.",
                retryable=True,
                type="Interrupted",
            )


def now() -> str:
    """The instant, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


#: Seconds that a ticket is good for: a process that was stopped in the middle comes back to a
#: worthless one.
LIFETIME_S: Final = 10.0


class SendTokens:
    """The tickets of one process, each the right to send something once. Safe for threads.

    A checkpoint is in the log before anything is sent, but it does not tell the call that comes
    first from one that repeats it after a crash. The ticket in it does: it is known to the process
    that wrote it, for a short time, and can be redeemed once. A call that cannot redeem its ticket
    has to find out first what another process may have sent."""

    def __init__(self, lifetime_s: float = LIFETIME_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._lock = threading.Lock()
        self._good: dict[str, float] = {}

    def issue(self) -> str:
        ticket, now = secrets.token_hex(8), self._clock()
        with self._lock:
            self._good = {one: ends for one, ends in self._good.items() if ends > now}
            self._good[ticket] = now + self._lifetime_s
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether it was issued here, not long ago, and not redeemed before."""
        with self._lock:
            return self._good.pop(ticket, 0.0) > self._clock()
