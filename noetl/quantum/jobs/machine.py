"""The jobs of a task, from one call to the next.

Nothing is sent before the log holds the intent, nothing is waited for before it holds the job's id, and what may have been
sent without our hearing of it is looked for before it is sent again (`sending`). Then jobs are looked after (`tending`), and
what they measured is fetched (`collecting`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from noetl.errors import ToolError
from noetl.pipeline.model import Later
from noetl.quantum.jobs import collecting, sending, tending
from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.collecting import Done
from noetl.quantum.jobs.limiter import Throttled
from noetl.quantum.jobs.stand import DEAD, LIVE, Stand, hash_of, read
from noetl.quantum.jobs.visit import Desk, Goal, Visit
from noetl.quantum.model import JobState, Order

#: Seconds after which a call begins no further request.
_SLICE_S: Final = 2.0
#: How long a vendor may answer nothing that helps, in seconds, before the task fails: with errors, and with "slow down".
_PATIENCE_S: Final = 3600.0
_LONG_PATIENCE_S: Final = 24 * 3600.0
#: First pause after a request that failed and may go well later, in seconds.
_TROUBLE_S: Final = 5.0
#: Of the time of a task, at most so many seconds are kept back: to cancel its jobs in.
_RESERVE_S: Final = 20.0
#: How long a task that fails tries to cancel its jobs, in seconds, and the pause between two calls of it.
_WITHDRAWAL_S: Final = 60.0
_AGAIN_S: Final = 0.1


class Machine:
    """One call: from the stand in the checkpoint to the next one, or to the end. `jobs` are those of another task that this
    one looks after."""

    def __init__(
        self, desk: Desk, orders: Sequence[Order], goal: Goal, jobs: Mapping[str, JobState] | None = None
    ) -> None:
        now = desk.now().isoformat()
        stand = Stand(hash_of(orders), 0, now, now, jobs=dict(jobs or {}))
        ends = time.monotonic() + _SLICE_S
        self._desk = desk
        self._visit = Visit(desk, {one.name: one for one in orders}, goal, jobs is None, stand, ends)
        lost = self._visit.missing
        if jobs is not None and (lost or not jobs):
            which = f" of {', '.join(lost[:5])}" if lost else ""
            raise ToolError("client_error", f"`job` tells of no job{which}.", type="UnknownJob")

    def advance(self) -> Later | Done:
        visit, recorded = self._visit, read(self._desk.call.checkpoint)
        visit.stand = self._entered(recorded)
        if self._desk.call.abandoned:
            return self._abandoned()
        if recorded is None and visit.missing:
            return self._announced()
        if visit.stand.error is not None:
            return self._leave(recorded)
        try:
            self._check_time()
            return self._stepped()
        except Throttled as error:
            return self._later(error.seconds)
        except ToolError as error:
            return self._failed(error, recorded)

    def _entered(self, recorded: Stand | None) -> Stand:
        """The stand at this attempt: jobs that died in an earlier one do not count."""
        stand = recorded or self._visit.stand
        if stand.orders != self._visit.stand.orders:
            raise ToolError(
                "internal",
                "The circuits of this task are not those that were submitted: another version of NoETL or Cirq builds"
                " them. Finish it with the version that began it, or start it again.",
                type="OrdersChanged",
            )
        attempt, given = self._desk.call.attempt, self._desk.call.deadline_s
        if stand.attempt == attempt:
            return stand
        reserve = 0.0 if given is None else min(_RESERVE_S, given / 4)
        dead = stand.those(DEAD) if self._visit.owns else {}
        jobs = {name: job for name, job in stand.jobs.items() if name not in dead}
        fresh = replace(stand, error=None, leaving_at="", troubled_at="", resent=())
        return replace(fresh, attempt=attempt, reserve_s=reserve, jobs=jobs)

    # --- what a call does ------------------------------------------------------------------------

    def _stepped(self) -> Later | Done:
        visit = self._visit
        if visit.stand.sending:
            sending.send(visit)
        if visit.stand.doubted and (wait := sending.search(visit)) > 0.0:
            return self._later(wait)
        tending.drop(visit)
        if visit.missing:
            return self._announced()
        self._looked_after()
        wait = sending.settle(visit)
        tending.drop(visit)
        visit.note(troubled_at="")
        is_over = self._is_done and wait == 0.0 and not visit.stand.surplus
        return collecting.done(visit) if is_over else self._later(self._pause(wait))

    def _looked_after(self) -> None:
        visit = self._visit
        if visit.goal == "cancelled":
            tending.cancel(visit)
        elif visit.goal != "submitted":
            # What has ended comes first: with many jobs there may be no time left behind the look.
            collecting.fetch(visit)
            tending.look(visit)
            collecting.fetch(visit)

    @property
    def _is_done(self) -> bool:
        visit = self._visit
        match visit.goal:
            case "submitted":
                return True
            case "ended" | "cancelled":
                return not visit.stand.those(LIVE)
            case "fetched":
                return all(name in visit.stand.samples for name in visit.orders)

    def _announced(self) -> Later:
        sending.announce(self._visit)
        return self._later(0.0)

    # --- time ------------------------------------------------------------------------------------

    def _pause(self, wait: float) -> float:
        """Seconds until the next call; `wait` is what a last look asks for."""
        visit = self._visit
        if collecting.unfetched(visit):
            return 0.0
        if self._is_done:
            return wait
        return visit.grown(visit.stand.changed_at, self._desk.polling.every)

    def _later(self, seconds: float) -> Later:
        left = self._desk.call.deadline_s
        if left is not None:
            # Before its time is over the task is called once more, to cancel what it has submitted.
            seconds = min(seconds, max(0.0, left - self._visit.stand.reserve_s))
        return Later(seconds, self._visit.stand.as_json())

    def _check_time(self) -> None:
        left = self._desk.call.deadline_s
        if left is not None and left <= self._visit.stand.reserve_s:
            raise job_errors.late(self._desk.provider, self._visit.stand.those(LIVE))

    # --- failures --------------------------------------------------------------------------------

    def _failed(self, error: ToolError, recorded: Stand | None) -> Later:
        """Waits where another try may help, else begins to leave."""
        visit, final = self._visit, error.type in job_errors.FINAL
        if error.kind == "cancelled":
            raise error
        if error.retryable and not final and (pause := self._patience(error)) is not None:
            return self._later(pause)
        in_vain = error.type == job_errors.LATE or (not error.retryable and (final or visit.submitting))
        visit.note(error=job_errors.as_json(error), leaving_at=visit.now if in_vain and visit.owns else "")
        return self._leave(recorded)

    def _patience(self, error: ToolError) -> float | None:
        """Seconds until a request that failed is tried again; None where it has failed for too long."""
        visit = self._visit
        since = visit.stand.troubled_at or visit.now
        patience = _LONG_PATIENCE_S if error.kind == "rate_limit" else _PATIENCE_S
        if visit.age(since) > patience:
            return None
        visit.note(troubled_at=since)
        asked = float(error.extras.get("http", {}).get("retry_after") or 0.0)
        return max(min(asked, _LONG_PATIENCE_S), _TROUBLE_S, visit.grown(since, _TROUBLE_S))

    def _leave(self, recorded: Stand | None) -> Later:
        """Fails, once the jobs are cancelled that nobody will fetch, and the log knows what there is to know."""
        visit = self._visit
        again, why = self._withdrawn() if visit.stand.leaving_at else (0.0, None)
        if again > 0.0 or (recorded is not None and visit.stand != recorded):
            return Later(again, visit.stand.as_json())
        assert visit.stand.error is not None, "who leaves knows why"
        error = job_errors.from_json(visit.stand.error)
        live = visit.stand.those(LIVE) if visit.owns or error.type == job_errors.LATE else {}
        raise job_errors.told(error, live, why)

    def _abandoned(self) -> Later:
        """Cancels the jobs of a task that nobody waits for any more. Raises ToolError: `cancelled` once none is left."""
        visit = self._visit
        if not visit.owns:
            raise job_errors.abandoned()
        if not visit.stand.leaving_at:
            visit.note(leaving_at=visit.now)
        again, why = self._withdrawn()
        if again > 0.0:
            return Later(again, visit.stand.as_json())
        stand = visit.stand
        doubted = [name for name in (*stand.sending, *stand.doubted) if name not in stand.jobs]
        if doubted and not visit.backend.finds:
            raise job_errors.unknown(self._desk.provider, {name: self._desk.token(name) for name in doubted})
        live = stand.those(LIVE)
        raise job_errors.left(self._desk.provider, live, why) if live or why else job_errors.abandoned()

    def _withdrawn(self) -> tuple[float, ToolError | None]:
        """Cancels the jobs of the task. Yields in how many seconds that is tried again (0: not at all), and why not all
        were cancelled."""
        again, why = _AGAIN_S, None
        try:
            if tending.withdraw(self._visit):
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
        left = _WITHDRAWAL_S - self._visit.age(self._visit.stand.leaving_at)
        given = self._desk.call.deadline_s
        return min(left, math.inf if given is None else given - 1.0)
