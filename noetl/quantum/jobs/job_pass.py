"""One call of a task with jobs: it sends orders as jobs, looks after the jobs until they have
ended, and fetches what they measured."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from noetl.pipeline.model import Call
from noetl.quantum.backends.ports import MaybeSubmitted, RemoteBackend, answer_error
from noetl.quantum.config.task import Polling
from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.ledger import DEAD, LIVE, JobLedger, samples_as_json, samples_from_json
from noetl.quantum.model import CircuitRun, JobState, Samples
from noetl.quantum.session import SendTokens

#: How far a call goes: until all orders are `submitted`, their jobs have `ended`, their results are
#: `fetched`, or none of the jobs lives any more (`cancelled`).
Goal: TypeAlias = Literal["submitted", "ended", "fetched", "cancelled"]
#: Orders that one ticket is for.
_BATCH: Final = 10
#: How far the clocks of the vendor and of this machine may differ.
_SKEW: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class JobContext:
    """What jobs are made with. `go_on` raises ToolError where the call must end at once;
    `send_tokens` are those of the process."""

    backend: RemoteBackend
    call: Call
    polling: Polling
    send_tokens: SendTokens
    go_on: Callable[[], None] = lambda: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic

    @property
    def provider(self) -> str:
        return self.backend.capabilities().provider

    def token(self, name: str) -> str:
        """What the job of an order is found by: the same for every attempt of the task."""
        digest = hashlib.sha256(f"{self.call.idempotency_key}{name}".encode()).hexdigest()
        return f"noetl-{digest[:32]}"


@dataclass(frozen=True, slots=True)
class JobResults:
    """The jobs by order, and what they measured, where it was fetched."""

    jobs: Mapping[str, JobState]
    samples: Mapping[str, Samples] = field(default_factory=dict)


@dataclass(slots=True)
class JobPass:
    """`orders` are by name. `owns`: the jobs are those of this task; others' jobs are not
    cancelled with it. From `ends` on (as `context.monotonic`) the call begins no further
    request.
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

    def record(self, name: str, job: JobState) -> None:
        """Notes how the job of an order stands. Raises ToolError where that is another job."""
        known = self.ledger.jobs.get(name)
        if known is not None and known.id != job.id:
            raise answer_error(
                self.context.provider, f"asked for job {known.id}, it answered with job {job.id[:100]}"
            )
        self.ledger = self.ledger.with_job(name, job, self.now)

    def has_time(self) -> bool:
        """Whether there is time for one more request. Raises ToolError where the call must end at
        once."""
        self.context.go_on()
        return self.context.monotonic() <= self.ends

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

    # --- sending ---------------------------------------------------------------------------------

    def announce(self) -> None:
        """The intent to send the next orders: nothing is sent before it is in the log."""
        most = _BATCH if self.backend.finds else 1
        ticket, sending = self.context.send_tokens.issue(), tuple(self.missing[:most])
        self.note(ticket=ticket, sending=sending, doubted=(), missed_at="")

    def send(self) -> None:
        """Sends what the ticket is for. Where the ticket is another process's, that one may have
        sent it. Raises ToolError, MaybeSubmitted once it is noted what is in doubt."""
        ticket, names = self.ledger.ticket, self.ledger.sending
        self.note(ticket="", sending=())
        if not self.context.send_tokens.redeem(ticket):
            self.note(doubted=names, contested_at=self.now)
            return
        self.submitting = True
        for name in names:
            if not self.has_time():
                break
            try:
                job = self.backend.submit(self.orders[name], self.context.token(name))
            except MaybeSubmitted:
                self.note(doubted=(name,))
                raise
            self.record(name, job)
        self.submitting = False

    def search(self) -> float:
        """Looks for what may have been sent. Yields how long to wait before the next look, in
        seconds; 0: it is known now what is there and what is not. Raises ToolError where that
        cannot be known."""
        ledger = self.ledger
        if not self.backend.finds:
            if not self.backend.resubmits or set(ledger.doubted) & set(ledger.resent):
                lost = {name: self.context.token(name) for name in ledger.doubted}
                raise job_errors.unknown_submission(self.context.provider, lost)
            self.note(doubted=(), resent=(*ledger.resent, *ledger.doubted))
            return 0.0
        self.adopt(ledger.doubted)
        left = tuple(name for name in ledger.doubted if name not in self.ledger.jobs)
        missed_at = ledger.missed_at or self.now
        wait = self._until(missed_at) if left else 0.0
        if wait > 0.0:
            self.note(doubted=left, missed_at=missed_at)
            return wait
        # What is sent again now may still come from the process that was to send it before.
        contested_at = self.now if left else self.ledger.contested_at
        self.note(doubted=(), missed_at="", contested_at=contested_at)
        return 0.0

    def settle(self) -> float:
        """A last look where two may have sent the same: a process that was thought dead may have
        sent it late. Yields how long that look is to wait, in seconds."""
        if not self.ledger.contested_at or not self.orders or not self.backend.finds:
            return 0.0
        if wait := self._until(self.ledger.contested_at, 2):
            return wait
        self.adopt(tuple(self.orders))
        self.note(contested_at="")
        return 0.0

    def adopt(self, names: Sequence[str]) -> None:
        """Finds the jobs of these orders. For one that has none yet, the oldest that is not dead
        counts; others that live are to be cancelled."""
        since = datetime.fromisoformat(self.ledger.since) - _SKEW
        found = self.backend.find([self.context.token(name) for name in names], since)
        for name in names:
            jobs = [job for job in found.get(self.context.token(name), ()) if job.status not in DEAD]
            mine = self.ledger.jobs.get(name) or next(iter(jobs), None)
            if mine is None:
                continue
            if name not in self.ledger.jobs:
                # A list has neither the cost of a job nor its calibration: one that is done is to
                # be looked at once more.
                self.record(name, replace(mine, status="running") if mine.status == "done" else mine)
            more = (job.id for job in jobs if job.id != mine.id and job.status in LIVE)
            self.note(surplus=tuple(dict.fromkeys((*self.ledger.surplus, *more))))

    def _until(self, instant: str, times: int = 1) -> float:
        """Seconds until what was sent at `instant` can be found, if it is there; `times` as long
        for what may come late."""
        return max(0.0, times * self.backend.settle_s - self.age(instant))

    # --- looking after ---------------------------------------------------------------------------

    def look(self) -> None:
        """Asks how the jobs stand that have not ended. Raises ToolError where results are wanted
        and a job has none."""
        names = {job.id: name for name, job in self.ledger.those(LIVE).items()}
        while names and self.has_time():
            seen = self.backend.look(list(names))
            for one, job in seen.items():
                self.record(names.pop(one), job)
            if not seen:
                break
        if self.goal == "fetched":
            dead = next(iter(self.ledger.those(DEAD).items()), None)
            if dead is not None:
                raise job_errors.job_error(self.context.provider, *dead)

    def drop(self) -> None:
        """Cancels the jobs that are one too many, as many as there is time for."""
        for job_id in self.ledger.surplus:
            if not self.has_time():
                return
            self.backend.cancel(job_id)
            self.note(surplus=tuple(one for one in self.ledger.surplus if one != job_id))

    def cancel(self) -> None:
        """Cancels the jobs that live, as many as there is time for."""
        for name, job in self.ledger.those(LIVE).items():
            if not self.has_time():
                return
            self.record(name, self.backend.cancel(job.id))

    def withdraw(self) -> bool:
        """Cancels the jobs of this task that live, those among them that are not known yet.
        Yields whether none is left."""
        if self.ledger.sending and self.context.send_tokens.redeem(self.ledger.ticket):
            # It was not sent, and will not be.
            self.note(ticket="", sending=())
        ledger = self.ledger
        lost = (*ledger.sending, *ledger.doubted) if self.backend.finds else ()
        if suspects := tuple(self.orders) if ledger.contested_at and self.backend.finds else lost:
            self.adopt(suspects)
        self.drop()
        self.cancel()
        hidden = any(name not in self.ledger.jobs for name in lost)
        if hidden and self.age(ledger.leaving_at) < self.backend.settle_s:
            return False
        return not self.ledger.those(LIVE) and not self.ledger.surplus

    # --- fetching ---------------------------------------------------------------------------------

    def jobs_to_fetch(self) -> dict[str, JobState]:
        """The jobs that are done and whose results are wanted, by order."""
        if self.goal != "fetched":
            return {}
        done = self.ledger.those({"done"})
        return {name: job for name, job in done.items() if name not in self.ledger.samples}

    def fetch(self) -> None:
        """Fetches what is there, as much as there is time for."""
        for name, job in self.jobs_to_fetch().items():
            if not self.has_time():
                return
            said = samples_as_json(self.backend.fetch(job.id, self.orders[name]))
            self.note(samples={**self.ledger.samples, name: said}, changed_at=self.now)

    def results(self) -> JobResults:
        """What the task has come to."""
        ledger = self.ledger
        samples = {name: samples_from_json(said, self.orders[name]) for name, said in ledger.samples.items()}
        return JobResults(ledger.jobs, samples)
