"""What an execution waits for, in one list for all that shows it: waits of tasks, slots, what is
paused, and what is left to be done at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from noetl.engine.endings import Ending, find_endings
from noetl.engine.run_state import LockedCall, Run
from noetl.engine.slots import KeyStanding, describe_slot, find_waiting
from noetl.engine.state import State
from noetl.engine.wait_state import SlotHolder
from noetl.engine.waits import describe_waits
from noetl.facts.json import Json, JsonMap
from noetl.facts.limits import WHOLE, AskedSlot, region_of

#: A task that left its worker; the lock of a cached call; slots; something that is paused; what is
#: left to be done at an end.
AwaitedKind: TypeAlias = Literal["task", "lock", "slot", "pause", "ending"]

#: What stands for an execution where something of it has a name.
EXECUTION: Final = "it"


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run whose command waits in a queue that is paused."""

    step: str
    run_id: str
    queue: str


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who makes a call that equal ones wait for."""

    execution_id: str
    run_id: str
    iteration: int | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a state does not know. `since` says when versions were written (UTC, ISO 8601), as far
    as that is known. `locks` says who has those that are waited for, by their keys; `keys` are
    those that are waited for; `paused` the steps and queues
    that are paused, each `{kind, name, since, principal, reason}`, by kind and name; `queued` waits
    in such a queue."""

    since: Mapping[int, str]
    keys: Mapping[str, KeyStanding] = field(default_factory=dict)
    paused: Mapping[tuple[str, str], JsonMap] = field(default_factory=dict)
    queued: Sequence[QueuedRun] = ()
    locks: Mapping[str, LockHolder] = field(default_factory=dict)


def find_awaited(state: State, around: Surroundings) -> list[JsonMap]:
    """`{kind, step, region, run_id, iteration, task, mode, since, until, for: [{name, text,
    due_at}]}` of each task that waits, then of each call that waits for an equal one, of each run,
    region or (with neither) execution that waits for slots, of all that is paused, and of what
    ends. `for` of approvals has `approval` besides, of slots `slot`, of pauses `pause`."""
    if state.ended:
        return []
    return [
        *describe_waits(state),
        *_describe_locks(state, around),
        *_describe_slots(state, around),
        *_describe_pauses(state, around),
        *(_describe_ending(one, around) for one in find_endings(state)),
    ]


def place_of(step: Json, iteration: Json) -> str:
    """`step`, or `step[3]`."""
    return f"{step}" if iteration is None else f"{step}[{iteration}]"


def who_waits(wait: JsonMap) -> str:
    """`step`, `step[3]`, `region 'pay'`, or `it` for the execution."""
    if wait["step"] is not None:
        return place_of(wait["step"], wait["iteration"])
    return EXECUTION if wait["region"] is None or wait["kind"] == "ending" else f"region {wait['region']!r}"


def _entry(
    kind: AwaitedKind,
    awaited: Iterable[JsonMap],
    *,
    step: str | None,
    run_id: str | None,
    region: str | None = None,
    iteration: int | None = None,
    task: str | None = None,
    since: Json = None,
    until: str | None = None,
) -> JsonMap:
    return {
        "kind": kind,
        "step": step,
        "region": region,
        "run_id": run_id,
        "iteration": iteration,
        "task": task,
        "mode": "all",
        "since": since,
        "until": until,
        "for": list(awaited),
    }


# --- locks of cached calls ------------------------------------------------------------------------


def find_locked(state: State) -> Iterator[tuple[Run, int | None, LockedCall]]:
    """The calls that wait for equal ones, with the run and the iteration that make them."""
    for run in state.runs.values():
        if run.locked is not None and not run.ended:
            yield run, None, run.locked
        if run.loop is not None:
            yield from ((run, index, call) for index, call in run.loop.locked.items())


