"""Slots in a turn: what its executions ask for is put beside what all others have and wait for, and
answered; and behind it, those that may be next are asked to take what became free."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from noetl.engine.decision import Notification
from noetl.engine.inputs import SlotVerdict
from noetl.engine.serving import Served, SlotAskers, serve
from noetl.engine.slots import awaits_slot, find_waiting, is_step_paused, slot_place
from noetl.engine.state import State
from noetl.engine.wait_state import SlotHolder
from noetl.facts.events import Parent, Requested
from noetl.facts.limits import WHOLE, AskedSlot, SlotRow, holder_id, region_run
from noetl.usecases.ports import Transaction, paused_step
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import ask_for_turn, wake

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SlotAnswer:
    """What became of the requests of one execution: the verdicts by place and version, when the
    next of a rate is due, and who is asked to end for one of them."""

    verdicts: Mapping[tuple[str, int], SlotVerdict] = field(default_factory=dict)
    due: datetime | None = None
    notifications: tuple[Notification, ...] = ()


def find_asking(state: State) -> list[SlotHolder]:
    """The requests of an execution that stand in line: not while it, or their step, is paused."""
    if state.ended or state.pause_requested or state.cancelling or not state.holders:
        return []
    return [one for one in find_waiting(state) if not _is_held_back(state, one)]


def _is_held_back(state: State, holder: SlotHolder) -> bool:
    run = state.runs.get(holder.run_id)
    return run is not None and (is_step_paused(state, run.step) or (state.stopping and not run.final))


def answer(tx: Transaction, states: Sequence[State], now: datetime) -> dict[str, SlotAnswer]:
    """Answers the requests of executions that `tx` has locked, by their ids. Locks the keys."""
    asking = {state.execution_id: found for state in states if (found := find_asking(state))}
    if not asking:
        return {}
    keys = {slot.key for found in asking.values() for one in found for slot in one.slots}
    tx.slots.lock(keys)
    first = _file(tx, [state for state in states if state.execution_id in asking], asking, now)
    rows = tx.slots.related(keys)
    holders = {_holder(name, one) for name, found in asking.items() for one in found}
    paused = {one.name for one in tx.slots.paused("key")}
    served = serve(rows, SlotAskers(holders, first), paused, now)
    tx.slots.grant(served.granted)
    granted = {(row.holder, row.key) for row in (*rows, *served.granted) if row.granted_at is not None}
    return {name: _answer(name, found, served, granted) for name, found in asking.items()}


def _holder(execution_id: str, one: SlotHolder) -> str:
    return holder_id(execution_id, one.run_id, one.part)


def _answer(
    execution_id: str, asked: Sequence[SlotHolder], served: Served, granted: set[tuple[str, str]]
) -> SlotAnswer:
    verdicts: dict[tuple[str, int], SlotVerdict] = {}
    for one in asked:
        holder = _holder(execution_id, one)
        verdict = served.verdicts.get(holder)
        if verdict is None and all((holder, slot.key) in granted for slot in one.slots):
            # It has had them all along: a lane that was lost is issued again.
            verdict = SlotVerdict("granted")
        if verdict is not None:
            verdicts[slot_place(one.run_id, one.part), one.since] = verdict
    told = (_ask_to_end(execution_id, row) for by, row in served.oldest if by == execution_id)
    return SlotAnswer(verdicts, served.due.get(execution_id), tuple(told))


def _ask_to_end(execution_id: str, row: SlotRow) -> Notification:
    reason = f"execution {execution_id} needs the slot of {row.key!r} that it has had for longest"
    context = {"reason": reason, **({"run": row.run_id} if row.run_id else {})}
    return Notification("cancel", row.execution_id, context)


# --- filing ---------------------------------------------------------------------------------------


def _file(
    tx: Transaction, states: Sequence[State], asking: Mapping[str, Sequence[SlotHolder]], now: datetime
) -> set[str]:
    """Writes the requests that have no rows yet; who made them."""
    known = {(row.holder, row.key) for row in tx.slots.of_executions(list(asking))}
    new = [
        _make_row(tx, state, one, slot, now)
        for state in states
        for one in asking[state.execution_id]
        for slot in one.slots
        if (_holder(state.execution_id, one), slot.key) not in known
    ]
    tx.slots.add(new)
    return {row.holder for row in new}


def _make_row(tx: Transaction, state: State, one: SlotHolder, slot: AskedSlot, now: datetime) -> SlotRow:
    return SlotRow(
        state.execution_id,
        one.run_id,
        one.part,
        slot.key,
        slot.limit,
        now,
        slot.on_full,
        slot.per_s,
        one.priority,
        within=tuple(_find_within(tx, state, one)),
    )


def _find_within(tx: Transaction, state: State, one: SlotHolder) -> list[str]:
    """Those that go on only when it does: the loop of a lane, the regions around, the execution,
    and what called it."""
    own: list[str] = []
    if one.run_id:
        own.append(holder_id(state.execution_id, "", WHOLE))
    run = state.runs.get(one.run_id)
    around = [region_run(name, state.regions[name].number) for name in (run.regions if run else ())]
    own = [*(holder_id(state.execution_id, region, WHOLE) for region in around), *own]
    if one.part != WHOLE:
        own.insert(0, holder_id(state.execution_id, one.run_id, WHOLE))
    return [*own, *_find_callers(tx, state.parent)]


def _find_callers(tx: Transaction, parent: Parent | None) -> list[str]:
    """Who waits for the execution. Nobody waits for one that was called detached."""
    found: list[str] = []
    while parent is not None and not parent.detached:
        caller = parent.execution_id
        if parent.iteration is not None:
            found.append(holder_id(caller, parent.run_id, f"i{parent.iteration}"))
        found += [holder_id(caller, parent.run_id, WHOLE), holder_id(caller, "", WHOLE)]
        events = tx.events.read(caller, limit=1)
        first = events[0].fact if events else None
        parent = first.parent if isinstance(first, Requested) else None
    return found


# --- behind a turn --------------------------------------------------------------------------------


def keys_of(states: Iterable[State | None]) -> set[str]:
    """The keys that anything of these asked for, and has or waits for."""
    held = (one for state in states if state is not None for one in state.holders.values())
    return {slot.key for one in held for slot in one.slots}


def wake_waiters(rt: Runtime, keys: Iterable[str] | None = None) -> int:
    """Asks for turns of the executions that would get slots of these keys (None: of any) now, or
    once a rate allows it; how many. Whatever was committed before is seen."""
    now = rt.clock()
    with rt.store.read() as tx:
        wanted = tx.slots.waiting_keys() if keys is None else keys
        rows = tx.slots.related(wanted)
        if all(row.granted_at is not None for row in rows):
            return 0
        paused = {one.name for one in tx.slots.paused("key")}
    served = serve(rows, SlotAskers(), paused, now)
    woken = dict(served.due) | dict.fromkeys(served.ready, now)
    asked = [_wake(rt, name, woken[name], now) for name in sorted(woken, key=int)]
    if any(asked):
        wake(rt)
    return sum(asked)


def _wake(rt: Runtime, execution_id: str, at: datetime, now: datetime) -> bool:
    with rt.store.begin() as tx:
        row = tx.executions.lock(execution_id)
        if row is None or row.is_over:
            return False
        if at <= now:
            tx.slots.offer([execution_id], now)
        if row.next_wake_at is not None and row.next_wake_at <= at:
            return False
        ask_for_turn(tx, execution_id, at)
    return at <= now


def free_ended(tx: Transaction, before: Sequence[State], after: State) -> None:
    """Frees what was held, or asked for, in one of the states `before` and is not after."""
    name = after.execution_id
    held = {one.run_id for state in before for one in state.holders.values()}
    if not held:
        return
    if after.ended:
        tx.slots.free_execution(name)
        return
    for run_id in sorted(held - {one.run_id for one in after.holders.values()}):
        tx.slots.free_run(name, run_id)
    standing = find_asking(after)
    for one in find_waiting(after):
        if one not in standing:
            # It joins the line again when it goes on.
            tx.slots.withdraw(name, one.run_id, one.part)


def free_cancelled(tx: Transaction, before: State, run_id: str, index: int) -> None:
    """An iteration was cancelled: what waited without a worker, or for its slot, has none any
    more."""
    run = before.runs.get(run_id)
    if run is None or run.loop is None or not before.holders:
        return
    loop = run.loop
    if index in loop.suspended or index in loop.calling or awaits_slot(before, run, index):
        tx.slots.free_part(before.execution_id, run_id, f"i{index}")


def forget_paused(tx: Transaction, execution_id: str, steps: Sequence[str]) -> None:
    """The execution has ended, and with it the pauses of its steps."""
    for step in steps:
        tx.slots.resume("step", paused_step(execution_id, step))
