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


@dataclass(frozen=True, slots=True)
class Delivery:
    """`error` is why the step failed, or the last iteration that did; `failed` counts those of a lane."""

    end: End
    error: ErrorInfo | None = None
    failed: int = 0


def refusal(tx: Transaction, command_id: str) -> Delivery:
    """The delivery of a command that could not be claimed."""
    command = tx.command(command_id)
    execution = None if command is None else tx.execution(command.execution_id)
    over = execution is None or execution.status in ENDED or execution.halt in ("cancel", "fail")
    return Delivery(End.CANCELLED if over else End.REFUSED)
