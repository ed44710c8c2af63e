"""Orders become jobs, each one job: announced, sent by ticket, and looked for before they are sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.stand import DEAD, LIVE
from noetl.quantum.jobs.visit import Visit
from noetl.quantum.model import MaybeSubmitted

#: Orders that one ticket is for.
_BATCH: Final = 10
#: How far the clocks of the vendor and of this machine may differ.
_SKEW: Final = timedelta(minutes=10)


def announce(visit: Visit) -> None:
    """The intent to send the next orders: nothing is sent before it is in the log."""
    most = _BATCH if visit.backend.finds else 1
    ticket, sending = visit.desk.tickets.issue(), tuple(visit.missing[:most])
    visit.note(ticket=ticket, sending=sending, doubted=(), missed_at="")


def send(visit: Visit) -> None:
    """Sends what the ticket is for. Where it is not ours, somebody else may have sent it. Raises ToolError, MaybeSubmitted
    once it is noted what is in doubt."""
    ticket, names = visit.stand.ticket, visit.stand.sending
    visit.note(ticket="", sending=())
    if not visit.desk.tickets.redeem(ticket):
        visit.note(doubted=names, contested_at=visit.now)
        return
    visit.submitting = True
    for name in names:
        if not visit.has_time():
            break
        try:
            job = visit.backend.submit(visit.orders[name], visit.desk.token(name))
        except MaybeSubmitted:
            visit.note(doubted=(name,))
            raise
        visit.hear(name, job)
    visit.submitting = False


def search(visit: Visit) -> float:
    """Looks for what may have been sent. Yields how long to wait before the next look, in seconds; 0: it is known now
    what is there and what is not. Raises ToolError where nobody can know."""
    stand = visit.stand
    if not visit.backend.finds:
        if not visit.backend.resubmits or set(stand.doubted) & set(stand.resent):
            lost = {name: visit.desk.token(name) for name in stand.doubted}
            raise job_errors.unknown(visit.desk.provider, lost)
        visit.note(doubted=(), resent=(*stand.resent, *stand.doubted))
        return 0.0
    adopt(visit, stand.doubted)
    left = tuple(name for name in stand.doubted if name not in visit.stand.jobs)
    missed_at = stand.missed_at or visit.now
    wait = _until(visit, missed_at) if left else 0.0
    if wait > 0.0:
        visit.note(doubted=left, missed_at=missed_at)
        return wait
    # What is sent again now may still come from him who was to send it before.
    contested_at = visit.now if left else visit.stand.contested_at
    visit.note(doubted=(), missed_at="", contested_at=contested_at)
    return 0.0


def settle(visit: Visit) -> float:
    """A last look where two may have sent the same: who was thought dead may have sent it late. Yields how long that
    look is to wait, in seconds."""
    if not visit.stand.contested_at or not visit.orders or not visit.backend.finds:
        return 0.0
    if wait := _until(visit, visit.stand.contested_at, 2):
        return wait
    adopt(visit, tuple(visit.orders))
    visit.note(contested_at="")
    return 0.0


def adopt(visit: Visit, names: Sequence[str]) -> None:
    """Finds the jobs of these orders. For one that has none yet, the oldest that is not dead counts; others that live are
    to be cancelled."""
    since = datetime.fromisoformat(visit.stand.since) - _SKEW
    found = visit.backend.find([visit.desk.token(name) for name in names], since)
    for name in names:
        jobs = [job for job in found.get(visit.desk.token(name), ()) if job.status not in DEAD]
        mine = visit.stand.jobs.get(name) or next(iter(jobs), None)
        if mine is None:
            continue
        if name not in visit.stand.jobs:
            # A list tells neither the cost of a job nor its calibration: one that is done is to be looked at once more.
            visit.hear(name, replace(mine, status="running") if mine.status == "done" else mine)
        more = (job.id for job in jobs if job.id != mine.id and job.status in LIVE)
        visit.note(surplus=tuple(dict.fromkeys((*visit.stand.surplus, *more))))


def _until(visit: Visit, instant: str, times: int = 1) -> float:
    """Seconds until what was sent at `instant` can be found, if it is there; `times` as long for what may come late."""
    return max(0.0, times * visit.backend.settle_s - visit.age(instant))
