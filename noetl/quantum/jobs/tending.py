"""Jobs are looked after until they have ended: they are asked for, and cancelled where nobody wants them any more."""

from __future__ import annotations

from noetl.quantum.jobs import errors as job_errors
from noetl.quantum.jobs.sending import adopt
from noetl.quantum.jobs.stand import DEAD, LIVE
from noetl.quantum.jobs.visit import Visit


def look(visit: Visit) -> None:
    """Asks how the jobs stand that have not ended. Raises ToolError where results are wanted and a job has none."""
    names = {job.id: name for name, job in visit.stand.those(LIVE).items()}
    while names and visit.has_time():
        seen = visit.backend.look(list(names))
        for one, job in seen.items():
            visit.hear(names.pop(one), job)
        if not seen:
            break
    if visit.goal == "fetched":
        dead = next(iter(visit.stand.those(DEAD).items()), None)
        if dead is not None:
            raise job_errors.dead(visit.desk.provider, *dead)


def drop(visit: Visit) -> None:
    """Cancels the jobs that are one too many, as many as there is time for."""
    for job_id in visit.stand.surplus:
        if not visit.has_time():
            return
        visit.backend.cancel(job_id)
        visit.note(surplus=tuple(one for one in visit.stand.surplus if one != job_id))


def cancel(visit: Visit) -> None:
    """Cancels the jobs that live, as many as there is time for."""
    for name, job in visit.stand.those(LIVE).items():
        if not visit.has_time():
            return
        visit.hear(name, visit.backend.cancel(job.id))


def withdraw(visit: Visit) -> bool:
    """Cancels the jobs of this task that live, those among them that nobody has heard of yet. Yields whether none is left."""
    if visit.stand.sending and visit.desk.tickets.redeem(visit.stand.ticket):
        # Nobody has sent it, and nobody will.
        visit.note(ticket="", sending=())
    stand = visit.stand
    lost = (*stand.sending, *stand.doubted) if visit.backend.finds else ()
    if suspects := tuple(visit.orders) if stand.contested_at and visit.backend.finds else lost:
        adopt(visit, suspects)
    drop(visit)
    cancel(visit)
    hidden = any(name not in visit.stand.jobs for name in lost)
    if hidden and visit.age(stand.leaving_at) < visit.backend.settle_s:
        return False
    return not visit.stand.those(LIVE) and not visit.stand.surplus
