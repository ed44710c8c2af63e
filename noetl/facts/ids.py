"""Identifiers. Only an execution's id is drawn (by the caller); all others are derived from it."""

from __future__ import annotations

import hashlib
from datetime import datetime

#: Milliseconds from the Unix epoch to 2026-01-01T00:00:00Z: the zero of execution ids.
EPOCH_MS = 1_767_225_600_000


def execution_id(now_ms: int, entropy: int) -> str:
    """A decimal string below 2^63 that sorts by time: 41 bits of milliseconds, 22 of `entropy`."""
    return str(((now_ms - EPOCH_MS) & ((1 << 41) - 1)) << 22 | entropy & ((1 << 22) - 1))


def child_id(now: datetime, turn: str, number: int) -> str:
    """The id of an execution that is called in the turn of that name and instant, at place `number`
    of all that the turn records. Those of one turn differ for certain: a thousand that were drawn
    would not."""
    first = int.from_bytes(hashlib.sha256(turn.encode()).digest()[:4])
    return execution_id(int(now.timestamp() * 1000), first + number)


def run_id(step: str, number: int) -> str:
    """The id of the `number`-th firing (from 1) of `step`, unique within its execution."""
    return f"{step}#{number}"


def command_id(execution: str, run: str, part: str, issue: int) -> str:
    """The id of one command. `part` is `-` for a pipeline, `l<k>` for a lane, `i<n>` for one
    iteration."""
    return f"{execution}/{run}/{part}/{issue}"


def event_id(execution: str, version: int) -> str:
    """The id of the event of that version in the log of an execution."""
    return f"{execution}.{version}"


def version_of(event: str) -> int:
    """The version in the id of an event."""
    return int(event.rpartition(".")[2])


def idempotency_key(execution: str, run: str, iteration: int | None, task: str, claim: str = "") -> str:
    """What tools pass on so that a repeated call has one effect: the same for every try and issue.
    `claim` is which one of a cursor's it is."""
    place = (claim or "-") if iteration is None else str(iteration)
    return hashlib.sha256(f"{execution}/{run}/{place}/{task}".encode()).hexdigest()[:32]
