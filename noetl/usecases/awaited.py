"""What executions wait for, as one transaction sees it: their states, beside the slots of all
others and what is paused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from noetl.engine.awaited import LockHolder, QueuedRun, Surroundings, find_awaited, find_locked
from noetl.engine.endings import find_endings
from noetl.engine.slot_table import SlotTable
from noetl.engine.slots import KeyStanding, find_waiting, slot_place
from noetl.engine.state import State
from noetl.facts.json import JsonMap
from noetl.facts.limits import SlotRow
from noetl.usecases import moment
from noetl.usecases.limits import describe_pause
from noetl.usecases.ports import ENDED, ExecutionRow, Pause, PausedKind, Transaction, paused_step
from noetl.usecases.runtime import Runtime

#: What is paused, by its kind and name.
Pauses = Mapping[tuple[PausedKind, str], Pause]

#: How people are told of what is paused.
_TO_RESUME: Final = "{} {!r} to be resumed"


def awaited(rt: Runtime, execution_id: str) -> list[JsonMap]:
    """What the execution waits for now, as `engine.awaited.find_awaited` has it. Raises
    NotFound."""
    with rt.store.read() as tx:
        here = moment.look(tx, moment.find(tx, execution_id))
        return find_in(tx, here.state(), rt.clock())


def find_in(tx: Transaction, state: State, now: datetime) -> list[JsonMap]:
    """The same of a state that `tx` has read."""
    return find_awaited(state, look_around(tx, state, now))


def look_around(tx: Transaction, state: State, now: datetime) -> Surroundings:
    """What is to be known besides the newest state of an execution."""
    if state.ended:
        return Surroundings({})
    pauses = _read_pauses(tx)
    keys = dict.fromkeys(slot.key for one in find_waiting(state) for slot in one.slots)
    return Surroundings(
        _read_instants(tx, state),
        {key: _standing(tx, key, pauses, now) for key in keys},
        {
            (kind, _own_name(state.execution_id, kind, name)): describe_pause(one)
            for (kind, name), one in pauses.items()
        },
        list(_find_queued(tx, state.execution_id, pauses)),
        _find_holders(tx, state),
    )


def _find_holders(tx: Transaction, state: State) -> Mapping[str, LockHolder]:
    """Who has the locks of cached calls that it waits for."""
    keys = {call.key for _, _, call in find_locked(state)}
    locks = {key: lock.site for key in keys if (lock := tx.cached.holder(key)) is not None}
    return {key: LockHolder(one.execution_id, one.run_id, one.iteration) for key, one in locks.items()}


def _read_pauses(tx: Transaction) -> Pauses:
    return {(one.kind, one.name): one for one in tx.slots.paused()}


def _own_name(execution_id: str, kind: PausedKind, name: str) -> str:
    """The name of a step as its execution has it."""
    return name.removeprefix(paused_step(execution_id, "")) if kind == "step" else name


def _standing(tx: Transaction, key: str, pauses: Pauses, now: datetime) -> KeyStanding:
    rows = tx.slots.of_key(key)
    pause = pauses.get(("key", key))
    table = SlotTable.of(rows, (), now)
    return KeyStanding(
        len(table.counting(key)), _find_due(table, rows), None if pause is None else describe_pause(pause)
    )


def _find_due(table: SlotTable, rows: Sequence[SlotRow]) -> str | None:
    """When the next slot of a rate is free."""
    due = next((table.find_due(row) for row in rows if row.per_s is not None), None)
    return None if due is None else due.isoformat()


def _read_instants(tx: Transaction, state: State) -> Mapping[int, str]:
    """When the versions were written that are told of. What asked for slots has a row that says so,
    unless it has left the line."""
    known: dict[int, str] = {}
    wanted = {one.version for one in find_endings(state) if one.version is not None}
    if waiting := find_waiting(state):
        rows = tx.slots.of_executions([state.execution_id])
        asked = {slot_place(row.run_id, row.part): row.requested_at.isoformat() for row in rows}
        places = {slot_place(one.run_id, one.part): one.since for one in waiting}
        known = {since: asked[place] for place, since in places.items() if place in asked}
        wanted |= set(places.values())
    for version in wanted - known.keys():
        for event in tx.events.read(state.execution_id, after=version - 1, limit=1):
            known[version] = event.recorded_at.isoformat()
    return known


def _find_queued(tx: Transaction, execution_id: str, pauses: Pauses) -> Iterator[QueuedRun]:
    """What of the execution waits in queues that are paused."""
    queues = {name for kind, name in pauses if kind == "queue"}
    if not queues:
        return
    for one in tx.commands.open_of(execution_id):
        if one.state == "open" and one.queue in queues:
            yield QueuedRun(one.step, one.run_id, one.queue)


# --- in lists -------------------------------------------------------------------------------------


def add_pauses(tx: Transaction, rows: Sequence[ExecutionRow]) -> list[ExecutionRow]:
    """`rows`, with the keys and queues that are paused behind what they wait for: no turn of theirs
    has heard of that."""
    pauses = _read_pauses(tx)
    paused = {kind for kind, _ in pauses}
    alive = [row.execution_id for row in rows if row.status not in ENDED] if paused else []
    found: dict[str, dict[str, None]] = {name: {} for name in alive}
    if "key" in paused:
        for row in tx.slots.of_executions(alive):
            if row.granted_at is None and ("key", row.key) in pauses:
                found[row.execution_id][_TO_RESUME.format("key", row.key)] = None
    if "queue" in paused:
        for name in alive:
            texts = (_TO_RESUME.format("queue", one.queue) for one in _find_queued(tx, name, pauses))
            found[name].update(dict.fromkeys(texts))
    return [_add(row, found.get(row.execution_id, ())) for row in rows]


def _add(row: ExecutionRow, texts: Iterable[str]) -> ExecutionRow:
    every = [*filter(None, [row.waiting_for]), *texts]
    return replace(row, waiting_for="; ".join(every) or None)
