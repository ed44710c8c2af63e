"""advance: T2, the scheduler's turn. The only place that issues commands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from noetl.engine.retries import retry_due
from noetl.errors import Unavailable
from noetl.usecases import catalog
from noetl.usecases.ports import DueExecutions, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.signals import hand_on_kept
from noetl.usecases.slots import keys_of, wake_waiters
from noetl.usecases.turn.attempts import ask_policies
from noetl.usecases.turn.deciding import decide_turns
from noetl.usecases.turn.writing import Turn, write_turn
from noetl.usecases.wakes import send

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UnservedExecution:
    """An execution that a defect keeps from being served. It still owes its turn."""

    execution_id: str
    error: Exception


def advance(rt: Runtime) -> list[UnservedExecution]:
    """Answers one wake: serves all executions that owe a turn. Returns those that cannot be served.

    An execution that was passed over, because a worker is just reporting to it, may have no
    other wake for what it owed before: its lock is waited for, in a transaction that holds no
    other yet.
    """
    failed: dict[str, UnservedExecution] = {}
    waiting = [""]
    while waiting:
        waiting, failures = take_turns(rt, waiting[0])
        failed |= {failure.execution_id: failure for failure in failures}
    return list(failed.values())


def take_turns(rt: Runtime, execution_id: str = "") -> tuple[list[str], list[UnservedExecution]]:
    """One transaction, after a wait for `execution_id` where one is named: executions that still
    owe a turn (no name where it is not known who), and those that cannot be served."""
    now = rt.clock()
    limit = rt.limits.turn_executions

    def choose(tx: Transaction) -> DueExecutions:
        if execution_id:
            tx.executions.lock(execution_id)
        return tx.executions.lock_owing(now, limit)

    try:
        turns, owing = _serve(rt, choose, now)
    except Unavailable:
        raise
    except Exception:
        # An execution whose log or net cannot be read must not hold up all those that are served
        # with it.
        log.exception("Executions cannot be served together; each of them is served by itself")
        return _serve_each(rt)
    if len(turns) == limit or not all(map(_is_settled, turns)):
        return [""], []
    return owing.passed_over, []


def _is_settled(turn: Turn) -> bool:
    """Whether the turn leaves nothing for another one right behind it."""
    decision = turn.decision
    begun = (
        decision.children or decision.undo_ids or decision.unfinished or decision.retry_id or turn.asks_again
    )
    return turn.caught_up and not (begun or retry_due(turn.after))


def _serve_each(rt: Runtime) -> tuple[list[str], list[UnservedExecution]]:
    with rt.store.read() as tx:
        ids = tx.executions.owing(rt.clock(), rt.limits.turn_executions)
    ends = [_serve_alone(rt, execution_id) for execution_id in ids]
    failed = [end for end in ends if end is not None]
    return [""] if len(failed) < len(ids) else [], failed


def _serve_alone(rt: Runtime, execution_id: str) -> UnservedExecution | None:
    """An execution that cannot be served still owes a turn, and is tried again at the next wake.
    Its instant is a new one, so that an id that another process has drawn in the same millisecond
    is not drawn again."""
    now = rt.clock()

    def choose(tx: Transaction) -> DueExecutions:
        row = tx.executions.lock(execution_id)
        return DueExecutions([row] if row is not None and _owes(row, now) else [], [])

    try:
        _serve(rt, choose, now)
    except Unavailable:
        raise
    except Exception as error:
        # See `take_turns`.
        log.exception("Execution %s cannot be served", execution_id, extra={"execution": execution_id})
        return UnservedExecution(execution_id, error)
    return None


def _owes(row: ExecutionRow, now: datetime) -> bool:
    due = row.next_wake_at is not None and row.next_wake_at <= now
    return due or row.head_version > row.decided_version


def _serve(
    rt: Runtime, choose: Callable[[Transaction], DueExecutions], now: datetime
) -> tuple[list[Turn], DueExecutions]:
    """T2 for those that `choose` locks. Commands leave after the commit; where the broker does not
    answer they stay marked as unsent and the sweeper sends them."""
    with catalog.keeping_nets(rt) as tx:
        owing = choose(tx)
        turns = decide_turns(rt, tx, owing.rows, now) if owing.rows else []
        for turn in turns:
            write_turn(rt, tx, turn, now)
        turns = ask_policies(rt, tx, turns, now)
    for turn in turns:
        rt.states.put(turn.row.execution_id, turn.after)
    send(rt, [command for turn in turns for command in turn.commands if command.sent_at is not None])
    if began := [about for turn in turns for about in turn.began_to_wait]:
        hand_on_kept(rt, began)
    if keys := keys_of(state for turn in turns for state in (*turn.states, turn.after)):
        # Behind the commit, as of correlations: whoever comes later sees the other.
        wake_waiters(rt, keys)
    return turns, owing
