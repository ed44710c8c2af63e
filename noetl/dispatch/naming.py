"""The Celery names that producers and workers must agree on."""

from __future__ import annotations

import re
import uuid

from noetl.usecases.turn.children import SCHEDULER

STEP = "noetl.step"
LANE = "noetl.lane"
ITERATION = "noetl.iteration"
TURN = "noetl.turn"
TELL = "noetl.tell"
ABANDON = "noetl.abandon"

#: The queue of the scheduler. Exactly one consumer is enough, and best.
SCHEDULER_QUEUE = SCHEDULER

#: Celery task by the purpose of a command.
TASK_OF = {
    "pipeline": STEP,
    "lane": LANE,
    "iteration": ITERATION,
    "answer": TELL,
    "waits": TELL,
    "cancel": TELL,
    "abandon": ABANDON,
}


#: What `format_arguments` makes.
_SHOWN = re.compile(r"execution (\d+), (\S+)")


def format_arguments(execution_id: str, command_id: str) -> str:
    """What Flower and Celery's log show of a message: whose it is."""
    return f"execution {execution_id}, {command_id.removeprefix(f'{execution_id}/')}"


def parse_arguments(arguments: object) -> dict[str, str]:
    """`{execution, command}` of what `format_arguments` made; nothing of other texts."""
    found = _SHOWN.fullmatch(arguments) if isinstance(arguments, str) else None
    return {} if found is None else {"execution": found[1], "command": f"{found[1]}/{found[2]}"}


def celery_task_id(command_id: str) -> str:
    """The id of the Celery task that carries a command: derived, so that a second send is the same
    task."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:command:{command_id}"))
