"""advance: T2, the scheduler's turn. The only place that issues commands."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from noetl.engine.decide import decide, status_of, wake_at
from noetl.engine.evolve import evolve, replay
from noetl.engine.inputs import Inputs
from noetl.engine.loops import stop_reason
from noetl.engine.plan import Plan
from noetl.engine.state import STATE_SCHEMA, State, initial_state
from noetl.errors import BadRequest, ConfigError, NotFound, TemplateError, Unavailable
from noetl.facts.events import Draft, Event, Processed
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Keep
from noetl.facts.secret import Keychain
from noetl.usecases import catalog
from noetl.usecases.credential_types import TYPES
from noetl.usecases.large_values import paged
from noetl.usecases.ports import CommandRow, CredentialRow, ExecutionRow, Owing, Snapshot, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.turn import children, snapshots
from noetl.usecases.turn.commands import Orders, orders

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """One execution's turn: what was read, what follows, and the state after it."""

    row: ExecutionRow
    plan: Plan
    before: State
    drafts: tuple[Draft, ...]
    after: State
    orders: Orders = field(default_factory=Orders)
    #: Credentials of this execution alone.
    kept: Sequence[CredentialRow] = ()
    #: Whether everything was read: events may be left for the next turn.
    caught_up: bool = True


def advance(rt: Runtime) -> int:
    """Answers one wake: serves everybody who owes a turn. Returns how many turns that were.

    An execution that was passed over, because a worker is just reporting to it, may have nobody else to wake
    us for what it owed before: its lock is waited for, in a transaction that holds no other yet.
    """
    served, waiting = 0, [""]
    while waiting:
        turns, waiting = take_turns(rt, waiting[0])
        served += turns
    return served


def take_turns(rt: Runtime, execution_id: str = "") -> tuple[int, list[str]]:
    """One transaction, after a wait for `execution_id` where one is named: how many turns were taken, and
    executions that still owe one (no name where it is not known who)."""
    now = rt.clock()
    limit = rt.limits.turn_executions

    def choose(tx: Transaction) -> Owing:
        if execution_id:
            tx.lock(execution_id)
        return tx.lock_owing(now, limit)

    try:
        turns, owing = _serve(rt, choose, now)
    except Unavailable:
        raise
    except Exception:
        # An execution whose log or net cannot be read must not hold up all those that are served with it.
        log.exception("Executions cannot be served together; each of them is served by itself")
        served = _serve_each(rt)
        return served, [""] if served else []
    if len(turns) == limit or not all(turn.caught_up and not turn.orders.children for turn in turns):
        return len(turns), [""]
    return len(turns), owing.passed_over


def _serve_each(rt: Runtime) -> int:
    with rt.store.read() as tx:
        ids = tx.owing(rt.clock(), rt.limits.turn_executions)
    return sum(_serve_alone(rt, execution_id) for execution_id in ids)


def _serve_alone(rt: Runtime, execution_id: str) -> int:
    """Whoever cannot be served still owes a turn, and is tried again when somebody is woken. At an instant of its
    own, so that an id which somebody else has drawn in the same millisecond is not drawn again."""
    now = rt.clock()

    def choose(tx: Transaction) -> Owing:
        row = tx.lock(execution_id)
        return Owing([row] if row is not None and _owes(row, now) else [], [])

    try:
        return len(_serve(rt, choose, now)[0])
    except Unavailable:
        raise
    except Exception:
        # See `take_turns`.
        log.exception("Execution %s cannot be served", execution_id, extra={"execution": execution_id})
        return 0


def _owes(row: ExecutionRow, now: datetime) -> bool:
    due = row.next_wake_at is not None and row.next_wake_at <= now
    return due or row.head_version > row.decided_version


