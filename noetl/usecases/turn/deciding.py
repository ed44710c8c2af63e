"""A turn, read and decided: what is new to each execution, and what follows."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from noetl.engine.children import depth_below
from noetl.engine.decide import Course, fail
from noetl.engine.decision import Decision, Notification
from noetl.engine.evolve import replay
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.scope_state import UndoableCall
from noetl.engine.state import State, initial_state
from noetl.errors import BadRequest, TemplateError, Unavailable
from noetl.facts.children import Parent
from noetl.facts.events import Event
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.net.model import KindInfo
from noetl.usecases import snapshots
from noetl.usecases.called import TurnCalls
from noetl.usecases.decision_inputs import find_playbook, inputs_of
from noetl.usecases.kept_credentials import make_credential
from noetl.usecases.lineage import find_source
from noetl.usecases.log_copies import LogCopy
from noetl.usecases.ports import CredentialRow, ExecutionRow, Transaction
from noetl.usecases.retry import PlannedRetry
from noetl.usecases.runtime import Runtime
from noetl.usecases.slots import SlotAnswer, answer
from noetl.usecases.turn.attempts import find_obstacle
from noetl.usecases.turn.command_rows import command_rows
from noetl.usecases.turn.writing import Turn
from noetl.usecases.undos import copy_to_undo

log = logging.getLogger(__name__)


def decide_turns(rt: Runtime, tx: Transaction, rows: Sequence[ExecutionRow], now: datetime) -> list[Turn]:
    """All that one transaction serves. They draw the ids of those that they call from one range:
    what they record comes before or behind one another in it. What they ask slots for is answered
    for all of them at once, and then they go on."""
    tails = tx.events.tails([row.execution_id for row in rows], rt.limits.turn_events)
    name = f"{rows[0].execution_id}/{rows[0].head_version}"
    calls = TurnCalls(rt, tx, now)
    turns: list[_OpenTurn] = []
    drafted = 0
    for row in rows:
        turn = _open(rt, tx, row, tails.get(row.execution_id, []), calls)
        turn.go_on(turn=name, place=drafted - turn.before.version)
        turns.append(turn)
        drafted += turn.state.version - turn.before.version
    _answer_slots(tx, turns, f"{name}/slots", now)
    return [turn.close(rt.kinds, now) for turn in turns]


def _answer_slots(tx: Transaction, turns: Sequence[_OpenTurn], name: str, now: datetime) -> None:
    asking = [turn for turn in turns if turn.is_open]
    answers = answer(tx, [turn.state for turn in asking], now)
    drafted = 0
    for turn in asking:
        version = turn.state.version
        found = answers.get(turn.row.execution_id)
        if found is not None:
            turn.take(found, name, drafted - version)
        drafted += turn.state.version - version


@dataclass(slots=True)
class _OpenTurn:
    """A turn that is being decided. Without a `course` it only reads."""

    row: ExecutionRow
    plan: Plan
    known: State
    before: State
    course: Course | None = None
    failure: Decision | None = None
    kept: list[CredentialRow] = field(default_factory=list)
    retries: list[PlannedRetry] = field(default_factory=list)
    undos: list[LogCopy] = field(default_factory=list)
    give_way: list[Notification] = field(default_factory=list)
    inputs: Inputs | None = None
    answer: SlotAnswer = field(default_factory=SlotAnswer)
    asked: tuple[State, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.course is not None and self.failure is None

    @property
    def state(self) -> State:
        if self.failure is not None:
            return self.failure.after
        return self.before if self.course is None else self.course.state

    def go_on(self, **known: Any) -> None:
        """Decides what follows. A defect ends the execution; raises Unavailable."""
        if self.course is None:
            return
        try:
            self.course.go_on(**known)
        except Unavailable:
            # The results are out of reach for everybody; the turn is owed until they are back.
            raise
        except Exception as error:
            # A defect must end the one execution that meets it, with its reason in the log, and not
            # the scheduler that serves all the others.
            log.exception("Deciding execution %s failed", self.row.execution_id, extra=self._about)
            self.failure = self._fail(error)

    @property
    def _about(self) -> dict[str, str]:
        return {"execution": self.row.execution_id}

    def _fail(self, error: Exception) -> Decision:
        assert self.inputs is not None, "it was decided"
        return fail(self.plan, self.before, self.inputs, _defect(error))

    def take(self, found: SlotAnswer, name: str, place: int) -> None:
        """Goes on with what became of the requests for slots."""
        self.answer, self.asked = found, (self.state,)
        self.go_on(slots=lambda at, since: found.verdicts.get((at, since)), turn=name, place=place)

    def close(self, kinds: Mapping[str, KindInfo], now: datetime) -> Turn:
        """The turn as it is to be written."""
        if self.course is None:
            return Turn(self.row, self.before, Decision((), self.before), caught_up=False, earlier=self.known)
        try:
            decision = self.failure or self._decide()
            commands = command_rows(self.plan, decision, kinds, now)
        except Unavailable:
            raise
        except Exception as error:
            # As in `go_on`.
            log.exception("Deciding execution %s failed", self.row.execution_id, extra=self._about)
            decision = self._fail(error)
            commands = command_rows(self.plan, decision, kinds, now)
        return Turn(
            self.row,
            self.before,
            decision,
            commands,
            self.retries[0] if self.retries else None,
            self.undos,
            self.kept,
            earlier=self.known,
            asked=self.asked,
            slots_due=self.answer.due,
        )

    def _decide(self) -> Decision:
        assert self.course is not None, "somebody decides"
        decision = self.course.decision()
        more = (*self.give_way, *self.answer.notifications)
        return replace(decision, notifications=(*decision.notifications, *more))


def _open(
    rt: Runtime, tx: Transaction, row: ExecutionRow, tail: Sequence[Event], calls: TurnCalls
) -> _OpenTurn:
    """`tail` is what follows the decided version, under the lock."""
    plan, now = rt.plan(tx, row.digest), calls.now
    known = _find_state(rt, tx, row)
    if known.version != row.decided_version:
        # It went on elsewhere, or was forgotten here.
        tail = tx.events.read(row.execution_id, after=known.version, limit=rt.limits.turn_events)
        known = replay(known, (event for event in tail if event.version <= row.decided_version))
    before = replay(known, (event for event in tail if event.version > known.version))
    turn = _OpenTurn(row, plan, known, before)
    if before.version < row.head_version:
        return turn
    take_call = partial(calls.take, row.execution_id, turn.give_way)
    turn.inputs = replace(
        _inputs(rt, tx, plan, before, now),
        status=row.status,
        keep=lambda name, data: turn.kept.append(make_credential(rt, row.execution_id, name, data, now)),
        prepare_retry=partial(find_obstacle, rt, tx, before, turn.retries),
        prepare_undo=partial(_prepare_undo, rt, tx, before, turn.undos, now),
        playbook=lambda path, version: find_playbook(rt, tx, path, version, take_call),
    )
    turn.course = Course(plan, before, turn.inputs)
    return turn


def _prepare_undo(
    rt: Runtime,
    tx: Transaction,
    caller: State,
    planned: list[LogCopy],
    now: datetime,
    call: UndoableCall,
    new_id: str,
) -> str:
    """Why what `caller` has called cannot undo what it has done, in a clause; empty where it can:
    then `planned` has the execution of that id, which does."""
    parent = Parent(
        caller.execution_id, call.step, call.run_id, call.iteration, call.task, depth_below(caller)
    )
    try:
        planned.append(copy_to_undo(rt, tx, call.execution_id, new_id, parent, now))
    except (BadRequest, TemplateError) as error:
        return error.message.rstrip(".")
    return ""


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


def _defect(error: Exception) -> ErrorInfo:
    trace = traceback.format_exc(limit=-5)
    message = f"NoETL could not decide what follows: {error}"
    return ErrorInfo("internal", message, type=type(error).__name__, traceback=trace)
