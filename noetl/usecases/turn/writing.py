"""Writes a turn: its events, and the rows of commands, loops and children that follow from it, in
the transaction that read what they follow from."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.approvals import count_open
from noetl.engine.asking import priority_of
from noetl.engine.children import depth_below
from noetl.engine.decision import (
    Command,
    Decision,
    NewChild,
    Notification,
    WithdrawnRun,
    status_of,
    wake_at,
)
from noetl.engine.plan import Plan
from noetl.engine.state import STATE_SCHEMA, State
from noetl.engine.waits import correlated_waits, waiting_for
from noetl.facts.children import Parent
from noetl.facts.events import Draft, IterationCancelled
from noetl.facts.executions import Requested
from noetl.facts.limits import LAST_PLACE
from noetl.net.model import KindInfo
from noetl.usecases import snapshots
from noetl.usecases.called import admit_call
from noetl.usecases.input_secrets import keep_given
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
from noetl.usecases.purposes import PURPOSES
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
    #: Credentials of this execution alone.
    kept: Sequence[CredentialRow] = ()
    #: Whether everything was read: events may be left for the next turn.
    caught_up: bool = True
    #: The state before the events that it has read, or an earlier one; None: they are not known.
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
        new = correlated_waits(self.after) - self.waited_before
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
    def waited_before(self) -> frozenset[tuple[str, str, str]]:
        """As `correlated_waits`, before this turn."""
        return frozenset() if self.earlier is None else correlated_waits(self.earlier)


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
    for child in decision.children:
        create_child(rt, tx, decision.after, child, now)
    if turn.retry is not None and decision.retry_id is not None:
        begin(tx, turn.retry, decision.retry_id, Draft(turn.retry.request), now)
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
    )
    create_execution(tx, fact.child_id, Draft(request), now)


def command_rows(
    plan: Plan, decision: Decision, kinds: Mapping[str, KindInfo], now: datetime
) -> tuple[CommandRow, ...]:
    """All commands that leave because of `decision`: work, notifications of other executions, and
    what tools have to end elsewhere."""
    execution_id = decision.after.execution_id
    limited = {one.run_id for one in decision.after.holders.values()}
    work = _with_chords(
        [_work_row(plan, execution_id, command, limited, now) for command in decision.commands]
    )
    notified = (_notification_row(decision, one, now) for one in decision.notifications)
    abandoned = (
        _abandon_row(plan, execution_id, one, now)
        for one in decision.withdrawn
        # It may have begun something elsewhere that its tool can end.
        if any(kinds[task.kind].abandons for task in plan.step(one.run.step).tasks if task.kind in kinds)
    )
    return (*work, *notified, *abandoned)


def _work_row(
    plan: Plan, execution_id: str, command: Command, limited: Collection[str], now: datetime
) -> CommandRow:
    """`limited` are the runs that have slots, which end with them."""
    fact, purpose = command.fact, PURPOSES[command.fact.purpose]
    due = datetime.fromisoformat(fact.due_at) if fact.due_at else None
    return CommandRow(
        command_id=fact.command_id,
        execution_id=execution_id,
        run_id=command.run_id,
        step=command.step,
        purpose=purpose.name,
        part=fact.part,
        queue=purpose.queue_of(fact.queue),
        issue=fact.issue,
        context={**command.context, **({"slots": True} if command.run_id in limited else {})},
        label=purpose.label_of(plan.net.path, command.step, fact.part, command.iteration),
        iteration=command.iteration,
        generation=fact.generation,
        priority=LAST_PLACE - priority_of(plan, plan.step(command.step)) if purpose.is_claimed else 0,
        due_at=due,
        sent_at=now if due is None or due <= now else None,
    )


def _notification_row(decision: Decision, one: Notification, now: datetime) -> CommandRow:
    """A command like any other, so that it survives the process that was to send it."""
    purpose, execution_id = PURPOSES[one.purpose], decision.after.execution_id
    # A child may wait and go on again and again; and whom a call makes give way may be a child
    # that was given up before.
    again = f"/{decision.after.version}" if one.purpose == "waits" or "reason" in one.context else ""
    if "run" in one.context:
        again = f"/{one.context['run']}{again}"
    return CommandRow(
        command_id=f"{execution_id}/{purpose.name}/{one.to}{again}",
        execution_id=execution_id,
        run_id=one.run_id,
        step=one.step,
        purpose=purpose.name,
        part=one.to,
        queue=purpose.queue_of(""),
        issue=1,
        context=one.context,
        label=purpose.label_of("", one.step, one.to),
        sent_at=now,
    )


def _abandon_row(plan: Plan, execution_id: str, withdrawn: WithdrawnRun, now: datetime) -> CommandRow:
    run, purpose = withdrawn.run, PURPOSES["abandon"]
    return CommandRow(
        command_id=f"{execution_id}/{purpose.name}/{run.id}",
        execution_id=execution_id,
        run_id=run.id,
        step=run.step,
        purpose=purpose.name,
        part="",
        queue=purpose.queue_of(plan.step(run.step).queue),
        issue=1,
        context=withdrawn.context,
        label=purpose.label_of(plan.net.path, run.step, ""),
        sent_at=now,
    )


def _with_chords(rows: Sequence[CommandRow]) -> Iterator[CommandRow]:
    """`rows`, in which lanes of one loop that leave together are the header of one chord."""
    chords: dict[str, list[CommandRow]] = {}
    for row in rows:
        if PURPOSES[row.purpose].in_chord:
            chords.setdefault(row.run_id, []).append(row)
    members = {row.command_id: row for lanes in chords.values() for row in _chord(lanes)}
    return (members.get(row.command_id, row) for row in rows)


def _chord(lanes: Sequence[CommandRow]) -> Iterator[CommandRow]:
    first = lanes[0]
    later = "" if first.part == "l0" else f"/{first.part}"
    name = f"{first.execution_id}/{first.run_id}/{first.generation}{later}"
    chord_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:chord:{name}"))
    for index, row in enumerate(lanes):
        yield replace(row, chord_id=chord_id, chord_index=index, chord_size=len(lanes))