def _serve(rt: Runtime, choose: Callable[[Transaction], Owing], now: datetime) -> tuple[list[Turn], Owing]:
    """T2 for those that `choose` locks. Commands leave after the commit; where the broker does not answer they
    stay marked as unsent and the sweeper sends them."""
    with catalog.keeping_nets(rt) as tx:
        owing = choose(tx)
        turns = _turns(rt, tx, owing.rows, now) if owing.rows else []
        for turn in turns:
            _write(rt, tx, turn, now)
    for turn in turns:
        rt.states.put(turn.row.execution_id, turn.after)
    _send(rt, [command for turn in turns for command in turn.orders.commands], now)
    return turns, owing


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


def _turns(rt: Runtime, tx: Transaction, rows: Sequence[ExecutionRow], now: datetime) -> list[Turn]:
    """All that one transaction serves. They draw the ids of those that they call from one range: what they record
    comes before or behind one another in it."""
    tails = tx.tails([row.execution_id for row in rows], rt.limits.turn_events)
    name = f"{rows[0].execution_id}/{rows[0].head_version}"
    turns: list[Turn] = []
    drafted = 0
    for row in rows:
        turns.append(_turn(rt, tx, row, tails.get(row.execution_id, []), now, name, drafted))
        drafted += len(turns[-1].drafts)
    return turns


def _turn(
    rt: Runtime,
    tx: Transaction,
    row: ExecutionRow,
    tail: Sequence[Event],
    now: datetime,
    name: str,
    drafted: int,
) -> Turn:
    """`tail` is what follows the decided version, under the lock; `drafted` the events that others of the turn of
    that name have drafted."""
    plan = rt.plan(tx, row.digest)
    known = _cached(rt, tx, row)
    if known.version != row.decided_version:
        tail = tx.events(row.execution_id, after=known.version, limit=rt.limits.turn_events)
    before = replay(known, tail)
    if before.version < row.head_version:
        return Turn(row, plan, before, (), before, caught_up=False)
    kept: list[CredentialRow] = []
    inputs = replace(
        _inputs(rt, tx, plan, before, now),
        turn=name,
        place=drafted - before.version,
        keep=lambda name, data: kept.append(_credential(rt, row, name, data, now)),
    )
    try:
        drafts, after = decide(plan, before, inputs)
        rows = orders(plan, before, drafts, after, inputs.commands, row.status, rt.kinds, now)
    except Unavailable:
        # The results are out of reach for everybody; the turn is owed until they are back.
        raise
    except Exception as error:
        # A defect must end the one execution that meets it, with its reason in the log, and not the
        # scheduler that serves all the others.
        log.exception("Deciding execution %s failed", row.execution_id, extra={"execution": row.execution_id})
        drafts, after = _defect(before, error)
        # Its caller waits for an answer, and its children for nobody any more.
        rows = orders(plan, before, drafts, after, inputs.commands, row.status, rt.kinds, now)
    return Turn(row, plan, before, tuple(drafts), after, rows, kept)


def _cached(rt: Runtime, tx: Transaction, row: ExecutionRow) -> State:
    state = rt.states.get(row.execution_id)
    if state is not None and state.version <= row.head_version:
        return state
    if row.decided_version == 0:
        return initial_state(row.execution_id)
    return stored_state(tx, row.execution_id)


def stored_state(tx: Transaction, execution_id: str) -> State:
    """The newest snapshot, or the state before the first event."""
    snapshot = tx.snapshot(execution_id)
    if snapshot is None or snapshot.schema != STATE_SCHEMA:
        return initial_state(execution_id)
    return snapshots.from_json(snapshot.state)


def _inputs(rt: Runtime, tx: Transaction, plan: Plan, state: State, now: datetime) -> Inputs:
    commands: dict[str, bool] = {}
    if any(not run.ended for run in state.runs.values()):
        # Anything that is decided now may end in a halt, which spares what a worker holds.
        rows = tx.open_commands(state.execution_id)
        commands = {command.command_id: command.state == "claimed" for command in rows}
    keep = Keep(state.execution_id)
    return Inputs(
        now=now,
        commands=commands,
        load=lambda reference: _loaded(rt, reference),
        hold=lambda value: rt.hold(value, keep),
        paged=lambda items: paged(rt, items, keep),
        env=rt.env,
        max_in_flight=rt.limits.max_in_flight,
        max_items=rt.limits.max_items,
        max_generations=rt.limits.max_generations,
        playbook=lambda path, version: children.find(rt, tx, path, version),
        max_depth=rt.limits.max_depth,
        keychain=Keychain(plan.net.keychain, state.execution_id, rt.seal),
    )


