"""The Celery tasks of NoETL. Messages carry ids; everything else is in the log and the tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never

from celery import Celery, Task, current_task
from celery.canvas import Signature
from celery.exceptions import Ignore, Reject

from noetl.dispatch.naming import ABANDON, ITERATION, LANE, STEP, TELL, TURN
from noetl.dispatch.refused import refuse
from noetl.errors import NoetlError
from noetl.facts.outcome import ErrorInfo
from noetl.tasks.requests import BEGAN, ERROR, FAILED, WorkCancelled, WorkFailed
from noetl.usecases.parent_notifications import tell
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.abandon import abandon
from noetl.usecases.work.deliveries import Delivery, End
from noetl.usecases.work.lanes import run_lane
from noetl.usecases.work.log_context import about_command
from noetl.usecases.work.run import Worker, run_step

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Characters of the longest id: those of an execution, a step and a part of it.
MAX_ID = 300

#: Characters of an error that Flower is told.
MAX_SAID: Final = 2000

#: What our messages are in the worker's own process.
REQUEST: Final = "noetl.tasks.requests:WorkRequest"


def register(app: Celery, worker: Callable[[], Worker]) -> None:
    """Adds the tasks to `app`. `worker` yields this process's worker, made on first use."""

    @app.task(name=STEP, Request=REQUEST)
    def step(*args: object) -> None:
        with about_command(_id(args)) as command_id:
            _end(_guarded(command_id, lambda: run_step(worker(), command_id)))

    @app.task(name=ITERATION, bind=True, Request=REQUEST)
    def iteration(self: Task[..., object], *args: object) -> None:
        with about_command(_id(args)) as command_id:
            _lane(self, command_id, worker)

    @app.task(name=LANE, bind=True, ignore_result=False, Request=REQUEST)
    def lane(self: Task[..., object], *args: object) -> None:
        with about_command(_id(args)) as command_id:
            _lane(self, command_id, worker)

    @app.task(name=ABANDON)
    def abandon_step(*args: object) -> None:
        with about_command(_id(args)) as command_id:
            _guarded(command_id, lambda: abandon(worker(), command_id))

    # Flower is told of work, not of the wakes between: they outnumber it and say nothing.
    @app.task(name=TURN, send_events=False)
    def turn(*_: object) -> None:
        """Earlier releases named an execution; a turn serves all of them."""
        advance(worker().rt)

    @app.task(name=TELL, send_events=False)
    def tell_other(*args: object) -> None:
        try:
            with about_command(_id(args)) as command_id:
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


def _end(delivery: Delivery) -> None:
    """Returns where the work is done; else raises what Flower is to be told. Returning would count as an arrival at a
    chord, and let its body run early."""
    match delivery.end:
        case End.REFUSED | End.AGAIN:
            raise Ignore
        case End.CANCELLED | End.OVER:
            # Where a delivery before this one has told of an end, Flower keeps to that.
            raise WorkCancelled
        case End.DONE:
            if delivery.error is not None:
                raise _failure(delivery.error)
        case _:
            assert_never(delivery.end)


def _lane(task: Task[..., object], command_id: str, worker: Callable[[], Worker]) -> None:
    """One slice of a lane, or all of it."""
    before = _Slices.of(task)
    delivery = _guarded(command_id, lambda: run_lane(worker(), command_id))
    slices = before.add(delivery)
    if delivery.end is End.AGAIN:
        task.replace(_next_slice(task, command_id, slices))  # raises: nothing follows
    # What other lanes have finished is an end like any other for a lane that waited for its turn meanwhile.
    is_over = delivery.end is End.OVER and (delivery.is_last or before.are_further)
    if not is_over and delivery.end is not End.DONE:
        _end(delivery)
    if slices.failed:
        # It has arrived: what it raises must not be taken for the end of its chord.
        task.backend.mark_as_done(str(task.request.id), None, task.request, store_result=False)
        raise slices.failure()


@dataclass(frozen=True, slots=True)
class _Slices:
    """What the slices of a lane have come to so far: its messages carry that from one to the next."""

    began: float
    are_further: bool
    failed: int = 0
    #: Of the iteration that failed last.
    error: str = ""
    traceback: str = ""

    @staticmethod
    def of(task: Task[..., object]) -> _Slices:
        said = task.request
        began = said.get(BEGAN)
        failed, error = int(said.get(FAILED) or 0), str(said.get(ERROR) or "")
        return _Slices(float(began or time.time()), began is not None, failed, error)

    def add(self, delivery: Delivery) -> _Slices:
        if delivery.error is None:
            return replace(self, failed=self.failed + delivery.failed)
        error, traceback = _failure(delivery.error).args
        return replace(self, failed=self.failed + delivery.failed, error=error, traceback=traceback)

    def failure(self) -> WorkFailed:
        several = f"{self.failed} iterations failed, the last with " if self.failed > 1 else ""
        return WorkFailed(several + self.error, self.traceback)


def _failure(error: ErrorInfo) -> WorkFailed:
    names = (("step", error.step), ("task", error.task), ("iteration", error.iteration))
    place = ", ".join(f"{name} {value}" for name, value in names if value is not None)
    said = f"{error.type or error.kind}: {error.message}" + (f" ({place})" if place else "")
    log.info("Failed: %s", said)
    return WorkFailed(said[:MAX_SAID], error.traceback or "")


def _next_slice(task: Task[..., object], command_id: str, slices: _Slices) -> Signature:
    options = {
        "queue": _queue(task),
        "priority": _priority(task),
        "shadow": task.request.shadow,
        "argsrepr": task.request.get("argsrepr"),
        "headers": {BEGAN: slices.began, FAILED: slices.failed, ERROR: slices.error},
    }
    return task.si(command_id).set(**options)


def _queue(task: Task[..., object]) -> str:
    return str((task.request.delivery_info or {}).get("routing_key") or "default")


def _priority(task: Task[..., object]) -> int:
    return int((task.request.delivery_info or {}).get("priority") or 0)
