"""What jobs measured is fetched, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl.quantum.jobs.stand import kept, restored
from noetl.quantum.jobs.visit import Visit
from noetl.quantum.model import JobState, Samples


@dataclass(frozen=True, slots=True)
class Done:
    """The jobs by order, and what they measured, where it was fetched."""

    jobs: Mapping[str, JobState]
    samples: Mapping[str, Samples] = field(default_factory=dict)


def unfetched(visit: Visit) -> dict[str, JobState]:
    """The jobs that are done and whose results are wanted, by order."""
    if visit.goal != "fetched":
        return {}
    done = visit.stand.those({"done"})
    return {name: job for name, job in done.items() if name not in visit.stand.samples}


def fetch(visit: Visit) -> None:
    """Fetches what is there, as much as there is time for."""
    for name, job in unfetched(visit).items():
        if not visit.has_time():
            return
        said = kept(visit.backend.fetch(job.id, visit.orders[name]))
        visit.note(samples={**visit.stand.samples, name: said}, changed_at=visit.now)


def done(visit: Visit) -> Done:
    """What the task has come to."""
    stand = visit.stand
    samples = {name: restored(said, visit.orders[name]) for name, said in stand.samples.items()}
    return Done(stand.jobs, samples)
