"""What jobs measured is fetched, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl.quantum.jobs.job_pass import JobPass
from noetl.quantum.jobs.ledger import samples_as_json, samples_from_json
from noetl.quantum.model import JobState, Samples


@dataclass(frozen=True, slots=True)
class JobResults:
    """The jobs by order, and what they measured, where it was fetched."""

    jobs: Mapping[str, JobState]
    samples: Mapping[str, Samples] = field(default_factory=dict)


def jobs_to_fetch(visit: JobPass) -> dict[str, JobState]:
    """The jobs that are done and whose results are wanted, by order."""
    if visit.goal != "fetched":
        return {}
    done = visit.stand.those({"done"})
    return {name: job for name, job in done.items() if name not in visit.stand.samples}


def fetch(visit: JobPass) -> None:
    """Fetches what is there, as much as there is time for."""
    for name, job in jobs_to_fetch(visit).items():
        if not visit.has_time():
            return
        said = samples_as_json(visit.backend.fetch(job.id, visit.orders[name]))
        visit.note(samples={**visit.stand.samples, name: said}, changed_at=visit.now)


def done(visit: JobPass) -> JobResults:
    """What the task has come to."""
    stand = visit.stand
    samples = {name: samples_from_json(said, visit.orders[name]) for name, said in stand.samples.items()}
    return JobResults(stand.jobs, samples)
