"""The events of our Celery tasks, which Flower shows: how the work ended, not only that Celery is
done.

Celery sends no event for a task that raises `Ignore`: neither for a lane that sends itself on, nor
for one that is refused. And a task that raises anything else ends the chord that it is a part of.
So a task that is to be shown as something else than a success raises one of the exceptions here,
which Celery takes for `Ignore`, and the event is sent by the worker's own process, over the
connection that it has for events.
"""

from __future__ import annotations

import time
from typing import Any, Final

from billiard.einfo import ExceptionWithTraceback  # type: ignore[attr-defined]
from celery.exceptions import Ignore
from celery.worker.request import Request

#: Headers of a lane's messages behind the first one: when its first slice began, in seconds since
#: 1970, how many of its iterations have failed since, and the error of the last of them.
BEGAN: Final = "noetl_began"
FAILED: Final = "noetl_failed"
ERROR: Final = "noetl_error"


class WorkFailed(Ignore):
    """The step, or an iteration of the lane, failed. Its arguments are the error in one sentence
    and its traceback."""


class WorkCancelled(Ignore):
    """The command was cancelled."""


class WorkRequest(Request):
    """A message in the worker's own process, from its arrival to its last event."""

    def send_event(self, type: str, **fields: Any) -> None:
        began = self.request_dict.get(BEGAN)
        if began is not None:
            if type == "task-started":
                return  # it did, with its first slice
            fields["runtime"] = time.time() - float(began)
        super().send_event(type, **fields)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        match _unwrap(exc_info.exception):
            case WorkFailed(args=(str(error), str(traceback))):
                runtime = time.time() - self.time_start if self.time_start else 0.0
                self.send_event("task-failed", exception=error, traceback=traceback, runtime=runtime)
            case WorkCancelled():
                self.send_event("task-revoked", terminated=False, signum=None, expired=False)
            case _:
                pass
        return super().on_failure(exc_info, send_failed_event, return_ok)


def _unwrap(raised: BaseException) -> BaseException:
    """What the task raised. Pools without children hand it over as Celery has wrapped it; from a
    child it comes without."""
    if isinstance(raised, ExceptionWithTraceback):
        inner: BaseException = raised.exc
        return inner
    return raised
