"""How the delivery of a command ended: what a transport does next, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from noetl.facts.outcome import ErrorInfo
from noetl.usecases.ports import ENDED, Transaction


class End(Enum):
    """What became of one delivery."""

    #: Its work is reported; a lane has arrived at its chord.
    DONE = "done"
    #: A lane's slice is over; it wants to be delivered again, in the same place of its chord.
    AGAIN = "again"
    #: The delivery does not count: another one has the command, or will have it.
    REFUSED = "refused"
    #: The delivery does not count, and no other will: the execution has ended or is being cancelled.
    CANCELLED = "cancelled"
    #: The step has ended without this delivery: other lanes have done what was left of its loop.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Delivery:
    """`error` is why the step failed, or the last iteration that did; `failed` counts those of a lane. `is_first`: nobody has
    ever claimed the command, so that no other delivery has told of it."""

    end: End
    error: ErrorInfo | None = None
    failed: int = 0
    is_first: bool = False


def refusal(tx: Transaction, command_id: str) -> Delivery:
    """The delivery of a command that could not be claimed."""
    command = tx.command(command_id)
    if command is None:
        return Delivery(End.CANCELLED)
    if command.state == "closed":
        if tx.recorded(command.execution_id, f"end:{command.run_id}"):
            return Delivery(End.OVER, is_first=command.attempt == 0)
        if tx.recorded(command.execution_id, f"cancelled:{command.run_id}"):
            return Delivery(End.CANCELLED)
    execution = tx.execution(command.execution_id)
    over = execution is None or execution.status in ENDED or execution.halt in ("cancel", "fail")
    return Delivery(End.CANCELLED if over else End.REFUSED)
