"""The jobs of a task, from one call to the next.

Nothing is sent before the log holds the intent, nothing is waited for before it holds the job's id,
and what may have been sent without our hearing of it is looked for before it is sent again. See
`docs/decisions/0032-jobs-are-sent-by-ticket.md`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from noetl.errors import ToolError
from noetl.pipeline.model import Later
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.job_pass import Goal, JobContext, JobPass, JobResults
from noetl.quantum.jobs.ledger import DEAD, LIVE, JobLedger, hash_of, read_ledger
from noetl.quantum.model import CircuitRun, JobState

#: Seconds after which a call begins no further request.
_SLICE_S: Final = 2.0
#: How long a vendor may answer nothing that helps, in seconds, before the task fails: with errors,
#: and with "slow down".
_PATIENCE_S: Final = 3600.0
_LONG_PATIENCE_S: Final = 24 * 3600.0
#: First pause after a request that failed and may go well later, in seconds.
_TROUBLE_S: Final = 5.0
#: Of the time of a task, at most so many seconds are kept back: to cancel its jobs in.
_RESERVE_S: Final = 20.0
#: How long a task that fails tries to cancel its jobs, in seconds, and the pause between two calls
#: of it.
_WITHDRAWAL_S: Final = 60.0
_AGAIN_S: Final = 0.1


class JobMachine(JobPass):
    """Decides what a call does: from the ledger in the checkpoint to the next one, or to the end.
    `jobs` are those of another task that this one looks after."""

    def __init__(
        self,
        context: JobContext,
        orders: Sequence[CircuitRun],
        goal: Goal,
        jobs: Mapping[str, JobState] | None = None,
    ) -> None:
        now = context.now().isoformat()
        ledger = JobLedger(hash_of(orders), 0, now, now, jobs=dict(jobs or {}))
        ends = context.monotonic() + _SLICE_S
        super().__init__(context, {one.name: one for one in orders}, goal, jobs is None, ledger, ends)
        lost = self.missing
        if jobs is not None and (lost or not jobs):
            which = f" of {', '.join(lost[:5])}" if lost else ""
            raise ToolError("client_error", f"`job` tells of no job{which}.", type="UnknownJob")

    def advance(self) -> Later | JobResults:
        recorded = read_ledger(self.context.call.checkpoint)
        self.ledger = self._enter(recorded)
        if self.context.call.abandoned:
            return self._abandon()
        if recorded is None and self.missing:
            return self._announce_next()
        if self.ledger.error is not None:
            return self._leave(recorded)
        try:
            left = self.context.call.deadline_s
            if left is not None and left <= self.ledger.reserve_s:
                raise job_errors.too_late(self.context.provider, self.ledger.those(LIVE))
            return self._step()
        except Throttled as error:
            return self._later(error.seconds)
        except ToolError as error:
            return self._fail(error, recorded)

    def _enter(self, recorded: JobLedger | None) -> JobLedger:
        """The ledger at this attempt: jobs that died in an earlier one do not count."""
        ledger = recorded or self.ledger
        if ledger.orders != self.ledger.orders:
            raise ToolError(
                "internal",
                "The circuits of this task are not those that were submitted: another version of "
                "NoETL or Cirq builds"
                " them. Finish it with the version that began it, or start it again.",
                type="OrdersChanged",
            )
        attempt, given = self.context.call.attempt, self.context.call.deadline_s
        if ledger.attempt == attempt:
            return ledger
        reserve = 0.0 if given is None else min(_RESERVE_S, given / 4)
        dead = ledger.those(DEAD) if self.owns else {}
        jobs = {name: job for name, job in ledger.jobs.items() if name not in dead}
        fresh = replace(ledger, error=None, leaving_at="", troubled_at="", resent=())
        return replace(fresh, attempt=attempt, reserve_s=reserve, jobs=jobs)

    # --- what a call does ------------------------------------------------------------------------

    def _step(self) -> Later | JobResults:
        if self.ledger.sending:
            self.send()
        if self.ledger.doubted and (wait := self.search()) > 0.0:
            return self._later(wait)
        self.drop()
        if self.missing:
            return self._announce_next()
        self._look_after()
        wait = self.settle()
        self.drop()
        self.note(troubled_at="")
        is_over = self._is_done and wait == 0.0 and not self.ledger.surplus
        return self.results() if is_over else self._later(self._pause(wait))

    def _look_after(self) -> None:
        if self.goal == "cancelled":
            self.cancel()
        elif self.goal != "submitted":
            # What has ended comes first: with many jobs there may be no time left behind the look.
            self.fetch()
            self.look()
            self.fetch()

    @property
    def _is_done(self) -> bool:
        match self.goal:
            case "submitted":
                return True
            case "ended" | "cancelled":
                return not self.ledger.those(LIVE)
            case "fetched":
                return all(name in self.ledger.samples for name in self.orders)

    def _announce_next(self) -> Later:
        self.announce()
        return self._later(0.0)

    # --- time ------------------------------------------------------------------------------------

    def _pause(self, wait: float) -> float:
        """Seconds until the next call; `wait` is what a last look asks for."""
        if self.jobs_to_fetch():
            return 0.0
        if self._is_done:
            return wait
        return self.next_pause(self.ledger.changed_at, self.context.polling.every)

    def _later(self, seconds: float) -> Later:
        left = self.context.call.deadline_s
        if left is not None:
            # Before its time is over the task is called once more, to cancel what it has submitted.
            seconds = min(seconds, max(0.0, left - self.ledger.reserve_s))
        return Later(seconds, self.ledger.as_json())

    # --- failures --------------------------------------------------------------------------------

    def _fail(self, error: ToolError, recorded: JobLedger | None) -> Later:
        """Waits where another try may help, else begins to leave."""
        final = error.type in job_errors.FINAL
        if error.kind == "cancelled":
            raise error
        if error.retryable and not final and (pause := self._patience(error)) is not None:
            return self._later(pause)
        in_vain = error.type == job_errors.LATE or (not error.retryable and (final or self.submitting))
        self.note(error=job_errors.as_json(error), leaving_at=self.now if in_vain and self.owns else "")
        return self._leave(recorded)

    def _patience(self, error: ToolError) -> float | None:
        """Seconds until a request that failed is tried again; None where it has failed for too
        long."""
        since = self.ledger.troubled_at or self.now
        patience = _LONG_PATIENCE_S if error.kind == "rate_limit" else _PATIENCE_S
        if self.age(since) > patience:
            return None
        self.note(troubled_at=since)
        asked = float(error.extras.get("http", {}).get("retry_after") or 0.0)
        return max(min(asked, _LONG_PATIENCE_S), _TROUBLE_S, self.next_pause(since, _TROUBLE_S))

    def _leave(self, recorded: JobLedger | None) -> Later:
        """Fails, once the jobs are cancelled that will not be fetched, and the log knows what there
        is to know."""
        again, why = self._try_withdrawal() if self.ledger.leaving_at else (0.0, None)
        if again > 0.0 or (recorded is not None and self.ledger != recorded):
            return Later(again, self.ledger.as_json())
        assert self.ledger.error is not None, "who leaves knows why"
        error = job_errors.from_json(self.ledger.error)
        live = self.ledger.those(LIVE) if self.owns or error.type == job_errors.LATE else {}
        raise job_errors.with_fate(error, live, why)

    def _abandon(self) -> Later:
        """Cancels the jobs of a task whose result is not waited for any more. Raises ToolError:
        `cancelled` once none is left."""
        if not self.owns:
            raise job_errors.abandonment_error()
        if not self.ledger.leaving_at:
            self.note(leaving_at=self.now)
        again, why = self._try_withdrawal()
        if again > 0.0:
            return Later(again, self.ledger.as_json())
        ledger = self.ledger
        doubted = [name for name in (*ledger.sending, *ledger.doubted) if name not in ledger.jobs]
        if doubted and not self.backend.finds:
            raise job_errors.unknown_submission(
                self.context.provider, {name: self.context.token(name) for name in doubted}
            )
        live = ledger.those(LIVE)
        raise (
            job_errors.leftover_error(self.context.provider, live, why)
            if live or why
            else job_errors.abandonment_error()
        )

    def _try_withdrawal(self) -> tuple[float, ToolError | None]:
        """Cancels the jobs of the task. Yields in how many seconds that is tried again (0: not at
        all), and why not all were cancelled."""
        again, why = _AGAIN_S, None
        try:
            if self.withdraw():
                return 0.0, None
        except ToolError as error:
            if error.kind == "cancelled":
                raise
            why = error
            again = (
                error.seconds if isinstance(error, Throttled) else _TROUBLE_S if error.retryable else math.inf
            )
        return (again if again < self._withdrawal_s() else 0.0), why

    def _withdrawal_s(self) -> float:
        """Seconds that are left for cancelling jobs."""
        left = _WITHDRAWAL_S - self.age(self.ledger.leaving_at)
        given = self.context.call.deadline_s
        return min(left, math.inf if given is None else given - 1.0)


def run(context: JobContext, orders: Sequence[CircuitRun]) -> Later | JobResults:
    """One call of a task that submits, waits and fetches. Raises ToolError, as all of these do."""
    return JobMachine(context, orders, "fetched").advance()


def submit(context: JobContext, orders: Sequence[CircuitRun]) -> Later | JobResults:
    """One call of a task that leaves its jobs behind: `jobs` of what it is done with is what the
    others take."""
    return JobMachine(context, orders, "submitted").advance()


def poll(context: JobContext, jobs: Mapping[str, JobState]) -> Later | JobResults:
    """One call of a task that waits for the jobs of another one, however they end."""
    return JobMachine(context, (), "ended", jobs).advance()


def fetch(
    context: JobContext, orders: Sequence[CircuitRun], jobs: Mapping[str, JobState]
) -> Later | JobResults:
    """One call of a task that waits for the jobs of another one, and fetches what they measured."""
    return JobMachine(context, orders, "fetched", jobs).advance()


def cancel(context: JobContext, jobs: Mapping[str, JobState]) -> Later | JobResults:
    """One call of a task that cancels the jobs of another one. Those that ended stay as they
    are."""
    return JobMachine(context, (), "cancelled", jobs).advance()