def _describe_locks(state: State, around: Surroundings) -> Iterator[JsonMap]:
    for run, iteration, call in find_locked(state):
        holder = around.locks.get(call.key)
        if holder == LockHolder(state.execution_id, run.id, iteration):
            # It makes the call by now.
            continue
        awaited = {"name": call.task, "text": _say_lock(holder), "due_at": None}
        yield _entry("lock", [awaited], step=run.step, run_id=run.id, iteration=iteration, task=call.task)


def _say_lock(holder: LockHolder | None) -> str:
    if holder is None:
        return "an equal call"
    whose = place_of(holder.run_id, holder.iteration)
    return f"the equal call of {whose} in execution {holder.execution_id}"


# --- slots ----------------------------------------------------------------------------------------


def _describe_slots(state: State, around: Surroundings) -> Iterator[JsonMap]:
    """Lanes and iterations of one run that wait for the same are shown together."""
    groups = dict[tuple[str, tuple[AskedSlot, ...]], list[SlotHolder]]()
    for one in find_waiting(state):
        groups.setdefault((one.run_id, one.slots), []).append(one)
    for (run_id, slots), holders in groups.items():
        run, region = state.runs.get(run_id), region_of(run_id)
        yield _entry(
            "slot",
            (_describe_slot(slot, len(holders), around.keys.get(slot.key)) for slot in slots),
            step=None if run is None else run.step,
            run_id=None if run is None else run_id,
            region=region,
            iteration=_iteration_of(holders),
            since=around.since.get(min(one.since for one in holders)),
            until=_find_deadline(state, run_id, region),
        )


def _iteration_of(holders: Sequence[SlotHolder]) -> int | None:
    """Which iteration waits, where it is one alone."""
    part = holders[0].part
    return int(part[1:]) if len(holders) == 1 and part != WHOLE and part.startswith("i") else None


def _find_deadline(state: State, run_id: str, region: str | None) -> str | None:
    """When the time of the run, or region, is over: it counts while it waits."""
    for timer in state.timers.values():
        is_own = timer.purpose == "deadline" and timer.run_id == run_id
        if is_own or (timer.purpose == "region" and timer.awaited == region):
            return timer.due_at
    return None


def _describe_slot(slot: AskedSlot, count: int, standing: KeyStanding | None) -> JsonMap:
    return {
        "name": slot.key,
        "text": describe_slot(slot, count, standing),
        "due_at": None if standing is None else standing.due_at,
        "slot": {
            "key": slot.key,
            "limit": slot.limit,
            "per_s": slot.per_s,
            "taken": None if standing is None else standing.taken,
            "paused": None if standing is None else standing.pause,
        },
    }


# --- what is paused -------------------------------------------------------------------------------


def _describe_pauses(state: State, around: Surroundings) -> Iterator[JsonMap]:
    for step in state.paused_steps:
        yield _describe_pause("step", step, step, None, around)
    for one in dict.fromkeys(around.queued):
        yield _describe_pause("queue", one.queue, one.step, one.run_id, around)


def _describe_pause(kind: str, name: str, step: str, run_id: str | None, around: Surroundings) -> JsonMap:
    pause = around.paused.get((kind, name))
    awaited = {"name": name, "text": _say_pause(kind, name, pause), "due_at": None, "pause": pause}
    return _entry(
        "pause", [awaited], step=step, run_id=run_id, since=None if pause is None else pause["since"]
    )


def _say_pause(kind: str, name: str, pause: JsonMap | None) -> str:
    who = "" if pause is None or pause["principal"] is None else f" by {pause['principal']}"
    why = "" if pause is None or not pause["reason"] else f": {pause['reason']}"
    more = f" (paused{who}{why})" if who or why else ""
    return f"{kind} {name!r} to be resumed{more}"


# --- ends -----------------------------------------------------------------------------------------


def _describe_ending(one: Ending, around: Surroundings) -> JsonMap:
    awaited: JsonMap = {"name": "end", "text": one.text, "due_at": None}
    return _entry(
        "ending",
        [awaited],
        step=None,
        run_id=one.run_id,
        region=one.region,
        since=None if one.version is None else around.since.get(one.version),
    )
