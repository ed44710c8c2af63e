"""Calls of the addresses of tasks. T7: the first call of an address is one event, later ones get
its answer.

What was handed out stays good when its execution is run again: where that has ended, a call goes to
the retry of it, if the task that handed the address over was not called again there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from noetl.engine.callbacks import tasks_handing_over
from noetl.errors import Conflict, NotFound, Unavailable
from noetl.facts.callbacks import TaskAddress
from noetl.facts.events import CallbackReceived, Event, StepScheduled, TaskDone, TaskKeyKept
from noetl.facts.json import Json
from noetl.facts.reference import Retention
from noetl.usecases import moment
from noetl.usecases.large_values import hold_draft
from noetl.usecases.lineage import LONGEST
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import wake

#: Said of all that is no address, so that nobody learns what there is.
NOTHING: Final = "Nothing has this address; it has to be called as it was handed over."
#: What tells how far a retry has come with a run, and what it has taken of it.
_TAKEN: Final = (StepScheduled.type, TaskDone.type, TaskKeyKept.type)


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """The first call of an address, recorded at `at` (UTC, ISO 8601). `existing`: it came before
    this one."""

    execution_id: str
    at: str
    existing: bool = False


def receive_call(rt: Runtime, place: TaskAddress, payload: Json) -> AcceptedCall:
    """Records the first call of the address of `place`; whether its task waits yet does not matter.

    Raises NotFound where there is no such execution; Conflict where nothing waits for the call any
    more; Unavailable where that will be known later; BadRequest, LimitExceeded for a `payload` that
    cannot be kept.
    """
    rt.check_payload(payload, "payload")
    for _ in range(LONGEST):
        with rt.store.begin() as tx:
            found = _receive(rt, tx, place, payload)
        if isinstance(found, AcceptedCall):
            if not found.existing:
                wake(rt)
            return found
        place = found
    raise Conflict(f"Execution {place.execution_id} was run again too often to look for its task.")


def _receive(rt: Runtime, tx: Transaction, place: TaskAddress, payload: Json) -> AcceptedCall | TaskAddress:
    """The call, or the place in the retry that it is meant for by now."""
    row = tx.executions.lock(place.execution_id)
    if row is None:
        raise NotFound(NOTHING)
    moment.refuse_specimen(row)
    if tx.events.recorded(row.execution_id, place.key):
        return AcceptedCall(row.execution_id, _first_call(tx, place).at, existing=True)
    if row.status in ENDED:
        return _find_heir(rt, tx, row, place)
    _check_open(tx, place)
    now = rt.clock()
    draft = rt.ask_for(CallbackReceived(place.task, now.isoformat(), payload), place.key)
    draft = replace(draft, step=_step_of(place), run_id=place.run_id, iteration=place.iteration)
    tx.events.append(
        row.execution_id, row.head_version, [hold_draft(rt, draft, Retention(row.execution_id))], now
    )
    return AcceptedCall(row.execution_id, now.isoformat())


def _step_of(place: TaskAddress) -> str:
    return place.run_id.rpartition("#")[0]


def _first_call(tx: Transaction, place: TaskAddress) -> CallbackReceived:
    events = tx.events.of_run(place.execution_id, place.run_id, place.iteration)
    calls = (one.fact for one in events if one.draft.dedup_key == place.key)
    return next(fact for fact in calls if isinstance(fact, CallbackReceived))


def _check_open(tx: Transaction, place: TaskAddress) -> None:
    """Raises Conflict where the run, or the iteration, has ended, and NotFound where there was no
    such run."""
    if not tx.events.recorded(place.execution_id, f"scheduled:{place.run_id}"):
        raise NotFound(NOTHING)
    ends = [f"end:{place.run_id}", f"cancelled:{place.run_id}"]
    if place.iteration is not None:
        ends.append(f"iteration:{place.run_id}/{place.iteration}")
    if any(tx.events.recorded(place.execution_id, end) for end in ends):
        raise Conflict(
            f"Step {_step_of(place)!r} of execution {place.execution_id} has ended; its task "
            f"{place.task!r} waits for no call any more."
        )


# --- of an execution that has ended ---------------------------------------------------------------


def _find_heir(rt: Runtime, tx: Transaction, row: ExecutionRow, place: TaskAddress) -> TaskAddress:
    """Where the call belongs in the execution that runs this one again, or that one, where it
    ended before it had come to the step. Raises Conflict, Unavailable."""
    handovers, retry = _find_handovers(rt, tx, row, place), _find_retry(tx, row)
    if retry is None:
        raise Conflict(
            f"Execution {row.execution_id} has ended ({row.status}); nothing in it waits for a call."
        )
    for _ in range(LONGEST):
        log = _RetryLog(place, row.execution_id, tx.events.read(retry.execution_id, types=_TAKEN))
        found = next(log.places(handovers), None)
        if found is not None:
            return replace(place, execution_id=retry.execution_id, run_id=found[0], iteration=found[1])
        later = None if log.has_begun or retry.status not in ENDED else _find_retry(tx, retry)
        if later is None:
            break
        row, retry = retry, later
    if retry.status not in ENDED and not log.has_begun:
        raise Unavailable(
            f"Execution {place.execution_id} has ended and is run again by {retry.execution_id}, which has "
            f"not come to step {_step_of(place)!r} yet; call again."
        )
    raise Conflict(
        f"Execution {place.execution_id} has ended, and {retry.execution_id}, which runs it again, handed "
        "out another address."
    )


def _find_retry(tx: Transaction, row: ExecutionRow) -> ExecutionRow | None:
    """The newest execution that runs this one again: an open one, where there is one. Raises
    Unavailable where there will be one."""
    if row.waits_for_retry:
        raise Unavailable(f"Execution {row.execution_id} has failed, and is about to be retried; call again.")
    found = tx.executions.find(source=row.execution_id, limit=LONGEST)
    again = [one for one in found if one.descent in ("retry", "migration")]
    return next((one for one in again if one.status not in ENDED), next(iter(again), None))


def _find_handovers(
    rt: Runtime, tx: Transaction, row: ExecutionRow, place: TaskAddress
) -> Mapping[str, Event]:
    """The ends of the tasks that handed the address over, by their ids."""
    plan = rt.plan(tx, row.digest)
    by = tasks_handing_over(plan, plan.step(_step_of(place))).get(place.task, frozenset())
    events = tx.events.of_run(place.execution_id, place.run_id, place.iteration)
    return {one.event_id: one for one in events if isinstance(one.fact, TaskDone) and one.fact.task in by}


#: A run, and an iteration of it.
_Part: TypeAlias = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class _RetryLog:
    """What the log of a retry of `source_id` tells of the run of `place`, which is one of that or
    of an execution that that one ran again itself."""

    place: TaskAddress
    source_id: str
    events: Sequence[Event]

    def places(self, handovers: Mapping[str, Event]) -> Iterator[_Part]:
        """Where the address still counts: what handed it over is a copy there, or is called under
        the same key, so that whoever was called knows it for the same call."""
        for event in self.events:
            draft = event.draft
            if draft.run_id is not None and (draft.origin in handovers or self._has_key(event)):
                yield draft.run_id, draft.iteration

    def _has_key(self, event: Event) -> bool:
        match event.fact:
            case TaskKeyKept(execution_id=execution_id, of_run=run_id, of_iteration=iteration):
                there = (self.place.execution_id, self.place.run_id, self.place.iteration)
                return (execution_id, run_id, iteration) == there
            case _:
                return False

    @property
    def has_begun(self) -> bool:
        """Whether the run has begun there anew."""
        there = (self.place.execution_id, self.place.run_id)
        runs = (one.fact.reuse for one in self.events if isinstance(one.fact, StepScheduled))
        taken = (one for one in runs if one is not None)
        return any((one.execution_id or self.source_id, one.run_id) == there for one in taken)
