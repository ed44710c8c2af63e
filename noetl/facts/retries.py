"""Events behind the end of an execution that failed: whether its playbook's policy retries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    """It will be retried at `due_at` (UTC, ISO 8601), as attempt number `attempt` of `attempts`,
    the first execution included."""

    type: ClassVar[str] = "execution.retry.scheduled"
    attempt: int
    attempts: int
    due_at: str


@dataclass(frozen=True, slots=True)
class RetryDeclined:
    """It was attempt number `attempt`, and its failure stands, for that `reason`: a clause."""

    type: ClassVar[str] = "execution.retry.declined"
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class RetryStarted:
    """The execution `execution_id` runs it again, as attempt number `attempt`."""

    type: ClassVar[str] = "execution.retry.started"
    execution_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class RetryCancelled:
    """Somebody called off the retry that was scheduled, for that `reason`."""

    type: ClassVar[str] = "execution.retry.cancelled"
    reason: str = ""


RetryFact: TypeAlias = RetryScheduled | RetryDeclined | RetryStarted | RetryCancelled


@dataclass(frozen=True, slots=True)
class NextAttempt:
    """What the policy of the playbook made of a failure: attempt number `attempt` of `attempts`
    (0: not known) is `scheduled` for `due_at`, has `started` as `execution_id`, or does not come
    (`declined`, `cancelled`) for that `reason`."""

    standing: Literal["scheduled", "started", "declined", "cancelled"]
    attempt: int
    attempts: int = 0
    due_at: str | None = None
    execution_id: str | None = None
    reason: str = ""
