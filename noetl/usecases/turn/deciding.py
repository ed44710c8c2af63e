"""A turn, read and decided: what is new to each execution, and what follows."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from noetl.engine.decide import decide, fail
from noetl.engine.decision import Decision, Notification
from noetl.engine.evolve import replay
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.errors import ConfigError, TemplateError, Unavailable
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.usecases import snapshots
from noetl.usecases.called import TurnCalls
from noetl.usecases.credential_types import TYPES
from noetl.usecases.decision_inputs import find_playbook, inputs_of
from noetl.usecases.lineage import find_source
from noetl.usecases.ports import CredentialRow, ExecutionRow, Transaction
from noetl.usecases.retry import PlannedRetry
from noetl.usecases.runtime import Runtime
from noetl.usecases.turn.attempts import find_obstacle
from noetl.usecases.turn.writing import Turn, command_rows

log = logging.getLogger(__name__)


def decide_turns(rt: Runtime, tx: Transaction, rows: Sequence[ExecutionRow], now: datetime) -> list[Turn]:
    """All that one transaction serves. They draw the ids of those that they call from one range:
    what they record comes before or behind one another in it."""
    tails = tx.events.tails([row.execution_id for row in rows], rt.limits.turn_events)
    name = f"{rows[0].execution_id}/{rows[0].head_version}"
    calls = TurnCalls(rt, tx, now)
    turns: list[Turn] = []
    drafted = 0
    for row in rows:
        turns.append(_turn(rt, tx, row, tails.get(row.execution_id, []), calls, name, drafted))
        drafted += len(turns[-1].decision.drafts)
    return turns


def _turn(
    rt: Runtime,
    tx: Transaction,
    row: ExecutionRow,
    tail: Sequence[Event],
    calls: TurnCalls,
    name: str,
    drafted: int,
) -> Turn:
    """`tail` is what follows the decided version, under the lock; `drafted` the events that others
    of the turn of that name have drafted."""
    plan, now = rt.plan(tx, row.digest), calls.now
    known = _find_state(rt, tx, row)
    if known.version != row.decided_version:
        tail = tx.events.read(row.execution_id, after=known.version, limit=rt.limits.turn_events)
    before = replay(known, tail)
    if before.version < row.head_version:
        return Turn(row, before, Decision((), before), caught_up=False, earlier=known)
    kept: list[CredentialRow] = []
    retries: list[PlannedRetry] = []
    give_way: list[Notification] = []
    take_call = partial(calls.take, row.execution_id, give_way)
    inputs = replace(
        _inputs(rt, tx, plan, before, now),
        status=row.status,
        turn=name,
        place=drafted - before.version,
        keep=lambda name, data: kept.append(_credential(rt, row, name, data, now)),
        prepare_retry=partial(find_obstacle, rt, tx, before, retries),
        playbook=lambda path, version: find_playbook(rt, tx, path, version, take_call),
    )
    try:
        decision = decide(plan, before, inputs)
        decision = replace(decision, notifications=(*decision.notifications, *give_way))
        commands = command_rows(plan, decision, rt.kinds, now)
    except Unavailable:
        # The results are out of reach for everybody; the turn is owed until they are back.
        raise
    except Exception as error:
        # A defect must end the one execution that meets it, with its reason in the log, and not the
        # scheduler that serves all the others.
        log.exception("Deciding execution %s failed", row.execution_id, extra={"execution": row.execution_id})
        decision = fail(plan, before, inputs, _defect(error))
        commands = command_rows(plan, decision, rt.kinds, now)
    return Turn(row, before, decision, commands, retries[0] if retries else None, kept, earlier=known)


def _find_state(rt: Runtime, tx: Transaction, row: ExecutionRow) -> State:
    state = rt.states.get(row.execution_id)
    if state is not None and state.version <= row.head_version:
        return state
    if row.decided_version == 0:
        return initial_state(row.execution_id)
    return snapshots.load_state(tx, row.execution_id)


def _inputs(rt: Runtime, tx: Transaction, plan: Plan, state: State, now: datetime) -> Inputs:
    inputs = inputs_of(rt, tx, plan, state.execution_id, now, Retention(state.execution_id))
    commands: dict[str, bool] = {}
    if any(not run.ended for run in state.runs.values()):
        # Anything that is decided now may end in a halt, which spares what a worker holds.
        rows = tx.commands.open_of(state.execution_id)
        commands = {command.command_id: command.state == "claimed" for command in rows}
    source = find_source(rt, tx, state.retry)
    if source is None:
        return replace(inputs, commands=commands)
    copies = rt.copies.get(state.execution_id)
    if copies is None:
        rt.copies.put(state.execution_id, copies := {})
    return replace(inputs, commands=commands, source=source, copies=copies)


def _credential(rt: Runtime, row: ExecutionRow, name: str, data: JsonMap, now: datetime) -> CredentialRow:
    """What only this execution has, and loses when it has ended. Raises TemplateError where there
    is no key."""
    try:
        sealed = rt.encrypt(data)
    except ConfigError as error:
        raise TemplateError(f"it cannot be kept: {error}") from error
    said = data.get("type")
    type = said if said in TYPES else "generic"
    return CredentialRow(name, type, sealed, now, now, "execution", row.execution_id)


def _defect(error: Exception) -> ErrorInfo:
    trace = traceback.format_exc(limit=-5)
    message = f"NoETL could not decide what follows: {error}"
    return ErrorInfo("internal", message, type=type(error).__name__, traceback=trace)
