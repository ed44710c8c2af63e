"""Jobs on machines elsewhere: sent once, waited for without a worker, fetched once, whatever dies
in between.

Each function is one call of a task; what it yields is the next wait, or the end. See
`docs/decisions/0032-jobs-are-sent-by-ticket.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.pipeline.model import Later
from noetl.quantum.jobs.collecting import JobResults
from noetl.quantum.jobs.job_pass import JobContext
from noetl.quantum.jobs.machine import JobMachine
from noetl.quantum.model import CircuitRun, JobState

__all__ = ["JobContext", "JobResults", "cancel", "fetch", "poll", "run", "submit"]


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
