"""A vendor in memory, with a clock that is moved by hand, and processes that die between any two
requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from noetl.quantum.backends.ports import MaybeSubmitted, RemoteBackend
from noetl.quantum.circuits.measurements import readout
from noetl.quantum.model import Capabilities, CircuitRun, Estimate, JobState, Samples

T = TypeVar("T")
START = datetime(2026, 1, 1, tzinfo=UTC)


class Died(BaseException):
    """A process was killed: nothing of it catches this."""


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def seconds(self) -> float:
        return self.now.timestamp()

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class Taken:
    """A job at the vendor."""

    id: str
    token: str
    order: CircuitRun
    at: datetime
    cancelled: bool = False
    failed: bool = False


@dataclass
class Vendor(RemoteBackend):
    """`run_s` is how long a job takes; what it has cost is told by `poll` alone. `fate` is asked
    before each request what happens to it: `ok`, `before` (the process dies before it is sent),
    `after` (the vendor has it, and the process dies), `lost` (the vendor has it, and its answer
    gets lost), `late` (the process dies, and the vendor gets it `late_s` later)."""

    clock: Clock = field(default_factory=Clock)
    run_s: float = 5.0
    late_s: float = 5.0
    fate: Callable[[str], str] = lambda _: "ok"
    jobs: list[Taken] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    finds: bool = True
    resubmits: bool = False

    def capabilities(self) -> Capabilities:
        return Capabilities("vendor", local=False)

    def estimate(self, orders: Sequence[CircuitRun]) -> Estimate:
        return Estimate()

    def submit(self, order: CircuitRun, token: str) -> JobState:
        fate = self._fate("submit")
        delay = self.late_s if fate == "late" else 0.0
        at = self.clock() + timedelta(seconds=delay)
        self.jobs.append(Taken(f"job-{len(self.jobs)}", token, order, at))
        if fate == "lost":
            raise MaybeSubmitted("connection", "The answer got lost.", retryable=True)
        return self._ended(fate, self._state(self.jobs[-1]))

    def find(self, tokens: Sequence[str], since: datetime) -> Mapping[str, Sequence[JobState]]:
        fate = self._fate("find")
        jobs = sorted((job for job in self.jobs if since <= job.at <= self.clock()), key=lambda job: job.at)
        found = {token: [self._state(job) for job in jobs if job.token == token] for token in tokens}
        return self._ended(fate, found)

    def poll(self, job_id: str) -> JobState:
        fate, state = self._fate("poll"), self._state(self._job(job_id))
        return self._ended(fate, replace(state, cost=1.5) if state.status == "done" else state)

    def fetch(self, job_id: str, order: CircuitRun) -> Samples:
        fate = self._fate("fetch")
        assert self._state(self._job(job_id)).status == "done"
        assert self._job(job_id).order == order
        self.fetched.append(job_id)
        return self._ended(fate, Samples(readout(order.circuit).measured, {"00": order.repetitions}))

    def cancel(self, job_id: str) -> JobState:
        fate = self._fate("cancel")
        job = self._job(job_id)
        if self._state(job).status in ("queued", "running"):
            job.cancelled = True
        return self._ended(fate, self._state(job))

    def paid(self) -> list[str]:
        """The tokens of the jobs that were not cancelled and did not fail."""
        return sorted(job.token for job in self.jobs if not job.cancelled and not job.failed)

    def _job(self, job_id: str) -> Taken:
        return next(job for job in self.jobs if job.id == job_id)

    def _state(self, job: Taken) -> JobState:
        over = self.clock() >= job.at + timedelta(seconds=self.run_s)
        state = JobState(job.id, "done" if over else "queued", submitted_at=job.at.isoformat())
        if job.cancelled:
            return replace(state, status="cancelled")
        return replace(state, status="failed", message="It broke", retryable=True) if job.failed else state

    def _fate(self, verb: str) -> str:
        self.asked.append(verb)
        fate = self.fate(verb)
        if fate == "before":
            raise Died
        return fate

    def _ended(self, fate: str, said: T) -> T:
        if fate in ("after", "late"):
            raise Died
        return said
