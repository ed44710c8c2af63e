"""The Celery tasks of NoETL. Messages carry ids; everything else is in the log and the tables."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from celery import Celery, Task, current_task
from celery.canvas import Signature
from celery.exceptions import Ignore, Reject

from noetl.dispatch.naming import ABANDON, ITERATION, LANE, STEP, TELL, TURN
from noetl.dispatch.refused import refuse
from noetl.errors import NoetlError
from noetl.usecases.abandoning import abandon
from noetl.usecases.advance import advance
from noetl.usecases.lanes import LaneEnd, run_lane
from noetl.usecases.telling import tell
from noetl.usecases.work import Worker, run_step

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Characters of the longest id: those of an execution, a step and a part of it.
MAX_ID = 300


def register(app: Celery, worker: Callable[[], Worker]) -> None:
    """Adds the tasks to `app`. `worker` yields this process's worker, made on first use."""

    @app.task(name=STEP)
    def step(*args: object) -> None:
        command_id = _id(args)
        _guarded(command_id, lambda: run_step(worker(), command_id))

    @app.task(name=ITERATION, bind=True)
    def iteration(self: Task[..., object], *args: object) -> None:
        command_id = _id(args)
        if _guarded(command_id, lambda: run_lane(worker(), command_id)) is LaneEnd.AGAIN:
            self.replace(_next_slice(self, command_id))  # raises: nothing follows

    @app.task(name=LANE, bind=True, ignore_result=False)
    def lane(self: Task[..., object], *args: object) -> None:
        command_id = _id(args)
        end = _guarded(command_id, lambda: run_lane(worker(), command_id))
        if end is LaneEnd.AGAIN:
            self.replace(_next_slice(self, command_id))  # raises: nothing follows
        if end is LaneEnd.REFUSED:
            # Returning would count as an arrival and let the chord's body run early.
            raise Ignore

    @app.task(name=ABANDON)
    def abandon_step(*args: object) -> None:
        command_id = _id(args)
        _guarded(command_id, lambda: abandon(worker(), command_id))

    # Flower is told of work, not of the wakes between: they outnumber it and say nothing.
    @app.task(name=TURN, send_events=False)
    def turn(*_: object) -> None:
        """Earlier releases named an execution; a turn serves all of them."""
        advance(worker().rt)

    @app.task(name=TELL, send_events=False)
    def tell_other(*args: object) -> None:
        try:
            command_id = _id(args)
            _guarded(command_id, lambda: tell(worker().rt, command_id))
        finally:
            # While this was in the queue, whoever wanted a turn took it for a wake.
            advance(worker().rt)


def _id(args: tuple[object, ...]) -> str:
    """The one argument of our messages. Raises Ignore: anybody may write to a broker."""
    match args:
        case (str(found),) if 0 < len(found) <= MAX_ID and "\0" not in found:
            return found
    raise _refusal(args)


def _refusal(args: tuple[object, ...]) -> Ignore:
    """Kept as a dead letter, it is done with: the scheduler's queue knows no rejecting."""
    reason = f"not the arguments of the task {current_task.name}"
    refuse(_queue(current_task), reason, args)
    return Ignore(reason)


def _guarded(command_id: str, work: Callable[[], T]) -> T:
    """Runs `work`. Where the store is away the message is dropped: the command's lease, or the lack of
    a claim, brings it back."""
    try:
        return work()
    except NoetlError as error:
        log.exception("Command %s could not be worked on", command_id)
        raise Reject(str(error), requeue=False) from error


def _next_slice(task: Task[..., object], command_id: str) -> Signature:
    options = {"queue": _queue(task), "priority": _priority(task), "shadow": task.request.shadow}
    return task.si(command_id).set(**options)


def _queue(task: Task[..., object]) -> str:
    return str((task.request.delivery_info or {}).get("routing_key") or "default")


def _priority(task: Task[..., object]) -> int:
    return int((task.request.delivery_info or {}).get("priority") or 0)
