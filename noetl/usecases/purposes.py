"""What commands are for: one entry for each purpose, with what carries its commands and what
carries them out.

Celery's tasks, the local dispatcher, simulations, the queue and the label of a command's row, and
what the sweeper records of a command that was given up are made of these entries. A new purpose is
a handler and an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from noetl.errors import UnknownPurpose
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.usecases.parent_notifications import notify
from noetl.usecases.ports import CommandRow
from noetl.usecases.work.abandon import abandon
from noetl.usecases.work.lanes import run_lane
from noetl.usecases.work.leases import Delivery, Worker
from noetl.usecases.work.reports import fail_iteration, fail_step
from noetl.usecases.work.run import run_step

#: The queue of the scheduler: what executions have to tell one another is carried out there.
SCHEDULER: Final = "scheduler"


@dataclass(frozen=True, slots=True)
class Purpose:
    """Why a command was written, as its row says."""

    #: The word in the row. It is data: commands of earlier releases have it.
    name: str
    #: The Celery task whose messages carry such commands. Purposes with one handler may share one.
    task: str
    #: Carries out the command of that id, once however often it is delivered. Raises Unavailable.
    handler: Callable[[Worker, str], Delivery]
    #: Where its messages go: to the workers that serve its step, or to the scheduler. Flower hears
    #: nothing of the latter: they outnumber work and say nothing.
    queue: Literal["step", "scheduler"] = "step"
    #: Whether a worker claims it before it begins. What is not claimed outlives the end of its
    #: execution.
    is_claimed: bool = False
    #: Whether those of one loop that leave together are the header of a chord, and arrive there one
    #: by one.
    in_chord: bool = False
    #: What Flower shows of it: `place` is `playbook:step`; `part`, `number` (of the part) and
    #: `iteration` are the row's.
    label: str = "{place}"
    #: What is recorded of it once too many workers took it and none reported; None: only that.
    failure: Callable[[CommandRow, ErrorInfo], Draft] | None = None

    def queue_of(self, step_queue: str) -> str:
        """The queue of a command for a step that `step_queue` serves."""
        return SCHEDULER if self.queue == "scheduler" else step_queue

    def label_of(self, path: str, step: str, part: str, iteration: int | None = None) -> str:
        """What Flower shows of a command for `part` of a run of `step`."""
        place = f"{path}:{step}"
        return self.label.format(place=place, part=part, number=part.removeprefix("l"), iteration=iteration)


_ENTRIES: Final = (
    Purpose("pipeline", "noetl.step", run_step, is_claimed=True, failure=fail_step),
    Purpose(
        "lane",
        "noetl.lane",
        run_lane,
        is_claimed=True,
        in_chord=True,
        label="{place}[lane {number}]",
    ),
    Purpose(
        "iteration",
        "noetl.iteration",
        run_lane,
        is_claimed=True,
        label="{place}[{iteration}]",
        failure=fail_iteration,
    ),
    Purpose("answer", "noetl.tell", notify, queue="scheduler", label="answer {part}"),
    Purpose("waits", "noetl.tell", notify, queue="scheduler", label="waits {part}"),
    Purpose("cancel", "noetl.tell", notify, queue="scheduler", label="cancel {part}"),
    Purpose("abandon", "noetl.abandon", abandon, label="abandon {place}"),
)

PURPOSES: Final[Mapping[str, Purpose]] = {purpose.name: purpose for purpose in _ENTRIES}


def find_purpose(command: CommandRow) -> Purpose:
    """The purpose of `command`. Raises UnknownPurpose."""
    purpose = PURPOSES.get(command.purpose)
    if purpose is None:
        raise UnknownPurpose(command.command_id, command.purpose)
    return purpose
