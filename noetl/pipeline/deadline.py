"""The time of an attempt: one timeout over all calls of its tool and the waits between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from noetl.errors import BadRequest
from noetl.expressions import evaluate
from noetl.facts.durations import compact, seconds
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Task
from noetl.pipeline.failures import CannotGoOn, blame
from noetl.pipeline.model import Later, PipelinePorts
from noetl.pipeline.names import TemplateScope

#: A hundred years: what is due later than that cannot be written as an instant.
LONGEST_WAIT_S: Final = 3.2e9


@dataclass(frozen=True, slots=True)
class CallDeadline:
    """`timeout` in seconds (None: as long as it takes), counted from `since` (UTC, ISO 8601)."""

    timeout: float | None
    since: str | None
    now: Callable[[], str] | None

    def left(self) -> float | None:
        """Seconds from now on, at least 0 and to the millisecond; None where there is no bound."""
        if self.timeout is None or self.since is None or self.now is None:
            return self.timeout
        spent = datetime.fromisoformat(self.now()) - datetime.fromisoformat(self.since)
        # A clock that was set back gives no more than the whole.
        return min(self.timeout, max(0.0, round(self.timeout - spent.total_seconds(), 3)))

    def has_some(self) -> bool:
        return self.left() != 0.0


def begin_deadline(timeout: float | None, since: str | None, now: Callable[[], str] | None) -> CallDeadline:
    """The time of an attempt whose tool was first called at `since`; now, where it was not called
    yet. Without a clock each call has the whole."""
    if timeout is None or now is None:
        return CallDeadline(timeout, None, None)
    return CallDeadline(timeout, since or now(), now)


def deadline_of(task: Task, sight: TemplateScope, since: str | None, ports: PipelinePorts) -> CallDeadline:
    """The time of an attempt of `task`. Raises CannotGoOn where nothing of it is left, or its
    timeout cannot be had."""
    if (written := task.spec.get("timeout")) is None:
        return begin_deadline(None, since, ports.now)
    with blame(f"The timeout of task '{task.name}'"):
        try:
            timeout = seconds(evaluate(written, sight, load=ports.load))
        except ValueError as error:
            raise BadRequest(str(error)) from error
    deadline = begin_deadline(timeout, since, ports.now)
    if since is None or deadline.has_some():
        return deadline
    message = (
        f"Task '{task.name}' did not end within its timeout of {compact(timeout)}: the calls of its tool and "
        "the waits between them took longer."
    )
    raise CannotGoOn(ErrorInfo("timeout", message, type="TaskTimeout", retryable=True))


def bound_wait(task: Task, later: Later, deadline: CallDeadline) -> Later:
    """The wait that the tool asks for, at most until the time of its task is over. Raises
    CannotGoOn where no clock can count to its end."""
    if not 0.0 <= later.seconds <= LONGEST_WAIT_S:
        message = f"The {task.kind} tool asked to be called again in {later.seconds} seconds."
        raise CannotGoOn(ErrorInfo("internal", message, type="BadWait"))
    left = deadline.left()
    return later if left is None else replace(later, seconds=min(later.seconds, left))
