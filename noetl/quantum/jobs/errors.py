"""The errors of jobs that failed, were cancelled, or are unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from noetl.errors import ToolError
from noetl.facts.json import JsonMap
from noetl.quantum.model import JobState

#: The type of the error of a task whose time is over.
LATE: Final = "JobTimeout"
#: Types of errors that are the end of an attempt, whether another one may go well or not.
FINAL: Final = frozenset({"JobFailed", "JobCancelled", LATE})


def job_error(provider: str, name: str, job: JobState) -> ToolError:
    """A job that failed, or that somebody cancelled."""
    place, why = f"Job {job.id} of {name} at {provider}", job.message.rstrip(".")
    extras = {"jobs": {name: job.id}}
    if job.status == "cancelled":
        return ToolError("client_error", f"{place} was cancelled.", type="JobCancelled", extras=extras)
    return ToolError(
        "server_error" if job.retryable else "client_error",
        f"{place} failed{': ' + why if why else ''}.",
        retryable=job.retryable,
        type="JobFailed",
        extras=extras,
    )


def too_late(provider: str, jobs: Mapping[str, JobState]) -> ToolError:
    """The time of the task is over; `jobs` have not ended."""
    which = f": {ids(jobs.values())}" if jobs else ""
    return ToolError(
        "timeout",
        f"The jobs of this task at {provider} did not end within its timeout{which}.",
        retryable=True,
        type=LATE,
        extras={"jobs": {name: job.id for name, job in jobs.items()}},
    )


def with_fate(error: ToolError, live: Mapping[str, JobState], why: ToolError | None) -> ToolError:
    """The error that a task ends with, and what becomes of its jobs: `live` go on, `why` they could
    not be cancelled."""
    because = f" ({why.message.rstrip('.')})" if why else ""
    if error.type == LATE:
        fate = (
            f"not all of them could be cancelled{because}"
            if why
            else "they go on"
            if live
            else "they were cancelled"
        )
    elif live:
        fate = f"{ids(live.values())} of this task {'goes' if len(live) == 1 else 'go'} on{because}"
    else:
        return error
    left = {name: job.id for name, job in live.items()}
    extras = {**error.extras, "jobs": {**error.extras.get("jobs", {}), **left}}
    message = f"{error.message.rstrip('.')}; {fate}."
    return ToolError(error.kind, message, retryable=error.retryable, type=error.type, extras=extras)


def abandonment_error() -> ToolError:
    """Nothing is left of a task that was cancelled."""
    return ToolError("cancelled", "The task is not waited for any more.", type="Abandoned")


def leftover_error(provider: str, live: Mapping[str, JobState], why: ToolError | None) -> ToolError:
    """The jobs of a cancelled task that still run, and why."""
    which = f"Jobs {ids(live.values())}" if live else "Jobs that may have been sent"
    because = f" ({why.message.rstrip('.')})" if why else ""
    return ToolError(
        why.kind if why else "internal",
        f"{which} of this task could not be cancelled at {provider}{because}; look after them in its portal.",
        type="JobsLeft",
        extras={"jobs": {name: job.id for name, job in live.items()}},
    )


def unknown_submission(provider: str, tokens: Mapping[str, str]) -> ToolError:
    """Orders, by the labels that they were sent with, for which there may be a job or not."""
    return ToolError(
        "connection",
        f"It is not known whether {provider} has a job of {', '.join(tokens)}: its answer got lost, "
        "and there is no list of"
        f" jobs to find it in. Look for {', '.join(tokens.values())} in the portal of the vendor; with"
        " `backend.options.resubmit: true` the next attempt sends it again, and may pay twice.",
        type="UnknownSubmission",
    )


def as_json(error: ToolError) -> JsonMap:
    """The error, for a checkpoint."""
    said = {"kind": error.kind, "message": error.message, "type": error.type, "retryable": error.retryable}
    return {**said, "extras": error.extras} if error.extras else said


def from_json(said: JsonMap) -> ToolError:
    """What `as_json` wrote."""
    return ToolError(
        said["kind"],
        said["message"],
        retryable=said["retryable"],
        type=said["type"],
        extras=said.get("extras"),
    )


def ids(jobs: Iterable[JobState]) -> str:
    """At most five of them."""
    some = [job.id for job in jobs]
    more = f" and {len(some) - 5} more" if len(some) > 5 else ""
    return ", ".join(some[:5]) + more