def _credential(rt: Runtime, row: ExecutionRow, name: str, data: JsonMap, now: datetime) -> CredentialRow:
    """What only this execution has, and loses when it has ended. Raises TemplateError where there is no key."""
    try:
        sealed = rt.encrypt(data)
    except ConfigError as error:
        raise TemplateError(f"it cannot be kept: {error}") from error
    said = data.get("type")
    type = said if said in TYPES else "generic"
    return CredentialRow(name, type, sealed, now, now, "execution", row.execution_id)


def _loaded(rt: Runtime, reference: Mapping[str, Json]) -> Json:
    """What is gone fails what looks into it, like any other template that cannot be evaluated."""
    try:
        return rt.load(reference)
    except (NotFound, BadRequest) as error:
        raise TemplateError(error.message) from error


def _defect(state: State, error: Exception) -> tuple[list[Draft], State]:
    trace = traceback.format_exc(limit=-5)
    message = f"NoETL could not decide what follows: {error}"
    info = ErrorInfo("internal", message, type=type(error).__name__, traceback=trace)
    draft = Draft(Processed("failed", None, info), dedup_key="processed")
    return [draft], evolve(state, draft)


# --- writing ---------------------------------------------------------------------------------------------


def _write(rt: Runtime, tx: Transaction, turn: Turn, now: datetime) -> None:
    row, after = turn.row, turn.after
    if turn.drafts:
        tx.append(row.execution_id, turn.before.version, turn.drafts, now)
    for fact, child in turn.orders.children:
        children.create(tx, after, fact, child, now)
    for loop in turn.orders.loops:
        tx.save_loop(loop)
    for credential in turn.kept:
        tx.save_credential(credential)
    if turn.orders.commands:
        tx.add_commands(turn.orders.commands)
    _withdraw(tx, turn)
    ends = after.ended and not turn.before.ended
    tx.save_turn(
        row.execution_id,
        decided_version=after.version,
        # What was not decided yet is as the last turn left it: whoever is told of a change compares with that.
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
    _keep_snapshot(rt, tx, turn)


def _halt(state: State) -> str:
    if state.ended or state.cancelling:
        return "cancel"
    if state.pause_requested:
        # Also where a branch has failed: `resume` ends the pause, and then the failure takes its course.
        return "pause"
    return "fail" if state.stopping and not state.final_ran else ""


def _keep_snapshot(rt: Runtime, tx: Transaction, turn: Turn) -> None:
    every = rt.limits.snapshot_events
    crossed = turn.after.version // every > turn.row.decided_version // every
    if crossed or (turn.after.ended and turn.after.version > every // 4):
        state = snapshots.to_json(turn.after)
        tx.save_snapshot(Snapshot(turn.row.execution_id, turn.after.version, STATE_SCHEMA, state))


def _withdraw(tx: Transaction, turn: Turn) -> None:
    """Closes the commands of runs that are gone: cancelled, or ended with their execution."""
    ends = turn.after.ended and not turn.before.ended
    gone = [run for key, run in turn.before.runs.items() if ends or key not in turn.after.runs]
    stale = [command for run in gone if not run.ended for command in run.commands.values()]
    if stale:
        tx.close_commands(stale)
    if ends and gone:
        tx.close_loops(turn.row.execution_id)
    for run in turn.after.runs.values():
        if run.loop is not None and stop_reason(turn.plan.step(run.step), run.loop) is not None:
            tx.close_loop(turn.row.execution_id, run.id)
