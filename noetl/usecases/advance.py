"""advance: T2, the scheduler's turn. The only place that issues commands."""

from __future__ import annotations

import logging
import traceback
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.context import command_context
from noetl.engine.decide import decide, status_of, wake_at
from noetl.engine.evolve import evolve, replay
from noetl.engine.inputs import Inputs
from noetl.engine.loops import missing, stop_reason
from noetl.engine.plan import Plan
from noetl.engine.state import STATE_SCHEMA, State, initial_state
from noetl.errors import Unavailable
from noetl.facts.events import CommandIssued, Draft, LoopStarted, Processed
from noetl.facts.outcome import ErrorInfo
from noetl.usecases import snapshots
from noetl.usecases.ports import CommandRow, ExecutionRow, LoopRow, Snapshot, Transaction
from noetl.usecases.runtime import Runtime

log = logging.getLogger(__name__)

#: Lanes give way to everything else on the same queue.
LANE_PRIORITY = 9
DEFAULT_PRIORITY = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """One execution's turn: what was read, what follows, and the state after it."""

    row: ExecutionRow
    plan: Plan
    before: State
    drafts: tuple[Draft, ...]
    after: State
    #: Whether everything was read: events may be left for the next turn.
    caught_up: bool


@dataclass(frozen=True, slots=True)
class Advanced:
    """How many executions were served, and whether some are known to owe another turn."""

    served: int
    more: bool


def advance(rt: Runtime, execution_id: str | None = None) -> Advanced:
    """Serves executions that owe a turn, in one transaction.

    `execution_id` is one that must not be passed over because a worker is just reporting to it: its
    lock is waited for, before any other is held. Commands leave after the commit. Where the broker does
    not answer they stay marked as unsent and the sweeper sends them.
    """
    now = rt.clock()
    limit = rt.limits.turn_executions
    with rt.store.begin() as tx:
        if execution_id is not None:
            tx.lock(execution_id)
        rows = tx.lock_owing(now, limit)
        turns = [_turn(rt, tx, row, now) for row in rows]
        commands = [command for turn in turns for command in _write(rt, tx, turn, now)]
    for turn in turns:
        rt.states.put(turn.row.execution_id, turn.after)
    _send(rt, commands, now)
    return Advanced(len(rows), len(rows) == limit or not all(turn.caught_up for turn in turns))


def _send(rt: Runtime, commands: Sequence[CommandRow], now: datetime) -> None:
    ready = [command for command in commands if command.due_at is None or command.due_at <= now]
    if not ready:
        return
    try:
        rt.dispatcher.send(ready)
    except Unavailable as error:
        log.warning("%d commands stay unsent for now: %s", len(ready), error)
        with rt.store.begin() as tx:
            tx.mark_sent([command.command_id for command in ready], None)


# --- reading and deciding ---------------------------------------------------------------------------


def _turn(rt: Runtime, tx: Transaction, row: ExecutionRow, now: datetime) -> Turn:
    plan = rt.plan(tx, row.digest)
    known = _cached(rt, tx, row)
    tail = tx.events(row.execution_id, after=known.version, limit=rt.limits.turn_events)
    before = replay(known, tail)
    if before.version < row.head_version:
        return Turn(row, plan, before, (), before, caught_up=False)
    try:
        drafts, after = decide(plan, before, _inputs(rt, tx, before, now))
    except Exception as error:
        # A defect must end the one execution that meets it, with its reason in the log, and not the
        # scheduler that serves all the others.
        log.exception("Deciding execution %s failed", row.execution_id)
        drafts, after = _defect(before, error)
    return Turn(row, plan, before, tuple(drafts), after, caught_up=True)


def _cached(rt: Runtime, tx: Transaction, row: ExecutionRow) -> State:
    state = rt.states.get(row.execution_id)
    if state is not None and state.version <= row.head_version:
        return state
    return stored_state(tx, row.execution_id)


def stored_state(tx: Transaction, execution_id: str) -> State:
    """The newest snapshot, or the state before the first event."""
    snapshot = tx.snapshot(execution_id)
    if snapshot is None or snapshot.schema != STATE_SCHEMA:
        return initial_state(execution_id)
    return snapshots.from_json(snapshot.state)


def _inputs(rt: Runtime, tx: Transaction, state: State, now: datetime) -> Inputs:
    commands: dict[str, bool] = {}
    if state.stopping or state.pause_requested or state.cancelling or _has_loop(state):
        rows = tx.open_commands(state.execution_id)
        commands = {command.command_id: command.state == "claimed" for command in rows}
    return Inputs(
        now=now,
        commands=commands,
        load=rt.results.load,
        hold=rt.hold,
        env=rt.env,
        max_in_flight=rt.limits.max_in_flight,
        max_items=rt.limits.max_items,
        max_generations=rt.limits.max_generations,
    )


def _has_loop(state: State) -> bool:
    return any(run.loop is not None for run in state.runs.values())


def _defect(state: State, error: Exception) -> tuple[list[Draft], State]:
    trace = traceback.format_exc(limit=-5)
    message = f"NoETL could not decide what follows: {error}"
    info = ErrorInfo("internal", message, type=type(error).__name__, traceback=trace)
    draft = Draft(Processed("failed", None, info), dedup_key="processed")
    return [draft], evolve(state, draft)


