"""Identifiers. Only an execution's id is drawn (by the caller); all others are derived from it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

#: Milliseconds from the Unix epoch to 2026-01-01T00:00:00Z: the zero of execution ids.
EPOCH_MS = 1_767_225_600_000
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MS_BITS: Final = 41
#: The bits behind the milliseconds.
_ENTROPY_BITS: Final = 22


def execution_id(now_ms: int, entropy: int) -> str:
    """A decimal string below 2^63 that sorts by time: 41 bits of milliseconds, 22 of `entropy`."""
    ms = (now_ms - EPOCH_MS) & ((1 << _MS_BITS) - 1)
    return str(ms << _ENTROPY_BITS | entropy & ((1 << _ENTROPY_BITS) - 1))


def first_of(at: datetime) -> int:
    """The smallest number that an execution id of that millisecond can have. Before all ids it is
    0, and behind them the largest one."""
    ms = int(at.timestamp() * 1000) - EPOCH_MS
    return min(max(ms, 0), (1 << _MS_BITS) - 1) << _ENTROPY_BITS


def begin_of(number: int) -> int:
    """The smallest number that an execution id of the same millisecond can have."""
    return number >> _ENTROPY_BITS << _ENTROPY_BITS


def end_of(number: int) -> int:
    """The smallest number behind all execution ids of the same millisecond."""
    return begin_of(number) + (1 << _ENTROPY_BITS)


def instant_of(number: int) -> datetime:
    """The millisecond in which the execution with that id was asked for."""
    return _EPOCH + timedelta(milliseconds=number >> _ENTROPY_BITS)


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
