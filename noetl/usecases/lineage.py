"""What executions descend from: the log of the one that is run again; and the next attempt that one
waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from noetl.engine.plan import Plan
from noetl.engine.retries import DUE, retry_due
from noetl.engine.source import EarlierLog, SourceLog, come_to
from noetl.facts.events import Event, Requested, RetryCancelled, StepScheduled, WorkflowStarted
from noetl.facts.lineage import RetryOf
from noetl.usecases import moment
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


def find_source(rt: Runtime, tx: Transaction, retry: RetryOf | None) -> SourceLog | None:
    """What `retry` runs again, as its log tells it; None where there is none, or it is gone. So it
    is where a child has not ended yet that its caller did not wait for any more."""
    if retry is None:
        return None
    found = rt.sources.get(retry)
    row = None if found is not None else tx.executions.get(retry.execution_id)
    if row is not None and row.status in ENDED:
        # Its log does not change any more.
        found = read_source(rt, tx, row, retry)
        rt.sources.put(retry, found)
    return found


def read_source(rt: Runtime, tx: Transaction, row: ExecutionRow, retry: RetryOf) -> SourceLog:
    """What the execution of `row` has recorded by now, for one that runs it again; with what those
    recorded that it ran again itself, where it ended before it had come to that."""
    events = tx.events.read(row.execution_id)
    earlier = [] if row.status == "completed" else list(_find_earlier(rt, tx, events))
    return _make_log(rt, tx, row, retry, events, earlier)


def _make_log(
    rt: Runtime,
    tx: Transaction,
    row: ExecutionRow,
    retry: RetryOf,
    events: Sequence[Event],
    earlier: Sequence[EarlierLog] = (),
) -> SourceLog:
    undone = moment.find_undo(tx, row.execution_id) is not None
    return SourceLog(rt.plan(tx, row.digest), retry, events, is_undone=undone, earlier=earlier)


#: Executions that run one another again, of which as many are looked at.
LONGEST: Final = 1000
#: What tells how far an execution has come. Of most earlier ones nothing else is read.
_BEGINNINGS: Final = (Requested.type, WorkflowStarted.type, StepScheduled.type)


def _find_earlier(rt: Runtime, tx: Transaction, events: Sequence[Event]) -> Iterator[EarlierLog]:
    """The logs of those that the execution with these events ran again, the nearest first, as far
    as something of them may still stand."""
    known, partly, has_begun = set[str](), set[str](), False
    for _ in range(LONGEST):
        known.update(come_to(events))
        partly.update(_taken_in_part(events))
        has_begun = has_begun or any(isinstance(one.fact, WorkflowStarted) for one in events)
        first = events[0].fact
        again = first.retry if isinstance(first, Requested) else None
        row = None if again is None else tx.executions.get(again.execution_id)
        if again is None or row is None:
            return
        events = tx.events.read(row.execution_id, types=_BEGINNINGS)
        runs = {one.draft.run_id or "" for one in events if isinstance(one.fact, StepScheduled)}
        asks_children = bool(runs & partly) and _calls_playbooks(rt.plan(tx, row.digest))
        if runs - known or asks_children or not has_begun:
            whole = tx.events.read(row.execution_id)
            yield EarlierLog(_make_log(rt, tx, row, again, whole), frozenset(known))
        if row.status == "completed":
            return


def _taken_in_part(events: Sequence[Event]) -> Iterator[str]:
    """The runs of which others took a part: these may not have come to the calls of them."""
    for event in events:
        reuse = event.fact.reuse if isinstance(event.fact, StepScheduled) else None
        if reuse is not None and reuse.how == "part" and reuse.run_id is not None:
            yield reuse.run_id


def _calls_playbooks(plan: Plan) -> bool:
    return any(task.kind == "playbook" for step in plan.net.transitions for task in step.tasks)


def call_off(rt: Runtime, tx: Transaction, row: ExecutionRow, reason: str) -> bool:
    """Calls off the next attempt of an execution whose row is locked. Whether one was scheduled."""
    if not row.waits_for_retry or retry_due(moment.look(tx, row).state()) is None:
        return False
    now = rt.clock()
    tx.events.append(row.execution_id, row.head_version, [rt.ask_for(RetryCancelled(reason), DUE)], now)
    # At once: the process that would take the turn may be on its way out.
    tx.executions.save_turn(
        row.execution_id,
        decided_version=row.decided_version,
        status=row.status,
        next_wake_at=None,
        halt=row.halt,
        now=now,
    )
    return True
