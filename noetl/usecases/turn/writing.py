"""Writes a turn: its events, and the rows of commands, loops and children that follow from it, in
the transaction that read what they follow from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from noetl.engine.approvals import count_open
from noetl.engine.children import depth_below
from noetl.engine.decision import Decision, NewChild, status_of, wake_at
from noetl.engine.state import STATE_SCHEMA, State
from noetl.engine.waits import correlated_waits, waiting_for
from noetl.facts.children import Parent
from noetl.facts.events import Draft, IterationCancelled
from noetl.facts.executions import Requested
from noetl.usecases import snapshots
from noetl.usecases.called import admit_call
from noetl.usecases.input_secrets import keep_given
from noetl.usecases.log_copies import LogCopy, write_copy
from noetl.usecases.ports import (
    CommandRow,
    CorrelatedWait,
    Correlation,
    CredentialRow,
    ExecutionRow,
    LoopRow,
    Snapshot,
    Transaction,
)
from noetl.usecases.retry import PlannedRetry, begin
from noetl.usecases.runtime import Runtime
from noetl.usecases.slots import find_asking, forget_paused, free_cancelled, free_ended
from noetl.usecases.start import create_execution


@dataclass(frozen=True, slots=True)
class Turn:
    """One execution's turn: what was read, what follows, and the commands that leave."""

    row: ExecutionRow
    before: State
    decision: Decision
    commands: tuple[CommandRow, ...] = ()
    #: Its next attempt, which begins with this turn.
    retry: PlannedRetry | None = None
    #: Executions that undo others, which may begin with this turn.
    undos: Sequence[LogCopy] = ()
    #: Credentials of this execution alone.
    kept: Sequence[CredentialRow] = ()
    #: Whether everything was read: events may be left for the next turn.
    caught_up: bool = True
    #: The state that the last turn left, or one as near to that as it knows; None: it knows none.
    earlier: State | None = None
    #: As it asked for slots in this turn.
    asked: tuple[State, ...] = ()
    #: When the next slot of a rate is due that it waits for.
    slots_due: datetime | None = None

    @property
    def after(self) -> State:
        return self.decision.after

    @property
    def began_to_wait(self) -> list[Correlation]:
        """The values about which it waits for signals since this turn."""
        new = correlated_waits(self.after) - (self.waited_before or frozenset())
        return [Correlation(name, value) for _, name, value in sorted(new)]

    @property
    def asks_again(self) -> bool:
        """Whether it asks for slots that this turn did not put to the others."""
        known = {one for state in self.asked for one in state.holders.values()}
        return any(one not in known for one in find_asking(self.after))

    @property
    def states(self) -> list[State]:
        """What it was before and while it was decided."""
        return [*([] if self.earlier is None else [self.earlier]), self.before, *self.asked]

    @property
    def waited_before(self) -> frozenset[tuple[str, str, str]] | None:
        """As `correlated_waits`, of the state that the last turn left; None where that is not
        known."""
        if self.earlier is None or self.earlier.version != self.row.decided_version:
            return None
        return correlated_waits(self.earlier)


