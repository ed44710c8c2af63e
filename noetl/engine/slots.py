"""What waits for slots, and what has them: runs, lanes of loops, the execution itself.

The engine asks (`slot.requested`), and the transaction of the turn answers (`Inputs.slots`): it has
the rows of all executions. While a request waits, nothing of what it is for begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from noetl.engine.changes import replace
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.engine.wait_state import SlotHolder
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.limits import WHOLE, AskedSlot, region_of, region_run

# --- folding --------------------------------------------------------------------------------------


def slot_place(run_id: str, part: str) -> str:
    """Names what asks for slots in its execution; without a run, the execution."""
    return f"{run_id}/{part}" if run_id else part


def fold_slots(state: State, fact: e.SlotFact, draft: Draft) -> State:
    match fact:
        case e.SlotRequested():
            return _ask(state, fact, draft.run_id or "")
        case e.SlotGranted():
            return _grant(state, draft.run_id or "", fact.part)
        case e.StepPauseRequested():
            others = (name for name in state.paused_steps if name != draft.step)
            return replace(state, paused_steps=(*others, draft.step or ""))
        case e.StepPauseEnded():
            left = tuple(name for name in state.paused_steps if name != draft.step)
            return replace(state, paused_steps=left)
        case _:
            assert_never(fact)


def _ask(state: State, fact: e.SlotRequested, run_id: str) -> State:
    run = state.runs.get(run_id)
    if run_id and region_of(run_id) is None and (run is None or run.ended):
        return state
    holder = SlotHolder(run_id, fact.part, fact.slots, fact.priority, state.version, fact.generation)
    if run is not None and fact.part == WHOLE:
        state = replace(state, runs={**state.runs, run_id: replace(run, status="waiting")})
    return replace(state, holders={**state.holders, slot_place(run_id, fact.part): holder})


def _grant(state: State, run_id: str, part: str) -> State:
    place = slot_place(run_id, part)
    holder, run = state.holders.get(place), state.runs.get(run_id)
    if holder is None:
        return state
    if run is not None and part == WHOLE and not run.commands and run.resume_at is None:
        state = replace(state, runs={**state.runs, run_id: replace(run, status="running")})
    return replace(state, holders={**state.holders, place: replace(holder, granted=True)})


def drop_slots(state: State, run_id: str) -> State:
    """The run has ended: it holds nothing, and waits for nothing."""
    if not state.holders:
        return state
    left = {place: one for place, one in state.holders.items() if one.run_id != run_id}
    return replace(state, holders=left)


def drop_part(state: State, run_id: str, part: str) -> State:
    """That part of the run has ended: it holds nothing, and waits for nothing."""
    gone = slot_place(run_id, part)
    if gone not in state.holders:
        return state
    left = {place: one for place, one in state.holders.items() if place != gone}
    return replace(state, holders=left)


def forget_slots(state: State) -> State:
    """Those of another execution are not its fork's: runs ask anew, and lanes are issued anew. Nor
    are its steps paused that were paused there."""
    left = {
        place: replace(one, granted=False, since=state.version)
        for place, one in state.holders.items()
        if one.part == WHOLE
    }
    return replace(state, holders=left, paused_steps=())


# --- looking --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyStanding:
    """Of a key: how many of its slots are taken, when the next one of a rate is free (UTC, ISO
    8601), and its pause, `{kind, name, since, principal, reason}`."""

    taken: int
    due_at: str | None = None
    pause: JsonMap | None = None


def find_waiting(state: State) -> list[SlotHolder]:
    """The requests that are not granted, in the order in which they were made."""
    return [one for one in state.holders.values() if not one.granted]


def lacks_region(state: State, region: str, number: int) -> bool:
    """Whether the region has asked for slots and does not have them."""
    holder = state.holders.get(slot_place(region_run(region, number), WHOLE))
    return holder is not None and not holder.granted


def awaits_slots(state: State, run: Run) -> bool:
    """Whether the run as a whole has asked and may not begin, or go on, yet."""
    holder = state.holders.get(slot_place(run.id, WHOLE))
    return holder is not None and not holder.granted


def lacks_slots(state: State, run: Run) -> bool:
    """Whether a run that needs them does not have them: it has not asked yet, or waits."""
    holder = state.holders.get(slot_place(run.id, WHOLE))
    return holder is None or not holder.granted


def awaits_lanes(state: State, run: Run) -> int:
    """How many lanes of the run have asked and wait."""
    return sum(one.run_id == run.id and one.part != WHOLE for one in find_waiting(state))


def awaits_slot(state: State, run: Run, index: int) -> bool:
    """Whether the iteration has asked for its slots and waits."""
    holder = state.holders.get(slot_place(run.id, f"i{index}"))
    return holder is not None and not holder.granted


def is_step_paused(state: State, step: str) -> bool:
    return step in state.paused_steps


def describe_slots(state: State) -> list[str]:
    """What is waited for, each in a clause: `a slot of 'reports' (limit 3)`."""
    texts = (describe_slot(slot) for one in find_waiting(state) for slot in one.slots)
    paused = (f"step {name!r} to be resumed" for name in state.paused_steps)
    return list(dict.fromkeys([*texts, *paused]))


def describe_slot(slot: AskedSlot, count: int = 1, standing: KeyStanding | None = None) -> str:
    """What it is, in a clause: `a slot of 'reports' (3 of 3 taken)`. `count`: how many are waited
    for."""
    if slot.per_s is not None:
        what, most = "its turn" if count == 1 else f"{count} turns", f"{slot.limit} in {slot.per_s:g} s"
        bound = most if standing is None else f"{standing.taken} of {most} taken"
        return f"{what} at {slot.key!r} ({bound}{_say_paused(standing)})"
    what = "a slot" if count == 1 else f"{count} slots"
    bound = f"limit {slot.limit}" if standing is None else f"{standing.taken} of {slot.limit} taken"
    return f"{what} of {slot.key!r} ({bound}{_say_paused(standing)})"


def _say_paused(standing: KeyStanding | None) -> str:
    if standing is None or standing.pause is None:
        return ""
    pause = standing.pause
    who = "" if pause["principal"] is None else f" by {pause['principal']}"
    return f"; paused{who}" + (f": {pause['reason']}" if pause["reason"] else "")


# --- deciding -------------------------------------------------------------------------------------


def request_slots(
    state: State, run: Run | None, part: str, slots: Iterable[AskedSlot], priority: int, generation: int = 0
) -> Draft:
    """`slot.requested` for `part` of `run`, or for the execution."""
    fact = e.SlotRequested(part, tuple(slots), priority, generation)
    run_id, step = (None, None) if run is None else (run.id, run.step)
    place = slot_place(run_id or "", part)
    return Draft(fact, step=step, run_id=run_id, dedup_key=f"slots:{place}/{state.version}")


def request_region_slots(
    state: State, region: str, number: int, slots: Iterable[AskedSlot], priority: int
) -> Draft:
    """`slot.requested` for a region, before anything of it runs."""
    run_id = region_run(region, number)
    fact = e.SlotRequested(WHOLE, tuple(slots), priority)
    return Draft(fact, run_id=run_id, dedup_key=f"slots:{slot_place(run_id, WHOLE)}/{state.version}")


def grant_slots(holder: SlotHolder, step: str | None) -> Draft:
    """`slot.granted`: what was asked for begins."""
    key = f"granted:{slot_place(holder.run_id, holder.part)}/{holder.since}"
    return Draft(e.SlotGranted(holder.part), step=step, run_id=holder.run_id or None, dedup_key=key)
