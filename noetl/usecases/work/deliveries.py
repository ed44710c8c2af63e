"""How the delivery of a command ended: what a transport does next, and what it shows."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from noetl.facts.outcome import ErrorInfo
from noetl.usecases.ports import ENDED, Transaction

log = logging.getLogger(__name__)


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
    """`error` is why the step failed, or the last iteration that did; `failed` counts those of a lane. `is_last`: no other
    delivery has claimed the command, or none since this one did, so that none has shown how it ended."""

    end: End
    error: ErrorInfo | None = None
    failed: int = 0
    is_last: bool = False


def refusal(tx: Transaction, command_id: str, claimed: int = 0) -> Delivery:
    """The delivery of a command that could not be claimed, or that was lost after it was, with the attempt `claimed`."""
    command = tx.command(command_id)
    if command is None:
        log.warning(
            "Command %s is not in this database: another one's broker, or an older one's message", command_id
        )
        return Delivery(End.CANCELLED)
    if command.state == "closed":
        if tx.recorded(command.execution_id, f"end:{command.run_id}"):
            return Delivery(End.OVER, is_last=command.attempt <= claimed)
        if tx.recorded(command.execution_id, f"cancelled:{command.run_id}"):
            return Delivery(End.CANCELLED)
    execution = tx.execution(command.execution_id)
    over = execution is None or execution.status in ENDED or execution.halt in ("cancel", "fail")
    return Delivery(End.CANCELLED if over else End.REFUSED)
