"""The Celery names that producers and workers must agree on."""

from __future__ import annotations

import uuid

from noetl.usecases.children import SCHEDULER

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


def celery_task_id(command_id: str) -> str:
    """The id of the Celery task that carries a command: derived, so that a second send is the same task."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:command:{command_id}"))
