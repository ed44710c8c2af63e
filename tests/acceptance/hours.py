"""Time that passes for executions while nobody who knows their timers is alive: tests decide when a
deadline comes, however long their machine takes for what is before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from .stack import Stack

_SET = """UPDATE event SET payload = :payload WHERE execution_id = :id AND version = :version"""
_TRIGGER = "ALTER TABLE event {} TRIGGER event_refuses_update"
_WAKE = "UPDATE execution SET next_wake_at = now() WHERE execution_id = :id"


def let_timers_come(stack: Stack, executions: Iterable[str]) -> None:
    """All timers of these executions are due. A scheduler keeps what it has read of a log: none may
    be alive."""
    assert stack.running["scheduler"].process is not None
    assert stack.running["scheduler"].process.poll() is not None, "the scheduler is alive"
    now = datetime.now(UTC).isoformat()
    for one in executions:
        timers = "SELECT version, payload FROM event WHERE execution_id = :id AND type = 'timer.scheduled'"
        with _changing_the_log(stack):
            for version, payload in stack.sql(timers, id=int(one)):
                come = json.dumps({**json.loads(payload), "due_at": now})
                stack.change(_SET, id=int(one), version=version, payload=come)
        stack.change(_WAKE, id=int(one))


@contextmanager
def _changing_the_log(stack: Stack) -> Iterator[None]:
    """The database refuses it otherwise."""
    stack.change(_TRIGGER.format("DISABLE"))
    try:
        yield
    finally:
        stack.change(_TRIGGER.format("ENABLE"))