def write_turn(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> None:
    """Writes what was decided. Loops are saved before the commands that take from them leave."""
    row, decision = turn.row, turn.decision
    if decision.drafts:
        tx.events.append(row.execution_id, turn.before.version, decision.drafts, now)
    if cancelled := [draft for draft in decision.drafts if isinstance(draft.fact, IterationCancelled)]:
        tx.executions.add_cancelled_parts(row.execution_id, len(cancelled))
        for draft in cancelled:
            free_cancelled(tx, turn.before, draft.run_id or "", draft.iteration or 0)
    free_ended(tx, turn.states, decision.after)
    if decision.ends:
        forget_paused(tx, row.execution_id, decision.after.paused_steps)
    _begin_others(rt, tx, turn, now)
    for loop in decision.loops:
        tx.loops.save(
            LoopRow(
                row.execution_id,
                loop.run_id,
                loop.generation,
                next_index=0,
                count=loop.count,
                open=True,
                items=loop.items,
                indices=loop.indices,
            )
        )
    for credential in turn.kept:
        tx.credentials.save(credential)
    if turn.commands:
        tx.commands.add(turn.commands)
    _close(tx, turn)
    _tell_waits(tx, turn)
    _save_turn(tx, turn, now)
    _keep_snapshot(rt, tx, turn)


def _begin_others(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> None:
    """Writes the executions that begin with the turn."""
    decision = turn.decision
    for child in decision.children:
        create_child(rt, tx, decision.after, child, now)
    for undo in turn.undos:
        if undo.row.execution_id in decision.undo_ids:
            write_copy(tx, undo, now)
    if turn.retry is not None and decision.retry_id is not None:
        begin(tx, turn.retry, decision.retry_id, Draft(turn.retry.request), now)


def _save_turn(tx: Transaction, turn: Turn, now: datetime) -> None:
    row, after, ends = turn.row, turn.after, turn.decision.ends
    tx.executions.save_turn(
        row.execution_id,
        decided_version=after.version,
        # What was not decided yet is as the last turn left it: notifications of a change compare
        # with that.
        status=status_of(after) if turn.caught_up else row.status,  # type: ignore[arg-type]
        next_wake_at=_find_wake(turn, now),
        # What was asked for from outside holds until its event has been read.
        halt=_halt(after) if turn.caught_up else row.halt,
        now=now,
        ended_at=now if ends else None,
        error=after.error.as_json() if ends and after.error else None,
        errors_passed_over=after.errors_passed_over,
        warnings_count=after.notices.count,
        waiting_for=waiting_for(after),
        approvals=count_open(after),
    )


def _find_wake(turn: Turn, now: datetime) -> datetime | None:
    after = turn.after
    if after.ended:
        return wake_at(after)
    if turn.decision.unfinished or turn.asks_again:
        return now
    return min(filter(None, (wake_at(after), turn.slots_due)), default=None)


def _close(tx: Transaction, turn: Turn) -> None:
    decision = turn.decision
    if decision.closed_commands:
        tx.commands.close(decision.closed_commands)
    if decision.ends and turn.before.runs:
        tx.loops.close_all(turn.row.execution_id)
    for run_id in decision.closed_loops:
        tx.loops.close(turn.row.execution_id, run_id)


def _tell_waits(tx: Transaction, turn: Turn) -> None:
    """Who sends a signal about a value finds those that wait for it."""
    before, after = turn.waited_before, correlated_waits(turn.after)
    execution_id = turn.row.execution_id
    if before is None:
        tx.correlations.wait_no_more(execution_id)
        before = frozenset()
    if gone := sorted({place for place, _, _ in before - after}):
        tx.correlations.wait_no_more(execution_id, gone)
    if new := sorted(after - {one for one in before if one[0] not in gone}):
        tx.correlations.wait(
            [CorrelatedWait(Correlation(name, value), execution_id, place) for place, name, value in new]
        )


def _halt(state: State) -> str:
    if state.ended or (state.cancelling and not state.closing):
        return "cancel"
    if state.pause_requested:
        # Also where a branch has failed: `resume` ends the pause, and then the failure takes its
        # course.
        return "pause"
    return "fail" if state.stopping and not (state.final_ran or state.closing) else ""


def _keep_snapshot(rt: Runtime, tx: Transaction, turn: Turn) -> None:
    every = rt.limits.snapshot_events
    crossed = turn.after.version // every > turn.row.decided_version // every
    if crossed or (turn.after.ended and turn.after.version > every // 4):
        state = snapshots.to_json(turn.after)
        tx.snapshots.save(Snapshot(turn.row.execution_id, turn.after.version, STATE_SCHEMA, state))


def create_child(rt: Runtime, tx: Transaction, caller: State, new: NewChild, now: datetime) -> None:
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
    plan = rt.plan(tx, fact.digest)
    given = keep_given(rt, tx, plan.net, admit_call(rt, plan, call.payload), fact.child_id)
    request = Requested(
        fact.path,
        fact.playbook_version,
        fact.digest,
        given.payload,
        parent=parent,
        retry=fact.retry,
        key=fact.key,
        labels=plan.net.labels,
    )
    create_execution(tx, fact.child_id, plan.net, Draft(request), now)
