"""Jobs are looked after until they have ended: they are asked for, and cancelled where nobody wants
them any more."""

from __future__ import annotations

from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.job_pass import JobPass
from noetl.quantum.jobs.ledger import DEAD, LIVE
from noetl.quantum.jobs.sending import adopt


def look(job_pass: JobPass) -> None:
    """Asks how the jobs stand that have not ended. Raises ToolError where results are wanted and a
    job has none."""
    names = {job.id: name for name, job in job_pass.ledger.those(LIVE).items()}
    while names and job_pass.has_time():
        seen = job_pass.backend.look(list(names))
        for one, job in seen.items():
            job_pass.hear(names.pop(one), job)
        if not seen:
            break
    if job_pass.goal == "fetched":
        dead = next(iter(job_pass.ledger.those(DEAD).items()), None)
        if dead is not None:
            raise job_errors.job_ended(job_pass.context.provider, *dead)


def drop(job_pass: JobPass) -> None:
    """Cancels the jobs that are one too many, as many as there is time for."""
    for job_id in job_pass.ledger.surplus:
        if not job_pass.has_time():
            return
        job_pass.backend.cancel(job_id)
        job_pass.note(surplus=tuple(one for one in job_pass.ledger.surplus if one != job_id))


def cancel(job_pass: JobPass) -> None:
    """Cancels the jobs that live, as many as there is time for."""
    for name, job in job_pass.ledger.those(LIVE).items():
        if not job_pass.has_time():
            return
        job_pass.hear(name, job_pass.backend.cancel(job.id))


def withdraw(job_pass: JobPass) -> bool:
    """Cancels the jobs of this task that live, those among them that nobody has heard of yet.
    Yields whether none is left."""
    if job_pass.ledger.sending and job_pass.context.send_tokens.redeem(job_pass.ledger.ticket):
        # Nobody has sent it, and nobody will.
        job_pass.note(ticket="", sending=())
    ledger = job_pass.ledger
    lost = (*ledger.sending, *ledger.doubted) if job_pass.backend.finds else ()
    if suspects := tuple(job_pass.orders) if ledger.contested_at and job_pass.backend.finds else lost:
        adopt(job_pass, suspects)
    drop(job_pass)
    cancel(job_pass)
    hidden = any(name not in job_pass.ledger.jobs for name in lost)
    if hidden and job_pass.age(ledger.leaving_at) < job_pass.backend.settle_s:
        return False
    return not job_pass.ledger.those(LIVE) and not job_pass.ledger.surplus
