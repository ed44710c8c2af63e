"""Which key a claim has whose fate nobody knows: in an execution that runs another one again, the
lanes of a cursor ask first what they were about to hear there.

A claim that was made and not recorded may have taken rows. Under its own key it yields them once
more, where the tool remembers (`exactly_once`); under another one they would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noetl.facts.events import CommandIssued, Event, StepScheduled, TaskKeyKept
from noetl.facts.ids import idempotency_key
from noetl.net.tasks import Task
from noetl.usecases import moment
from noetl.usecases.ports import CommandRow, Transaction


def claim_number(command: CommandRow, made: int) -> str:
    """What tells the claims of a run from one another: the lane, its issue, and how many it has
    made."""
    return f"{command.part}/{command.issue}/{made}"


def count_claims(tx: Transaction, command: CommandRow) -> int:
    """How many claims of a lane are in the log: they are numbered from 0, without gaps."""
    low, high = 0, 1
    while tx.events.recorded(command.execution_id, claim_key(command, high - 1)):
        low, high = high, 2 * high
    while low < high - 1:
        middle = (low + high) // 2
        if tx.events.recorded(command.execution_id, claim_key(command, middle - 1)):
            low = middle
        else:
            high = middle
    return low


def claim_key(command: CommandRow, made: int) -> str:
    """The key of the event that records a claim."""
    return f"claim:{command.run_id}/{claim_number(command, made)}"


def find_kept_key(tx: Transaction, command: CommandRow, cursor: Task) -> TaskKeyKept | None:
    """The key of the claim that the same lane may have made last in the execution that is run
    again; None where there was no such lane, or the cursor is another one today. It is for the
    first claim of the first issue of a lane: later ones have keys of their own."""
    there = _find_lane(tx, command, cursor)
    if there is None:
        return None
    made = count_claims(tx, there)
    before = find_kept_key(tx, there, cursor) if made == 0 else None
    key = (
        before.key
        if before is not None
        else idempotency_key(there.execution_id, there.run_id, None, cursor.name, claim_number(there, made))
    )
    return TaskKeyKept(cursor.name, there.execution_id, there.run_id, key=key)


def _find_lane(tx: Transaction, command: CommandRow, cursor: Task) -> CommandRow | None:
    """The same lane of the run that this one is compared with, as it was issued last; None where
    this is not the first issue of its own."""
    again = moment.requested(tx, command.execution_id).retry
    if again is None:
        return None
    own = tx.events.of_run(command.execution_id, command.run_id, None)
    reuse = next(one.fact for one in own if isinstance(one.fact, StepScheduled)).reuse
    if reuse is None or reuse.run_id is None or cursor.name not in reuse.tasks:
        return None
    there = _issues(tx.events.of_run(again.execution_id, reuse.run_id, None), command.part)
    if not there or command.issue != min(_issues(own, command.part)):
        return None
    return replace(command, execution_id=again.execution_id, run_id=reuse.run_id, issue=max(there))


def _issues(events: Iterable[Event], part: str) -> list[int]:
    """The numbers of the orders for a lane."""
    return [one.fact.issue for one in events if isinstance(one.fact, CommandIssued) and one.fact.part == part]
