"""What a run in this process still owes to those that it called, once it has ended itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

from noetl.cli.progress import ProgressView
from noetl.errors import Conflict
from noetl.usecases import control, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime

#: Children that are asked for at once.
PAGE = 1000


def attend(
    rt: Runtime, execution_id: str, progress: ProgressView, *, wait: bool, pause_s: float, grace_s: float
) -> None:
    """Until every execution that it called, and those that these called, has ended: detached ones,
    and those that are being cancelled because nobody waits for them any more. No other process
    would go on with them.

    Without `wait` those that only wait for outside input are left. Ctrl-C cancels the rest; a
    second one leaves.
    """
    todo, told = [execution_id], set[str]()
    interrupted = False
    while todo:
        try:
            here = todo[-1]
            if _is_over(rt, here, wait=wait):
                todo[-1:] = _children(rt, here)
                continue
            if interrupted and here not in told:
                told.add(here)
                _cancel(rt, here, grace_s)
            progress.tick()
            time.sleep(pause_s)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True


def _is_over(rt: Runtime, execution_id: str, *, wait: bool) -> bool:
    row = inspect.execution(rt, execution_id)
    if row.status in ENDED:
        return not inspect.has_to_tell(rt, execution_id)
    return not wait and inspect.is_idle(rt, execution_id)


def _children(rt: Runtime, execution_id: str) -> Iterator[str]:
    before = None
    while rows := inspect.executions(rt, parent=execution_id, before=before, limit=PAGE):
        yield from (row.execution_id for row in rows)
        before = rows[-1].execution_id


def _cancel(rt: Runtime, execution_id: str, grace_s: float) -> None:
    try:
        control.cancel(rt, execution_id, "interrupted from the keyboard", grace_s=grace_s)
    except Conflict:
        return  # it has ended
