"""What IonQ's API answers, read with care: how jobs stand, lists of them, and what they
measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from noetl.facts.json import Json, JsonMap
from noetl.quantum.backends.ports import answer_error
from noetl.quantum.config.task import as_mapping
from noetl.quantum.model import JobState, JobStatus

#: Characters of an id.
_LONGEST_ID: Final = 200
#: No time and no price is that large, and an integer may be larger than any float.
_TOO_MUCH: Final = 10**15
_STATUS: Final[Mapping[str, JobStatus]] = {
    "submitted": "queued",
    "ready": "queued",
    "started": "running",
    "running": "running",
    "completed": "done",
    "failed": "failed",
    "canceled": "cancelled",
    "deleted": "cancelled",
}
#: Statuses of a job that was cancelled.
CANCELLED: Final = frozenset(name for name, status in _STATUS.items() if status == "cancelled")
#: Failures that say nothing against the job.
_PASSING: Final = frozenset(
    {
        "InternalError",
        "QuantumComputerError",
        "SystemCancel",
        "PreflightError",
        "SimulationTimeout",
        "SimulationError",
    }
)


def state_of(job: Json) -> JobState:
    """How a job stands. Raises ToolError(server_error), as all of these do, where the answer cannot
    be right."""
    said = as_mapping(job)
    status, name = _STATUS.get(str(said.get("status"))), said.get("id")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_ID:
        raise answer_error("ionq", "a job has no id")
    if status is None:
        raise answer_error("ionq", f"job {name} has the status {str(said.get('status'))[:40]!r}")
    begun, started = _instant(said.get("submitted_at")), _instant(said.get("started_at"))
    failure = as_mapping(said.get("failure"))
    ran_ms = amount(said.get("execution_duration_ms"))
    return JobState(
        id=name,
        status=status,
        submitted_at=_show(begun),
        started_at=_show(started),
        finished_at=_show(_instant(said.get("completed_at"))),
        queue_s=max(0.0, (started - begun).total_seconds()) if begun and started else None,
        run_s=None if ran_ms is None else ran_ms / 1000,
        message=": ".join(str(one)[:300] for one in (failure.get("code"), failure.get("message")) if one),
        retryable=str(failure.get("code")) in _PASSING,
    )


def weights_of(said: Json, qubits: int, job_id: str) -> list[tuple[int, float]]:
    """The states that a job on so many qubits showed, as numbers, and their probabilities. Raises
    ToolError for an answer that says something else."""
    try:
        weights = [(int(state), float(share)) for state, share in said.items()]
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise answer_error("ionq", f"the results of job {job_id} are no probabilities") from error
    if abs(sum(share for _, share in weights) - 1.0) > 1e-3 or any(share < 0 for _, share in weights):
        raise answer_error("ionq", f"the probabilities of job {job_id} do not sum to 1")
    if not all(0 <= state < 1 << qubits for state, _ in weights):
        raise answer_error("ionq", f"the results of job {job_id} are of more qubits than it has")
    return weights


def number_of(said: JsonMap, *names: str) -> float:
    """The first of the fields that is there. Raises ToolError where none of them is a number."""
    value = amount(next((said[name] for name in names if name in said), None))
    if value is None:
        raise answer_error("ionq", f"it does not tell `{names[0]}`")
    return value


def amount(value: Json) -> float | None:
    """A number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < _TOO_MUCH else None


def jobs_of(said: Json) -> list[JsonMap]:
    """The jobs of a list, or of a page of one. Raises ToolError for an answer that holds none."""
    jobs = as_mapping(said).get("jobs")
    if not isinstance(jobs, list) or not all(isinstance(job, Mapping) for job in jobs):
        raise answer_error("ionq", "a list of jobs holds none")
    return jobs


def are_before(page: Sequence[JsonMap], since: datetime) -> bool:
    """Whether all of a page, and with it of those behind it, is older than `since`."""
    instants = [_instant(job.get("submitted_at")) for job in page]
    known = [one for one in instants if one is not None]
    return (
        len(known) == len(page) and known == sorted(known, reverse=True) and all(one < since for one in known)
    )


def _instant(text: Json) -> datetime | None:
    try:
        when = datetime.fromisoformat(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (TypeError, ValueError, OverflowError):
        return None


def _show(instant: datetime | None) -> str:
    return "" if instant is None else instant.isoformat()
