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


def jobs_to_fetch(job_pass: JobPass) -> dict[str, JobState]:
    """The jobs that are done and whose results are wanted, by order."""
    if job_pass.goal != "fetched":
        return {}
    done = job_pass.ledger.those({"done"})
    return {name: job for name, job in done.items() if name not in job_pass.ledger.samples}


def fetch(job_pass: JobPass) -> None:
    """Fetches what is there, as much as there is time for."""
    for name, job in jobs_to_fetch(job_pass).items():
        if not job_pass.has_time():
            return
        said = samples_as_json(job_pass.backend.fetch(job.id, job_pass.orders[name]))
        job_pass.note(samples={**job_pass.ledger.samples, name: said}, changed_at=job_pass.now)


def done(job_pass: JobPass) -> JobResults:
    """What the task has come to."""
    ledger = job_pass.ledger
    samples = {name: samples_from_json(said, job_pass.orders[name]) for name, said in ledger.samples.items()}
    return JobResults(ledger.jobs, samples)
