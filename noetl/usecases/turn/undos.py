"""Executions that were called, and undo what they have done: each is a fork of its end, which the
caller waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from noetl.engine.children import depth_below
from noetl.engine.evolve import replay
from noetl.engine.plan import Plan
from noetl.engine.request import render_keychain
from noetl.engine.scope_state import UndoableCall
from noetl.engine.state import State, initial_state
from noetl.errors import BadRequest, TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft, Event
from noetl.facts.reference import Retention
from noetl.usecases import moment
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.kept_credentials import make_credential
from noetl.usecases.log_copies import LogCopy, copy_log
from noetl.usecases.ports import CredentialRow, Transaction
from noetl.usecases.runtime import Runtime


def prepare_undo(
    rt: Runtime,
    tx: Transaction,
    caller: State,
    planned: list[LogCopy],
    now: datetime,
    call: UndoableCall,
    new_id: str,
) -> str:
    """Why an execution that `caller` has called cannot undo what it has done, in a clause; empty
    where it can: then `planned` has the execution of that id, which does."""
    row = moment.find(tx, call.execution_id)
    events = _until_end(tx.events.read(call.execution_id))
    state = replay(initial_state(new_id), events)
    try:
        kept = _make_credentials(rt, tx, rt.plan(tx, row.digest), state, now)
    except (BadRequest, TemplateError) as error:
        return error.message.rstrip(".")
    parent = e.Parent(
        caller.execution_id, call.step, call.run_id, call.iteration, call.task, depth_below(caller)
    )
    copy = copy_log(row, events, state, new_id, parent, "undo", now)
    forked = Draft(e.Forked(call.execution_id, len(events), undoes=True))
    planned.append(replace(copy, drafts=[*copy.drafts, forked], kept=kept))
    return ""


def _until_end(events: Sequence[Event]) -> list[Event]:
    """What came before the end, and what was recorded behind it."""
    ends = (at for at, event in enumerate(events) if isinstance(event.fact, e.WorkflowFinished | e.Processed))
    return list(events[: next(ends, len(events))])


def _make_credentials(
    rt: Runtime, tx: Transaction, plan: Plan, state: State, now: datetime
) -> list[CredentialRow]:
    """What the keychain brought for the other execution alone was removed with its end: it is
    rendered anew."""
    made: list[CredentialRow] = []
    inputs = replace(
        inputs_of(rt, tx, plan, state.execution_id, now, Retention(state.execution_id)),
        keep=lambda name, data: made.append(make_credential(rt, state.execution_id, name, data, now)),
    )
    render_keychain(plan.net, state, inputs, state.workload, [])
    return made
