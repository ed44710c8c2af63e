"""Waits for an execution: looks again whenever something of it has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from noetl.facts.logs import LogFilter
from noetl.usecases import inspect, logs
from noetl.usecases.inspect import ExecutionResultView, NewEvents
from noetl.usecases.logs import PrintedPage
from noetl.usecases.runtime import Runtime

T = TypeVar("T")

#: Seconds between two looks of who waits for an execution to be idle. That depends on those that it
#: called, too, and who watches it does not hear of their commits.
IDLE_LOOK_S: Final = 1.0


def wait_for_result(
    rt: Runtime, execution_id: str, seconds: float, *, until_idle: bool = False
) -> ExecutionResultView:
    """As `inspect.result`, once the execution has ended (or, with `until_idle`, nothing happens to
    it by itself), or so many seconds are over."""

    def is_due(found: ExecutionResultView) -> bool:
        return found.row.is_over or bool(found.idle)

    look = partial(inspect.result, rt, execution_id, ask_idle=until_idle)
    return _wait(rt, execution_id, seconds, look, is_due, IDLE_LOOK_S if until_idle else math.inf)


def wait_for_news(
    rt: Runtime,
    execution_id: str,
    after: int,
    limit: int,
    types: Iterable[str],
    seconds: float,
    *,
    until_idle: bool = False,
) -> NewEvents:
    """As `inspect.news`, once there is an event behind version `after`, or none will come."""

    def is_due(found: NewEvents) -> bool:
        return bool(found.events) or found.row.is_over or (until_idle and bool(found.idle))

    look = partial(inspect.news, rt, execution_id, after, limit, tuple(types), ask_idle=True)
    return _wait(rt, execution_id, seconds, look, is_due, IDLE_LOOK_S if until_idle else math.inf)


def wait_for_printed(
    rt: Runtime, execution_id: str, where: LogFilter, after: int, limit: int, seconds: float
) -> PrintedPage:
    """As `logs.page`, once there is a chunk behind number `after`, or none will come."""

    def is_due(found: PrintedPage) -> bool:
        return bool(found.chunks) or found.is_last

    look = partial(logs.page, rt, execution_id, where, after, limit)
    return _wait(rt, execution_id, seconds, look, is_due, math.inf)


def _wait(
    rt: Runtime,
    execution_id: str,
    seconds: float,
    look: Callable[[], T],
    is_due: Callable[[T], bool],
    look_s: float,
) -> T:
    """What `look` finds as soon as `is_due`, or when the time is over. Looks every `look_s`
    seconds, whatever is heard."""
    ends = monotonic() + seconds
    with rt.store.watch(execution_id) as watch:
        while True:
            found = look()
            left = ends - monotonic()
            if left <= 0 or is_due(found):
                return found
            watch.wait(min(left, look_s))
