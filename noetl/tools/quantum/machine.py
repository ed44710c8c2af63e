"""The jobs of a task, from one call to the next.

Nothing is sent before the log holds the intent, nothing is waited for before it holds the job's id, and what may have been
sent without our hearing of it is looked for before it is sent again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

from noetl.errors import ToolError
from noetl.pipeline.model import Call, Later
from noetl.tools.quantum import job_errors
from noetl.tools.quantum.config import Polling
from noetl.tools.quantum.limiter import Throttled
from noetl.tools.quantum.model import JobState, MaybeSubmitted, Order, RemoteBackend, Samples
from noetl.tools.quantum.stand import DEAD, LIVE, Stand, hash_of, kept, read, restored
from noetl.tools.quantum.tickets import Tickets

#: How far a call goes: until all orders are `submitted`, their jobs have `ended`, their results are `fetched`, or none of
#: the jobs lives any more (`cancelled`).
Goal: TypeAlias = Literal["submitted", "ended", "fetched", "cancelled"]

#: Orders that one ticket is for.
_BATCH: Final = 10
#: Seconds after which a call begins no further request.
_SLICE_S: Final = 2.0
#: How long nothing may be heard of a vendor before the task fails, in seconds.
_PATIENCE_S: Final = 3600.0
#: Pause after a request that failed and may go well later, in seconds.
_TROUBLE_S: Final = 5.0
#: Of the time of a task, at most so many seconds are kept back: to cancel its jobs in.
_RESERVE_S: Final = 20.0
#: How far the clocks of the vendor and of this machine may differ.
_SKEW: Final = timedelta(minutes=10)


def _utc() -> datetime:
    return datetime.now(UTC)


def _go_on() -> None:
    """Nobody wants the call to end."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What jobs are made with. `go_on` raises ToolError where the call must end at once; `tickets` are those of the
    process."""

    backend: RemoteBackend
    call: Call
    polling: Polling
    tickets: Tickets
    go_on: Callable[[], None] = _go_on
    now: Callable[[], datetime] = _utc

    @property
    def provider(self) -> str:
        return self.backend.capabilities().provider

    def token(self, name: str) -> str:
        """What the job of an order is found by: the same for every attempt of the task."""
        digest = hashlib.sha256(f"{self.call.idempotency_key}{name}".encode()).hexdigest()
        return f"noetl-{digest[:32]}"


@dataclass(frozen=True, slots=True)
class Done:
    """The jobs by order, and what they measured, where it was fetched."""

    jobs: Mapping[str, JobState]
    samples: Mapping[str, Samples] = field(default_factory=dict)


class Machine:
    """One call: from the stand in the checkpoint to the next one, or to the end."""

    def __init__(
        self,
        desk: Desk,
        orders: Sequence[Order],
        goal: Goal,
        jobs: Mapping[str, JobState] | None = None,
    ) -> None:
        self._desk = desk
        self._backend = desk.backend
        self._orders = {order.name: order for order in orders}
        self._goal = goal
        #: Whether the jobs are those of this task: nobody else's are cancelled with it.
        self._owns = jobs is None
        self._sends = False
        self._hash = hash_of(orders)
        now = desk.now().isoformat()
        self._stand = Stand(self._hash, 0, now, now, jobs=dict(jobs or {}))
        self._ends = time.monotonic() + _SLICE_S
        if not self._owns and (lost := self._missing):
            raise ToolError(
                "client_error", f"`job` tells of no job of {', '.join(lost[:5])}.", type="UnknownJob"
            )

    def advance(self) -> Later | Done:
        recorded = read(self._desk.call.checkpoint)
        self._stand = self._entered(recorded or self._stand)
        if recorded is None and self._missing:
            return self._licensed()
        try:
            if self._stand.error is not None:
                raise job_errors.from_json(self._stand.error)
            self._in_time()
            return self._stepped()
        except Throttled as error:
            return self._later(error.seconds)
        except ToolError as error:
            return self._failed(error, recorded)

    def _entered(self, stand: Stand) -> Stand:
        """The stand at this attempt: jobs that died in an earlier one do not count."""
        if stand.orders != self._hash:
            raise ToolError(
                "internal",
                "The circuits of this task are not those that were submitted: another version of NoETL or Cirq builds"
                " them. Finish it with the version that began it, or start it again.",
                type="OrdersChanged",
            )
        if stand.attempt == self._desk.call.attempt:
            return stand
        given = self._desk.call.deadline_s
        reserve = 0.0 if given is None else min(_RESERVE_S, given / 4)
        dead = stand.those(DEAD) if self._owns else {}
        jobs = {name: job for name, job in stand.jobs.items() if name not in dead}
        attempt = self._desk.call.attempt
        return replace(stand, attempt=attempt, reserve_s=reserve, jobs=jobs, error=None, troubled_at="")

    # --- what a call does ------------------------------------------------------------------------

    def _stepped(self) -> Later | Done:
        if self._stand.sending:
            self._send()
        if self._stand.doubted and (wait := self._searched()) > 0.0:
            return self._later(wait)
        if self._missing:
            return self._licensed()
        if self._goal == "cancelled":
            self._cancel(self._stand.those(LIVE))
        elif self._goal != "submitted":
            # What has ended comes first: with many jobs there may be no time left behind the look.
            self._fetch()
            self._look()
            self._fetch()
        wait = self._settled()
        self._stand = replace(self._stand, troubled_at="")
        return self._done() if self._is_done and wait == 0.0 else self._later(self._pause(wait))

    @property
    def _missing(self) -> list[str]:
        """Orders without a job."""
        return [name for name in self._orders if name not in self._stand.jobs]

    @property
    def _is_done(self) -> bool:
        match self._goal:
            case "submitted":
                return True
            case "ended" | "cancelled":
                return not self._stand.those(LIVE)
            case "fetched":
                return all(name in self._stand.samples for name in self._orders)

    def _done(self) -> Done:
        samples = {name: restored(said, self._orders[name]) for name, said in self._stand.samples.items()}
        return Done(self._stand.jobs, samples)

    def _licensed(self) -> Later:
        """The intent to send the next orders: nothing is sent before it is in the log."""
        most = _BATCH if self._backend.finds else 1
        ticket, sending = self._desk.tickets.issue(), tuple(self._missing[:most])
        self._stand = replace(self._stand, ticket=ticket, sending=sending, doubted=(), missed_at="")
        return self._later(0.0)

    def _send(self) -> None:
        """Sends what the ticket is for. Where it is not ours, somebody else may have sent it."""
        ticket, names = self._stand.ticket, self._stand.sending
        self._stand = replace(self._stand, ticket="", sending=())
        if not self._desk.tickets.redeem(ticket):
            self._stand = replace(self._stand, doubted=names, contested_at=self._now)
            return
        self._sends = True
        for name in names:
            self._desk.go_on()
            if time.monotonic() > self._ends:
                break
            try:
                job = self._backend.submit(self._orders[name], self._desk.token(name))
            except MaybeSubmitted:
                self._stand = replace(self._stand, doubted=(name,))
                break
            self._heard(name, job)
        self._sends = False

    def _searched(self) -> float:
        """Looks for what may have been sent. Yields how long to wait before the next look, in seconds; 0: it is known now
        what is there and what is not."""
        stand = self._stand
        if not self._backend.finds:
            if not self._backend.resubmits:
                lost = {name: self._desk.token(name) for name in stand.doubted}
                raise job_errors.unknown(self._desk.provider, lost)
            self._stand = replace(stand, doubted=())
            return 0.0
        self._adopt(stand.doubted)
        left = tuple(name for name in stand.doubted if name not in self._stand.jobs)
        missed_at = stand.missed_at or self._now
        wait = self._until(missed_at) if left else 0.0
        if wait > 0.0:
            self._stand = replace(self._stand, doubted=left, missed_at=missed_at)
            return wait
        # What is sent again now may still come from him who was to send it before.
        contested_at = self._now if left else self._stand.contested_at
        self._stand = replace(self._stand, doubted=(), missed_at="", contested_at=contested_at)
        return 0.0

    def _adopt(self, names: Sequence[str]) -> None:
        """Finds the jobs of these orders. Of several the oldest that is not dead counts; others that live are cancelled."""
        since = datetime.fromisoformat(self._stand.since) - _SKEW
        found = self._backend.find([self._desk.token(name) for name in names], since)
        for name in names:
            jobs = [job for job in found.get(self._desk.token(name), ()) if job.status not in DEAD]
            mine = self._stand.jobs.get(name) or next(iter(jobs), None)
            if mine is None:
                continue
            if name not in self._stand.jobs:
                # A list tells neither the cost of a job nor its calibration, and one that is done is not looked at again.
                self._heard(name, self._backend.poll(mine.id) if mine.status == "done" else mine)
            for other in jobs:
                if other.id != mine.id and other.status in LIVE:
                    self._backend.cancel(other.id)

    def _settled(self) -> float:
        """A last look where two may have sent the same: who was thought dead may have sent it late. Yields how long that
        look is to wait, in seconds."""
        if not self._stand.contested_at or not self._orders or not self._backend.finds:
            return 0.0
        if wait := self._until(self._stand.contested_at, 2):
            return wait
        self._adopt(tuple(self._orders))
        self._stand = replace(self._stand, contested_at="")
        return 0.0

    def _look(self) -> None:
        names = {job.id: name for name, job in self._stand.those(LIVE).items()}
        while names and time.monotonic() <= self._ends:
            self._desk.go_on()
            seen = self._backend.look(list(names))
            for one, job in seen.items():
                self._heard(names.pop(one), job)
            if not seen:
                break
        if self._goal == "fetched":
            dead = next(iter(self._stand.those(DEAD).items()), None)
            if dead is not None:
                raise job_errors.dead(self._desk.provider, *dead)

    def _fetch(self) -> None:
        if self._goal != "fetched":
            return
        for name, job in self._stand.those({"done"}).items():
            if name in self._stand.samples:
                continue
            self._desk.go_on()
            if time.monotonic() > self._ends:
                return
            said = kept(self._backend.fetch(job.id, self._orders[name]))
            samples = {**self._stand.samples, name: said}
            self._stand = replace(self._stand, samples=samples, changed_at=self._now)

    # --- time ------------------------------------------------------------------------------------

    @property
    def _now(self) -> str:
        return self._desk.now().isoformat()

    def _age(self, instant: str) -> float:
        return max(0.0, (self._desk.now() - datetime.fromisoformat(instant)).total_seconds())

    def _until(self, instant: str, times: int = 1) -> float:
        """Seconds until what was sent at `instant` can be found, if it is there; `times` as long for what may come late."""
        return max(0.0, times * self._backend.settle_s - self._age(instant))

    def _pause(self, wait: float) -> float:
        """Seconds until the next look: with each, `backoff` times the one before. As a sum of those pauses that is a line
        in the time since something was last heard, so the checkpoint need not count."""
        unfetched = self._stand.those({"done"}).keys() - self._stand.samples.keys()
        if self._goal == "fetched" and unfetched:
            return 0.0
        if self._is_done:
            return wait
        polling = self._desk.polling
        grown = polling.every + self._age(self._stand.changed_at) * (polling.backoff - 1)
        return min(polling.max, grown)

    def _later(self, seconds: float) -> Later:
        left = self._desk.call.deadline_s
        if left is not None:
            # Before its time is over the task is called once more, to cancel what it has submitted.
            seconds = min(seconds, max(0.0, left - self._stand.reserve_s))
        return Later(seconds, self._stand.as_json())

    def _in_time(self) -> None:
        left = self._desk.call.deadline_s
        if left is None or left > self._stand.reserve_s:
            return
        jobs = self._stand.those(LIVE)
        raise job_errors.late(self._desk.provider, jobs, self._withdrawn())

    # --- failures --------------------------------------------------------------------------------

    def _failed(self, error: ToolError, recorded: Stand | None) -> Later:
        """Waits where another try may help. Else what the log does not know yet is recorded before the task fails."""
        if error.kind == "cancelled":
            raise error
        final = error.type in job_errors.FINAL
        if error.retryable and not final:
            return self._troubled(error)
        if not error.retryable and (final or self._sends):
            self._withdrawn()
        if recorded is None or self._stand == recorded or self._stand.error is not None:
            raise error
        self._stand = replace(self._stand, error=job_errors.as_json(error))
        return self._later(0.0)

    def _troubled(self, error: ToolError) -> Later:
        asked = error.extras.get("http", {}).get("retry_after") or 0.0
        if error.kind == "rate_limit":
            return self._later(max(float(asked), _TROUBLE_S))
        since = self._stand.troubled_at or self._now
        if self._age(since) > _PATIENCE_S:
            raise error
        self._stand = replace(self._stand, troubled_at=since)
        return self._later(max(float(asked), _TROUBLE_S))

    def _withdrawn(self) -> str:
        """Cancels the jobs of this task that live; says what came of it."""
        if not self._owns:
            return "they go on"
        try:
            lost = (*self._stand.sending, *self._stand.doubted)
            if lost and self._backend.finds:
                self._adopt(lost)
            self._cancel(self._stand.those(LIVE))
        except ToolError as error:
            return f"not all of them could be cancelled ({error.message.rstrip('.')})"
        return "they were cancelled"

    def _cancel(self, jobs: Mapping[str, JobState]) -> None:
        for name, job in jobs.items():
            self._heard(name, self._backend.cancel(job.id))

    def _heard(self, name: str, job: JobState) -> None:
        self._stand = self._stand.with_job(name, job, self._now)
