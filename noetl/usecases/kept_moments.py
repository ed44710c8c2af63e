"""Moments of executions, with the help of what walks over their logs have kept.

What is answered is what the transaction sees: a walk only saves reading and folding events that
cannot have changed.
"""

from __future__ import annotations

from typing import Final

from noetl.engine.state import State
from noetl.history.lines import Timeline
from noetl.history.timeline import TimelineFold
from noetl.usecases import moment
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.walks import STRIDE, Walk

#: Events that are read at once: with more of them in memory, collecting garbage takes longer than
#: reading.
_PAGE: Final = 500


def look(rt: Runtime, tx: Transaction, row: ExecutionRow, version: int | None = None) -> moment.Moment:
    """As `moment.look`, to ask for the state and the status of that version alone."""
    last = row.head_version if version is None else version
    walk = rt.walks.get(row.execution_id)
    start = None if walk is None else walk.find_state(row, last)
    # Behind a walk that was left long ago there may be a snapshot.
    if start is None or (version is None and last - start.version > STRIDE):
        return moment.look(tx, row, version)
    moment.check_version(row, version)
    # One event more says what to call the moment before it.
    tail = tx.events.read(row.execution_id, after=start.version, limit=last - start.version + 1)
    return moment.Moment(row, start, tail)


def walk_on(rt: Runtime, execution_id: str) -> Timeline:
    """Goes on with the walk over the log as far as that is now. Raises NotFound."""
    walk = rt.walks.open(execution_id)
    with walk.lock:
        try:
            with rt.store.read() as tx:
                found = _go_on(rt, tx, walk, moment.find(tx, execution_id))
        except BaseException:
            # A fold in the middle of an event is of no use.
            rt.walks.drop(execution_id, walk)
            raise
    rt.walks.trim()
    return found


def _go_on(rt: Runtime, tx: Transaction, walk: Walk, row: ExecutionRow) -> Timeline:
    if not walk.fits(row):
        walk.begin(row, TimelineFold(row.execution_id, rt.plan(tx, row.digest).net))
    fold = walk.fold
    assert fold is not None, "it has begun"
    kept: list[State] = []
    while page := tx.events.read(row.execution_id, fold.state.version, _PAGE):
        for event in page:
            fold.take(event)
            if event.version % STRIDE == 0:
                kept.append(fold.state)
    walk.keep(kept, fold.state)
    return fold.timeline()
