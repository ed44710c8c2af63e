"""The Celery tasks of NoETL. Messages carry ids; everything else is in the log and the tables."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from celery import Celery, Task, current_task
from celery.canvas import Signature
from celery.exceptions import Ignore, Reject

from noetl.dispatch.naming import TURN
from noetl.dispatch.refused import refuse
from noetl.errors import NoetlError, UnknownPurpose
from noetl.facts.outcome import ErrorInfo
from noetl.tasks.requests import BEGAN, ERROR, FAILED, WorkCancelled, WorkFailed
from noetl.usecases.log_context import about_command
from noetl.usecases.purposes import PURPOSES, Purpose
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.leases import Delivery, End, Worker

log = logging.getLogger(__name__)

#: Characters of the longest id: those of an execution, a step and a part of it.
MAX_ID = 300

#: Characters of an error that Flower shows.
MAX_ERROR: Final = 2000

#: What our messages are in the worker's own process.
REQUEST: Final = "noetl.tasks.requests:WorkRequest"


def register(app: Celery, worker: Callable[[], Worker]) -> None:
    """Adds the tasks to `app`. `worker` yields this process's worker, made on first use."""
    for purpose in {purpose.task: purpose for purpose in PURPOSES.values()}.values():
        _register(app, purpose, worker)

    # Flower shows work, not the wakes between: they outnumber it and say nothing.
    @app.task(name=TURN, send_events=False, shared=False)
    def turn(*_: object) -> None:
        """Earlier releases named an execution; a turn serves all of them."""
        advance(worker().rt)


def _register(app: Celery, purpose: Purpose, worker: Callable[[], Worker]) -> None:
    """Adds the task that carries the commands of `purpose`, and of those that share it."""
    is_scheduler = purpose.queue == "scheduler"

    @app.task(
        name=purpose.task,
        bind=True,
        # Else Celery gives it to every application of the process: with this one's worker.
        shared=False,
        Request=REQUEST,
        ignore_result=not purpose.in_chord,
        send_events=not is_scheduler,
    )
    def carry_out(self: Task[..., object], *args: object) -> None:
        try:
            with about_command(_read_id(args)) as command_id:
                _carry_out(self, purpose, command_id, worker)
        finally:
            if is_scheduler:
                # While this was in the queue, every process that wanted a turn took it for a wake.
                advance(worker().rt)


def _read_id(args: tuple[object, ...]) -> str:
    """The one argument of our messages. Raises Ignore: anybody may write to a broker."""
    match args:
        case (str(found),) if 0 < len(found) <= MAX_ID and "\0" not in found:
            return found
    raise _refuse(args)


def _refuse(args: tuple[object, ...]) -> Ignore:
    """Kept as a dead letter, it is done with: the scheduler's queue knows no rejecting."""
    reason = f"not the arguments of the task {current_task.name}"
    refuse(_queue(current_task), reason, args)
    return Ignore(reason)


def _carry_out(
    task: Task[..., object], purpose: Purpose, command_id: str, worker: Callable[[], Worker]
) -> None:
    """Returns where the work is done; else raises what Flower is to show. Returning counts as an
    arrival at a chord: where the delivery does not count, it would let the chord's body run
    early."""
    before = _Slices.of(task)
    delivery = _run(task, command_id, lambda: purpose.handler(worker(), command_id))
    slices = before.add(delivery)
    match delivery.end:
        case End.AGAIN:
            task.replace(_next_slice(task, command_id, slices))  # raises: nothing follows
        case End.REFUSED:
            raise Ignore
        case End.OVER if delivery.is_last or before.are_further:
            # What other lanes have finished is an end like any other for a lane that waited for its
            # turn meanwhile.
            _arrive(task, slices)
        case End.CANCELLED | End.OVER:
            # Where a delivery before this one has shown an end, Flower keeps to that.
            raise WorkCancelled
        case End.DONE:
            _arrive(task, slices)
        case _:
            assert_never(delivery.end)


def _run(task: Task[..., object], command_id: str, work: Callable[[], Delivery]) -> Delivery:
    """Runs `work`. Where the store is away the message is dropped: the command's lease, or the lack
    of a claim, brings it back."""
    try:
        return work()
    except UnknownPurpose as error:
        refuse(_queue(task), error.message, command_id)
        raise Ignore(error.message) from error
    except NoetlError as error:
        log.exception("Command %s could not be worked on", command_id)
        raise Reject(str(error), requeue=False) from error


def _arrive(task: Task[..., object], slices: _Slices) -> None:
    if slices.failed:
        # What it raises must not be taken for the end of its chord, if it is in one.
        task.backend.mark_as_done(str(task.request.id), None, task.request, store_result=False)
        raise slices.failure()


@dataclass(frozen=True, slots=True)
class _Slices:
    """The outcome of the slices of a lane so far: its messages carry it from one to the next."""

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
        error, traceback = _make_failure(delivery.error).args
        return replace(self, failed=self.failed + delivery.failed, error=error, traceback=traceback)

    def failure(self) -> WorkFailed:
        several = f"{self.failed} iterations failed, the last with " if self.failed > 1 else ""
        return WorkFailed(several + self.error, self.traceback)


def _make_failure(error: ErrorInfo) -> WorkFailed:
    names = (("step", error.step), ("task", error.task), ("iteration", error.iteration))
    place = ", ".join(f"{name} {value}" for name, value in names if value is not None)
    said = f"{error.type or error.kind}: {error.message}" + (f" ({place})" if place else "")
    log.info("Failed: %s", said)
    return WorkFailed(said[:MAX_ERROR], error.traceback or "")


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
