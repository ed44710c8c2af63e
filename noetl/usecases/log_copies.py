"""An execution whose log begins with that of another one: a fork of it, or one that undoes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.callers import Caller
from noetl.facts.events import Draft, Event
from noetl.usecases.ports import CredentialRow, Descent, ExecutionRow, Transaction
from noetl.usecases.start import row_of


@dataclass(frozen=True, slots=True)
class LogCopy:
    """An execution that is to begin: its row, what its log begins with, and credentials of its
    own."""

    row: ExecutionRow
    drafts: Sequence[Draft]
    kept: Sequence[CredentialRow] = ()


def copy_log(
    source: ExecutionRow,
    events: Sequence[Event],
    state: State,
    new_id: str,
    parent: e.Parent | None,
    descent: Descent,
    now: datetime,
    caller: Caller | None = None,
) -> LogCopy:
    """An execution of that id, with a log of copies of `events`, which `state` is the fold of: the
    first events of `source`."""
    first = events[0].fact
    assert isinstance(first, e.Requested), "every log begins with it"
    # Its source may be open, and has the key.
    begin = replace(first, parent=parent, retry=None, key=None)
    row = replace(
        row_of(new_id, begin, now, caller),
        source_id=source.execution_id,
        descent=descent,
        inputs=source.inputs,
    )
    return LogCopy(row, [_copy(event, state, begin if event.version == 1 else None) for event in events])


def _copy(event: Event, state: State, begin: e.Requested | None) -> Draft:
    fact = begin or event.fact
    if isinstance(fact, e.TaskCheckpointed) and event.draft.run_id in state.runs:
        # What a call began elsewhere belongs to the other execution alone.
        fact = replace(fact, checkpoint=None)
    # The addresses of the other one are not its own, whose first calls are still to come.
    key = None if isinstance(fact, e.CallbackReceived) else event.draft.dedup_key
    return replace(event.draft, fact=fact, dedup_key=key, origin=event.event_id)


def write_copy(tx: Transaction, copy: LogCopy, now: datetime) -> ExecutionRow:
    """Writes it. Its row as it is then."""
    tx.executions.create(copy.row)
    for credential in copy.kept:
        tx.credentials.save(credential)
    tx.events.append(copy.row.execution_id, 0, copy.drafts, now)
    return replace(copy.row, head_version=len(copy.drafts))
