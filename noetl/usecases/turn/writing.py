"""A turn, written: its events and rows, in the transaction that read what they follow from."""

from __future__ import annotations

from datetime import datetime

from noetl.engine.children import depth_below
from noetl.engine.decision import NewChild, OpenedLoop, status_of, wake_at
from noetl.engine.state import STATE_SCHEMA, State
from noetl.facts.children import Parent
from noetl.facts.executions import Requested
from noetl.usecases import snapshots
from noetl.usecases.ports import LoopRow, Snapshot, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import create_execution
from noetl.usecases.turn.deciding import Turn


def write_turn(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> None:
    """Writes what was decided. Loops are saved before the commands that take from them leave."""
    row, decision = turn.row, turn.decision
    if decision.drafts:
        tx.events.append(row.execution_id, turn.before.version, decision.drafts, now)
    for child in decision.children:
        create_child(tx, decision.after, child, now)
    for loop in decision.loops:
        tx.loops.save(_loop_row(row.execution_id, loop))
    for credential in turn.kept:
        tx.credentials.save(credential)
    if turn.commands:
        tx.commands.add(turn.commands)
    _close(tx, turn)
    _save_turn(tx, turn, now)
    _keep_snapshot(rt, tx, turn)


def _loop_row(execution_id: str, loop: OpenedLoop) -> LoopRow:
    return LoopRow(
        execution_id,
        loop.run_id,
        loop.generation,
        0,
        loop.count,
        open=True,
        items=loop.items,
        indices=loop.indices,
    )


def _save_turn(tx: Transaction, turn: Turn, now: datetime) -> None:
    row, after, ends = turn.row, turn.after, turn.decision.ends
    tx.executions.save_turn(
        row.execution_id,
        decided_version=after.version,
        # What was not decided yet is as the last turn left it: notifications of a change compare
        # with that.
        status=status_of(after) if turn.caught_up else row.status,  # type: ignore[arg-type]
        next_wake_at=wake_at(after),
        # What was asked for from outside holds until its event has been read.
        halt=_halt(after) if turn.caught_up else row.halt,
        now=now,
        ended_at=now if ends else None,
        error=after.error.as_json() if ends and after.error else None,
        errors_passed_over=after.errors_passed_over,
        warnings_count=after.notices.count,
    )


def _close(tx: Transaction, turn: Turn) -> None:
    """Closes the commands of runs that are gone, and the loops that have come to their end."""
    decision = turn.decision
    if decision.closed_commands:
        tx.commands.close(decision.closed_commands)
    if decision.ends and turn.before.runs:
        tx.loops.close_all(turn.row.execution_id)
    for run_id in decision.closed_loops:
        tx.loops.close(turn.row.execution_id, run_id)


def _halt(state: State) -> str:
    if state.ended or state.cancelling:
        return "cancel"
    if state.pause_requested:
        # Also where a branch has failed: `resume` ends the pause, and then the failure takes its
        # course.
        return "pause"
    return "fail" if state.stopping and not state.final_ran else ""


def _keep_snapshot(rt: Runtime, tx: Transaction, turn: Turn) -> None:
    every = rt.limits.snapshot_events
    crossed = turn.after.version // every > turn.row.decided_version // every
    if crossed or (turn.after.ended and turn.after.version > every // 4):
        state = snapshots.to_json(turn.after)
        tx.snapshots.save(Snapshot(turn.row.execution_id, turn.after.version, STATE_SCHEMA, state))


def create_child(tx: Transaction, caller: State, new: NewChild, now: datetime) -> None:
    """T8: writes the child's row and its first event, in the transaction that records the call."""
    fact, child = new.fact, new.call
    call = child.call
    parent = Parent(
        caller.execution_id,
        child.step,
        child.run_id,
        child.iteration,
        child.task,
        depth_below(caller),
        call.return_step,
        call.detached,
        call.iter,
    )
    request = Requested(fact.path, fact.playbook_version, fact.digest, call.payload, parent=parent)
    create_execution(tx, fact.child_id, request, "server", now)