# --- writing ---------------------------------------------------------------------------------------------


def _write(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> list[CommandRow]:
    row, after = turn.row, turn.after
    if turn.drafts:
        tx.append(row.execution_id, turn.before.version, turn.drafts, now)
    commands = _orders(tx, turn, now) if turn.drafts else []
    if commands:
        tx.add_commands(commands)
    _withdraw(tx, turn)
    tx.save_turn(
        row.execution_id,
        decided_version=after.version,
        status=status_of(after),  # type: ignore[arg-type]
        next_wake_at=wake_at(after),
        # What was not read yet may be a cancellation that has already told the workers to halt.
        halt=_halt(after) if turn.caught_up else row.halt,
        now=now,
        ended_at=now if after.ended else None,
        error=after.error.as_json() if after.ended and after.error else None,
    )
    _keep_snapshot(rt, tx, turn)
    return commands


def _halt(state: State) -> str:
    if state.ended or state.cancelling:
        return "cancel"
    if state.stopping and not state.final_ran:
        return "fail"
    return "pause" if state.pause_requested else ""


def _keep_snapshot(rt: Runtime, tx: Transaction, turn: Turn) -> None:
    every = rt.limits.snapshot_events
    crossed = turn.after.version // every > turn.row.decided_version // every
    if crossed or (turn.after.ended and turn.after.version > every // 4):
        state = snapshots.to_json(turn.after)
        tx.save_snapshot(Snapshot(turn.row.execution_id, turn.after.version, STATE_SCHEMA, state))


def _withdraw(tx: Transaction, turn: Turn) -> None:
    """Closes the commands of runs that are gone: cancelled, or ended with their execution."""
    gone = [run for key, run in turn.before.runs.items() if key not in turn.after.runs]
    stale = [command for run in gone if not run.ended for command in run.commands.values()]
    if stale:
        tx.close_commands(stale)
    if turn.after.ended and gone:
        tx.close_loops(turn.row.execution_id)
    for run in turn.after.runs.values():
        if run.loop is not None and stop_reason(turn.plan.step(run.step), run.loop) is not None:
            tx.close_loop(turn.row.execution_id, run.id)


def _orders(tx: Transaction, turn: Turn, now: datetime) -> list[CommandRow]:
    """Command rows for the `command.issued` facts among the drafts, and loop rows for their lanes."""
    rows: list[CommandRow] = []
    state = turn.before
    for draft in turn.drafts:
        state = evolve(state, draft)
        if isinstance(draft.fact, LoopStarted):
            _open_loop(tx, state, draft)
        if isinstance(draft.fact, CommandIssued) and draft.run_id in turn.after.runs:
            rows.append(_order(turn.plan, state, draft, draft.fact, now))
    lanes = [row for row in rows if row.purpose == "lane"]
    chords = {row.run_id: [lane for lane in lanes if lane.run_id == row.run_id] for row in lanes}
    for run, members in chords.items():
        if members[0].generation > 1:
            _reopen_loop(tx, turn, run, members[0].generation)
    return [_in_chord(row, chords[row.run_id]) if row.purpose == "lane" else row for row in rows]


def _open_loop(tx: Transaction, state: State, draft: Draft) -> None:
    run = state.runs[draft.run_id or ""]
    if run.loop is not None:
        items = run.loop.items
        tx.save_loop(LoopRow(state.execution_id, run.id, 1, 0, run.loop.count, open=True, items=items))


def _reopen_loop(tx: Transaction, turn: Turn, run_id: str, generation: int) -> None:
    run = turn.before.runs[run_id]
    if run.loop is None:
        return
    commands = {row.command_id for row in tx.open_commands(turn.row.execution_id)}
    lost = missing(run, run.loop, commands)
    row = LoopRow(
        turn.row.execution_id, run_id, generation, 0, len(lost), open=True, items=run.loop.items, indices=lost
    )
    tx.save_loop(row)


def _order(plan: Plan, state: State, draft: Draft, fact: CommandIssued, now: datetime) -> CommandRow:
    run = state.runs[draft.run_id or ""]
    due = datetime.fromisoformat(fact.due_at) if fact.due_at else None
    where = f"[{draft.iteration}]" if draft.iteration is not None else ""
    return CommandRow(
        command_id=fact.command_id,
        execution_id=state.execution_id,
        run_id=run.id,
        step=run.step,
        purpose=fact.purpose,
        part=fact.part,
        queue=fact.queue,
        issue=fact.issue,
        context=command_context(plan, state, run),
        label=f"{plan.net.path}:{run.step}{where}",
        iteration=draft.iteration,
        generation=fact.generation,
        priority=LANE_PRIORITY if fact.purpose == "lane" else DEFAULT_PRIORITY,
        due_at=due,
        sent_at=now if due is None or due <= now else None,
    )


def _in_chord(row: CommandRow, members: list[CommandRow]) -> CommandRow:
    """Lanes of one generation are the header of one chord."""
    name = f"{row.execution_id}/{row.run_id}/{row.generation}"
    chord = str(uuid.uuid5(uuid.NAMESPACE_URL, f"noetl:chord:{name}"))
    index = [member.command_id for member in members].index(row.command_id)
    return replace(row, chord_id=chord, chord_index=index, chord_size=len(members))
