"""Under which keys the lanes of a cursor claim, and which claims nobody has heard of.

A claim that was made and not recorded may have taken rows. Under its own key it yields them once
more, where the tool remembers (`exactly_once`); under another one they would be lost. Its lane asks
so when it is delivered again. Where the lane is gone for good, with its execution or because too
many workers were lost with it, the first lane that comes after it asks: of the next generation, or
of the execution that runs the other one again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.engine.copies import UNKNOWN
from noetl.facts.events import CommandIssued, LoopClaimed, StepScheduled
from noetl.facts.ids import command_id, idempotency_key
from noetl.net.tasks import Task
from noetl.usecases import moment
from noetl.usecases.ports import CommandRow, EventFilter, Transaction


@dataclass(frozen=True, slots=True)
class LaneOrder:
    """One order for a lane of a run. Its claims are numbered from 0, without gaps."""

    execution_id: str
    run_id: str
    part: str
    issue: int

    @staticmethod
    def of(command: CommandRow) -> LaneOrder:
        """The order that `command` is."""
        return LaneOrder(command.execution_id, command.run_id, command.part, command.issue)

    def number(self, made: int) -> str:
        """What tells the claim of that number from all others of the run."""
        return f"{self.part}/{self.issue}/{made}"

    def record_key(self, made: int) -> str:
        """The key of the event that records the claim of that number."""
        return f"claim:{self.run_id}/{self.number(made)}"

    def call_key(self, cursor: Task, made: int) -> str:
        """The key under which the cursor is asked for the claim of that number, unless that is
        about an earlier one of which nobody heard."""
        return idempotency_key(self.execution_id, self.run_id, None, cursor.name, self.number(made))

    def count_claims(self, tx: Transaction) -> int:
        """How many of its claims are in the log."""
        low, high = 0, 1
        while self._is_recorded(tx, high - 1):
            low, high = high, 2 * high
        while low < high - 1:
            middle = (low + high) // 2
            if self._is_recorded(tx, middle - 1):
                low = middle
            else:
                high = middle
        return low

    def _is_recorded(self, tx: Transaction, number: int) -> bool:
        return tx.events.recorded(self.execution_id, self.record_key(number))


def find_unheard(tx: Transaction, command: CommandRow, cursor: Task) -> list[str]:
    """The keys of the claims that `command` has to ask for before it makes its own, oldest first:
    its first claims are these. None, where it is not the first lane of its generation."""
    own = LaneOrder.of(command)
    if own.part != _FIRST and _has_lanes(tx, command):
        return []
    log = _LoopLog.of(tx, command.execution_id, command.run_id)
    return log.find_inherited(cursor, command.generation) if log.first(command.generation) == own else []


#: The lane that every generation begins with. An iteration that goes on without one, in an
#: execution that was migrated, is one itself.
_FIRST: Final = "l0"


def _has_lanes(tx: Transaction, command: CommandRow) -> bool:
    key = f"issued:{command.run_id}/{_FIRST}/{command.generation}"
    return command.generation > 1 or tx.events.recorded(command.execution_id, key)


@dataclass(frozen=True, slots=True)
class _LoopLog:
    """What a log tells of the lanes of one run."""

    tx: Transaction
    execution_id: str
    run_id: str
    scheduled: StepScheduled
    issued: Sequence[CommandIssued]
    #: The claims that yielded no rows, by the keys of their events.
    _without_rows: Mapping[str | None, LoopClaimed]

    @staticmethod
    def of(tx: Transaction, execution_id: str, run_id: str) -> _LoopLog:
        row = moment.find(tx, execution_id)
        where = EventFilter((CommandIssued.type,), run_id=run_id)
        issued = tx.events.slice(execution_id, where, row.head_version, 0, row.head_version)
        own = tx.events.of_run(execution_id, run_id, None)
        return _LoopLog(
            tx,
            execution_id,
            run_id,
            next(one.fact for one in own if isinstance(one.fact, StepScheduled)),
            [one.fact for one in issued if isinstance(one.fact, CommandIssued)],
            {one.draft.dedup_key: one.fact for one in own if isinstance(one.fact, LoopClaimed)},
        )

    def first(self, generation: int) -> LaneOrder:
        """The lane that asks for what that generation has inherited."""
        orders = self._orders(generation)
        return next((order for order in orders if order.part == _FIRST), orders[0])

    def find_inherited(self, cursor: Task, generation: int) -> list[str]:
        """What nobody had heard of when the lanes of that generation began."""
        before = max((fact.generation for fact in self.issued if fact.generation < generation), default=None)
        if before is not None:
            return self._find_left_by(cursor, before, self._was_given_up)
        source = self._find_source(cursor)
        return [] if source is None else source._find_left(cursor)

    def _find_left(self, cursor: Task) -> list[str]:
        """What nobody has heard of at the end of the execution, which asked no lane whether it had
        ended."""
        newest = max((fact.generation for fact in self.issued), default=None)
        if newest is None:
            return self.find_inherited(cursor, 0)
        return self._find_left_by(cursor, newest, self._may_be_lost)

    def _find_left_by(
        self, cursor: Task, generation: int, is_lost: Callable[[LaneOrder, int], bool]
    ) -> list[str]:
        """What that generation had inherited and nobody heard of, and the claims that those of its
        lanes may have made last that are lost."""
        inherited, first = self.find_inherited(cursor, generation), self.first(generation)
        made = {order: order.count_claims(self.tx) for order in self._orders(generation)}
        heard = {order: number - self._is_unknown(order, number) for order, number in made.items()}
        own = [
            order.call_key(cursor, number)
            for order, number in heard.items()
            if (order != first or number >= len(inherited)) and is_lost(order, made[order])
        ]
        return inherited[heard[first] :] + own

    def _orders(self, generation: int) -> list[LaneOrder]:
        """The lanes of that generation, in the order in which they were issued."""
        return [
            LaneOrder(self.execution_id, self.run_id, fact.part, fact.issue)
            for fact in self.issued
            if fact.generation == generation
        ]

    def _was_given_up(self, order: LaneOrder, _: int) -> bool:
        command = command_id(order.execution_id, order.run_id, order.part, order.issue)
        return self.tx.events.recorded(order.execution_id, f"lost:{command}")

    def _may_be_lost(self, order: LaneOrder, made: int) -> bool:
        """Whether the lane may have left something behind the `made` claims that are recorded."""
        return not self._find_record(order, made).last or self._is_unknown(order, made)

    def _is_unknown(self, order: LaneOrder, made: int) -> bool:
        """Whether the last claim failed so that nobody knows whether it took rows."""
        error = self._find_record(order, made).error
        return error is not None and error.kind in UNKNOWN

    def _find_record(self, order: LaneOrder, made: int) -> LoopClaimed:
        """What is recorded of the last claim, of those that yielded no rows."""
        return self._without_rows.get(order.record_key(made - 1), LoopClaimed(order.part))

    def _find_source(self, cursor: Task) -> _LoopLog | None:
        """The run that this one is compared with, in the execution that is run again; None where
        there is none, or its cursor is another one."""
        again = moment.requested(self.tx, self.execution_id).retry
        if again is None:
            return None
        reuse = self.scheduled.reuse
        if reuse is None or reuse.run_id is None or cursor.name not in reuse.tasks:
            return None
        return _LoopLog.of(self.tx, reuse.execution_id or again.execution_id, reuse.run_id)
