"""One call of a task: what it works with, how far it is to go, and its ledger."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from noetl.pipeline.model import Call
from noetl.quantum.backends.ports import RemoteBackend, unexpected_answer
from noetl.quantum.config.task import Polling
from noetl.quantum.jobs.ledger import JobLedger
from noetl.quantum.model import CircuitRun, JobState
from noetl.quantum.session import SendTokens

#: How far a call goes: until all orders are `submitted`, their jobs have `ended`, their results are
#: `fetched`, or none of the jobs lives any more (`cancelled`).
Goal: TypeAlias = Literal["submitted", "ended", "fetched", "cancelled"]


def _utc() -> datetime:
    return datetime.now(UTC)


def _go_on() -> None:
    """Nobody wants the call to end."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """What jobs are made with. `go_on` raises ToolError where the call must end at once;
    `send_tokens` are those of the process."""

    backend: RemoteBackend
    call: Call
    polling: Polling
    send_tokens: SendTokens
    go_on: Callable[[], None] = _go_on
    now: Callable[[], datetime] = _utc

    @property
    def provider(self) -> str:
        return self.backend.capabilities().provider

    def token(self, name: str) -> str:
        """What the job of an order is found by: the same for every attempt of the task."""
        digest = hashlib.sha256(f"{self.call.idempotency_key}{name}".encode()).hexdigest()
        return f"noetl-{digest[:32]}"


@dataclass(slots=True)
class JobPass:
    """`orders` are by name. `owns`: the jobs are those of this task, and nobody else's are
    cancelled with it. From `ends` on (as `time.monotonic`) the call begins no further request.
    `submitting`: an order is just being sent."""

    context: JobContext
    orders: Mapping[str, CircuitRun]
    goal: Goal
    owns: bool
    ledger: JobLedger
    ends: float
    submitting: bool = False

    @property
    def backend(self) -> RemoteBackend:
        return self.context.backend

    @property
    def missing(self) -> list[str]:
        """Orders without a job."""
        return [name for name in self.orders if name not in self.ledger.jobs]

    def note(self, **changes: Any) -> None:
        """Changes the ledger."""
        self.ledger = replace(self.ledger, **changes)

    def hear(self, name: str, job: JobState) -> None:
        """How the job of an order stands. Raises ToolError where it is said of another job."""
        known = self.ledger.jobs.get(name)
        if known is not None and known.id != job.id:
            raise unexpected_answer(
                self.context.provider, f"asked for job {known.id}, it answered with job {job.id[:100]}"
            )
        self.ledger = self.ledger.with_job(name, job, self.now)

    def has_time(self) -> bool:
        """Whether there is time for one more request. Raises ToolError where the call must end at
        once."""
        self.context.go_on()
        return time.monotonic() <= self.ends

    @property
    def now(self) -> str:
        return self.context.now().isoformat()

    def age(self, instant: str) -> float:
        """Seconds since then; 0 where another machine's clock is ahead of this one's."""
        return max(0.0, (self.context.now() - datetime.fromisoformat(instant)).total_seconds())

    def next_pause(self, instant: str, first: float) -> float:
        """Seconds until the next look at what has been waited for since `instant`: with each,
        `backoff` times the one before. As a sum of those pauses that is a line in the time gone by,
        so the checkpoint need not count."""
        polling = self.context.polling
        return min(polling.max, first + self.age(instant) * (polling.backoff - 1))
