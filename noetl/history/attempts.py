"""What the policy of a playbook made of a failure, for people and for machines."""

from __future__ import annotations

from typing import assert_never

from noetl.facts.json import Json
from noetl.facts.retries import NextAttempt


def attempt_view(following: NextAttempt | None) -> dict[str, Json] | None:
    """`{standing, attempt, attempts, due_at, execution_id, reason, text}`; None where no policy was
    asked."""
    if following is None:
        return None
    return {
        "standing": following.standing,
        "attempt": following.attempt,
        "attempts": following.attempts or None,
        "due_at": following.due_at,
        "execution_id": following.execution_id,
        "reason": following.reason,
        "text": describe_attempt(following),
    }


def describe_attempt(following: NextAttempt) -> str:
    """One sentence."""
    number = f"attempt {following.attempt}" + (f" of {following.attempts}" if following.attempts else "")
    match following.standing:
        case "scheduled":
            return f"It will be retried at {following.due_at} as {number}."
        case "started":
            return f"It is retried by execution {following.execution_id}, as {number}."
        case "declined":
            return f"It is not retried by itself: {following.reason}."
        case "cancelled":
            why = f" ({following.reason})" if following.reason else ""
            return f"Its retry, {number}, was called off{why}."
        case _:
            assert_never(following.standing)
