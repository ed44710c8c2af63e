"""Executions that undo what another one has done, which a task had called and which had ended well:
each begins as a copy of the other one's log, up to its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from noetl.engine.evolve import replay
from noetl.engine.plan import Plan
from noetl.engine.request import render_keychain
from noetl.engine.state import State, initial_state
from noetl.errors import BadRequest, TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft, Event
from noetl.facts.reference import Retention
from noetl.usecases import moment
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.kept_credentials import make_credential
from noetl.usecases.log_copies import LogCopy, copy_log, write_copy
from noetl.usecases.ports import CredentialRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import draw_ids

log = logging.getLogger(__name__)


def copy_to_undo(
    rt: Runtime, tx: Transaction, execution_id: str, new_id: str, parent: e.Parent, now: datetime
) -> LogCopy:
    """The execution `new_id`, which undoes what `execution_id` has done. Raises BadRequest and
    TemplateError where its keychain cannot be rendered any more."""
    row = moment.find(tx, execution_id)
    events = _until_end(tx.events.read(execution_id))
    state = replay(initial_state(new_id), events)
    kept = _make_credentials(rt, tx, rt.plan(tx, row.digest), state, now)
    copy = copy_log(row, events, state, new_id, parent, "undo", now)
    forked = Draft(e.Forked(execution_id, len(events), undoes=True))
    return replace(copy, drafts=[*copy.drafts, forked], kept=kept)


def undo_given_up(rt: Runtime, tx: Transaction, execution_id: str) -> bool:
    """Has an execution undone that its caller had given up, and that had ended well before it heard
    of that: it would have undone itself. False where there is nothing to undo, or another execution
    has taken it over."""
    row = tx.executions.lock(execution_id)
    if row is None or row.status not in ("completed", "partial"):
        return False
    parent = moment.requested(tx, execution_id).parent
    if parent is None or not moment.look(tx, row).state().undoable:
        return False
    if any(one.descent != "fork" for one in tx.executions.find(source=execution_id, limit=1000)):
        return False
    now = rt.clock()
    new_id = draw_ids(rt, now, 1)[0]
    try:
        copy = copy_to_undo(rt, tx, execution_id, new_id, replace(parent, detached=True), now)
    except (BadRequest, TemplateError) as error:
        log.warning(
            "Execution %s had ended before it was cancelled, and was not undone: %s", execution_id, error
        )
        return False
    write_copy(tx, copy, now)
    return True


def _until_end(events: Sequence[Event]) -> list[Event]:
    """What came before the end."""
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
