"""Orders become jobs, each one job: announced, sent by ticket, and looked for before they are sent
again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from noetl.quantum.backends.ports import MaybeSubmitted
from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.job_pass import JobPass
from noetl.quantum.jobs.ledger import DEAD, LIVE

#: Orders that one ticket is for.
_BATCH: Final = 10
#: How far the clocks of the vendor and of this machine may differ.
_SKEW: Final = timedelta(minutes=10)


def announce(job_pass: JobPass) -> None:
    """The intent to send the next orders: nothing is sent before it is in the log."""
    most = _BATCH if job_pass.backend.finds else 1
    ticket, sending = job_pass.context.send_tokens.issue(), tuple(job_pass.missing[:most])
    job_pass.note(ticket=ticket, sending=sending, doubted=(), missed_at="")


def send(job_pass: JobPass) -> None:
    """Sends what the ticket is for. Where it is not ours, somebody else may have sent it. Raises
    ToolError, MaybeSubmitted once it is noted what is in doubt."""
    ticket, names = job_pass.ledger.ticket, job_pass.ledger.sending
    job_pass.note(ticket="", sending=())
    if not job_pass.context.send_tokens.redeem(ticket):
        job_pass.note(doubted=names, contested_at=job_pass.now)
        return
    job_pass.submitting = True
    for name in names:
        if not job_pass.has_time():
            break
        try:
            job = job_pass.backend.submit(job_pass.orders[name], job_pass.context.token(name))
        except MaybeSubmitted:
            job_pass.note(doubted=(name,))
            raise
        job_pass.hear(name, job)
    job_pass.submitting = False


def search(job_pass: JobPass) -> float:
    """Looks for what may have been sent. Yields how long to wait before the next look, in seconds;
    0: it is known now what is there and what is not. Raises ToolError where nobody can know."""
    ledger = job_pass.ledger
    if not job_pass.backend.finds:
        if not job_pass.backend.resubmits or set(ledger.doubted) & set(ledger.resent):
            lost = {name: job_pass.context.token(name) for name in ledger.doubted}
            raise job_errors.unknown_submission(job_pass.context.provider, lost)
        job_pass.note(doubted=(), resent=(*ledger.resent, *ledger.doubted))
        return 0.0
    adopt(job_pass, ledger.doubted)
    left = tuple(name for name in ledger.doubted if name not in job_pass.ledger.jobs)
    missed_at = ledger.missed_at or job_pass.now
    wait = _until(job_pass, missed_at) if left else 0.0
    if wait > 0.0:
        job_pass.note(doubted=left, missed_at=missed_at)
        return wait
    # What is sent again now may still come from him who was to send it before.
    contested_at = job_pass.now if left else job_pass.ledger.contested_at
    job_pass.note(doubted=(), missed_at="", contested_at=contested_at)
    return 0.0


def settle(job_pass: JobPass) -> float:
    """A last look where two may have sent the same: who was thought dead may have sent it late.
    Yields how long that look is to wait, in seconds."""
    if not job_pass.ledger.contested_at or not job_pass.orders or not job_pass.backend.finds:
        return 0.0
    if wait := _until(job_pass, job_pass.ledger.contested_at, 2):
        return wait
    adopt(job_pass, tuple(job_pass.orders))
    job_pass.note(contested_at="")
    return 0.0


def adopt(job_pass: JobPass, names: Sequence[str]) -> None:
    """Finds the jobs of these orders. For one that has none yet, the oldest that is not dead
    counts; others that live are to be cancelled."""
    since = datetime.fromisoformat(job_pass.ledger.since) - _SKEW
    found = job_pass.backend.find([job_pass.context.token(name) for name in names], since)
    for name in names:
        jobs = [job for job in found.get(job_pass.context.token(name), ()) if job.status not in DEAD]
        mine = job_pass.ledger.jobs.get(name) or next(iter(jobs), None)
        if mine is None:
            continue
        if name not in job_pass.ledger.jobs:
            # A list tells neither the cost of a job nor its calibration: one that is done is to be
            # looked at once more.
            job_pass.hear(name, replace(mine, status="running") if mine.status == "done" else mine)
        more = (job.id for job in jobs if job.id != mine.id and job.status in LIVE)
        job_pass.note(surplus=tuple(dict.fromkeys((*job_pass.ledger.surplus, *more))))


def _until(job_pass: JobPass, instant: str, times: int = 1) -> float:
    """Seconds until what was sent at `instant` can be found, if it is there; `times` as long for
    what may come late."""
    return max(0.0, times * job_pass.backend.settle_s - job_pass.age(instant))
