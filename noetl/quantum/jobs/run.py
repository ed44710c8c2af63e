"""Jobs on machines elsewhere: sent once, waited for without a worker, fetched once, whatever dies in between.

Each function is one call of a task; what it yields is the next wait, or the end. See
`docs/decisions/0032-jobs-are-sent-by-ticket.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noetl.pipeline.model import Later
from noetl.quantum.jobs.collecting import Done
from noetl.quantum.jobs.machine import Machine
from noetl.quantum.jobs.visit import Desk
from noetl.quantum.model import JobState, Order

__all__ = ["Desk", "Done", "cancel", "fetch", "poll", "run", "submit"]


def run(desk: Desk, orders: Sequence[Order]) -> Later | Done:
    """One call of a task that submits, waits and fetches. Raises ToolError, as all of these do."""
    return Machine(desk, orders, "fetched").advance()


def submit(desk: Desk, orders: Sequence[Order]) -> Later | Done:
    """One call of a task that leaves its jobs behind: `jobs` of what it is done with is what the others take."""
    return Machine(desk, orders, "submitted").advance()


def poll(desk: Desk, jobs: Mapping[str, JobState]) -> Later | Done:
    """One call of a task that waits for the jobs of another one, however they end."""
    return Machine(desk, (), "ended", jobs).advance()


def fetch(desk: Desk, orders: Sequence[Order], jobs: Mapping[str, JobState]) -> Later | Done:
    """One call of a task that waits for the jobs of another one, and fetches what they measured."""
    return Machine(desk, orders, "fetched", jobs).advance()


def cancel(desk: Desk, jobs: Mapping[str, JobState]) -> Later | Done:
    """One call of a task that cancels the jobs of another one. Those that ended stay as they are."""
    return Machine(desk, (), "cancelled", jobs).advance()
