"""What a lane has of its loop: how much it takes at a time, the indices it runs, what earlier
deliveries left of them in the log, and their items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from noetl.engine.names import loop_mode
from noetl.engine.plan import Plan
from noetl.errors import NoetlError
from noetl.facts.events import Draft
from noetl.facts.executions import CtxPatched
from noetl.facts.json import Json, JsonMap, assign
from noetl.facts.loops import LoopClaimed, LoopGrown
from noetl.facts.reference import load_value
from noetl.net.kinds import KindInfo
from noetl.net.model import Transition
from noetl.net.tasks import Loop, Task
from noetl.pipeline.model import Names
from noetl.pipeline.patches import extend
from noetl.usecases.ports import CommandRow, LoopRow, Transaction
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.work.leases import Worker
from noetl.usecases.work.pipelines import names, scope_around


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """`commits_each`: the end of each iteration is committed by itself. `may_suspend`: one may
    leave its worker half-way. `fails_fast`: after a failure nothing new begins. `paced`: a command
    is for one iteration."""

    commits_each: bool
    may_suspend: bool
    fails_fast: bool
    paced: bool

    @staticmethod
    def of(plan: Plan, command: CommandRow, kinds: Mapping[str, KindInfo]) -> LanePolicy:
        """The policy of the loop that `command` belongs to."""
        step, loop = plan.step(command.step), loop_of(plan, command)
        return LanePolicy(
            _commits_each(command, step, loop),
            _may_suspend(step, kinds),
            loop.failure.mode == "fail_fast",
            loop.paced,
        )

    def share(self, limits: RuntimeLimits, size: int, lanes: int, pace: float) -> int:
        """How many iterations to take: what one commit interval holds at `pace` seconds each, and
        never more than a fair part of `size` for each of `lanes`."""
        if self.commits_each or self.may_suspend:
            # A lane whose iteration suspends ends: it may hold no others.
            return 1
        fair = max(1, size // (4 * lanes))
        return max(1, min(limits.commit_iterations, fair, int(limits.commit_s / max(pace, 1e-4))))


def loop_of(plan: Plan, command: CommandRow) -> Loop:
    """The loop of the command's step. Raises ValueError where it has none."""
    loop = plan.step(command.step).loop
    if loop is None:
        raise ValueError(f"step {command.step} has no loop")
    return loop


def _commits_each(command: CommandRow, step: Transition, loop: Loop) -> bool:
    if loop.asks:
        # The scheduler waits for every end of an iteration.
        return True
    if loop.commit is not None:
        return loop.commit == "each"
    if loop_mode(command.context, step) == "sequential":
        return True
    return any(task.effects == "external" for task in step.tasks)


def _may_suspend(step: Transition, kinds: Mapping[str, KindInfo]) -> bool:
    return any(
        (task.kind in kinds and kinds[task.kind].suspends)
        or (task.cache is not None and task.cache.lock)
        or any(rule.then.do == "retry" for rule in task.rules or ())
        for task in step.tasks
    )


def first(
    tx: Transaction, command: CommandRow, plan: Plan, row: LoopRow
) -> tuple[tuple[int, ...], dict[int, list[Draft]]]:
    """The indices that a delivery begins with, and what earlier deliveries recorded of them: those
    that it has to finish, else new ones."""
    step = plan.step(command.step)
    sequential = loop_mode(command.context, step) == "sequential"
    unfinished: tuple[int, ...] = ()
    if loop_of(plan, command).paced:
        own = command.iteration
        unfinished = () if own is None or _has_ended(tx, row, own) else (own,)
        return unfinished, _history(tx, command, unfinished)
    if sequential and (command.attempt > 1 or command.iteration is not None):
        # Those that come later see what these write: they may not be overtaken.
        unfinished = _find_unfinished(tx, row)
    elif command.iteration is not None and not _has_ended(tx, row, command.iteration):
        unfinished = (command.iteration,)
    if unfinished:
        return unfinished, _history(tx, command, unfinished)
    execution = tx.executions.get(command.execution_id)
    return take(tx, command, 1, some_cancelled=execution is not None and execution.cancelled_parts > 0)


def take(
    tx: Transaction, command: CommandRow, count: int, *, some_cancelled: bool
) -> tuple[tuple[int, ...], dict[int, list[Draft]]]:
    """New indices. In the first generation none of them has begun. `some_cancelled`: iterations of
    the execution were cancelled one by one; such an index is passed over."""
    while True:
        taken = tx.loops.take(command.execution_id, command.run_id, command.generation, count)
        open_ones = _leave_out_ended(tx, command, taken) if some_cancelled else taken
        if open_ones or not taken:
            return open_ones, _history(tx, command, open_ones) if command.generation > 1 else {}


def _leave_out_ended(tx: Transaction, command: CommandRow, taken: tuple[int, ...]) -> tuple[int, ...]:
    ends = ((index, f"iteration:{command.run_id}/{index}") for index in taken)
    return tuple(index for index, end in ends if not tx.events.recorded(command.execution_id, end))


def _history(tx: Transaction, command: CommandRow, indices: tuple[int, ...]) -> dict[int, list[Draft]]:
    events = {index: tx.events.of_run(command.execution_id, command.run_id, index) for index in indices}
    return {index: [event.draft for event in found] for index, found in events.items()}


def _has_ended(tx: Transaction, row: LoopRow, index: int) -> bool:
    return tx.events.recorded(row.execution_id, f"iteration:{row.run_id}/{index}")


def _find_unfinished(tx: Transaction, row: LoopRow) -> tuple[int, ...]:
    """What the only lane of a sequential loop took and did not end."""
    indices = range(row.count) if row.indices is None else row.indices
    position = row.next_index
    while position > 0 and not _has_ended(tx, row, indices[position - 1]):
        position -= 1
    return tuple(indices[position : row.next_index])


def own_patches(tx: Transaction, command: CommandRow, plan: Plan) -> JsonMap:
    """What earlier iterations of a sequential loop wrote to ctx: its own patches, across
    deliveries."""
    step = plan.step(command.step)
    if loop_mode(command.context, step) != "sequential" or not _writes_ctx(step.tasks):
        return {}
    patches: JsonMap = {}
    for event in tx.events.read(command.execution_id, types=(CtxPatched.type,)):
        if event.draft.run_id == command.run_id and isinstance(event.fact, CtxPatched):
            patches = extend(patches, event.fact.patch)
    return patches


def _writes_ctx(tasks: Iterable[Task]) -> bool:
    assigned = (
        one
        for task in tasks
        for group in (task.set, *(rule.then.set for rule in task.rules or ()))
        for one in group
    )
    return any(one.scope == "ctx" for one in assigned)


@dataclass(slots=True)
class LoopItems:
    """What one lane has of its loop. `row` is as of its last claim; `patches` are the writes of its
    iterations to ctx."""

    worker: Worker
    command: CommandRow
    plan: Plan
    row: LoopRow
    patches: JsonMap = field(default_factory=dict)
    _items: Sequence[Json] | None = None
    #: The rows of one claim, or what one iteration has added; the index of the first of them.
    _later: Sequence[Json] = ()
    _first: int = 0

    @property
    def loop(self) -> Loop:
        """The loop of the command's step."""
        return loop_of(self.plan, self.command)

    def names(self, index: int) -> Names:
        """What the templates of an iteration see. Raises NoetlError where its item is gone."""
        scope = names(self.worker.rt, self.plan, self.command, self.scope(index))
        return replace(scope, ctx=self.ctx())

    def ctx(self) -> JsonMap:
        """ctx, with what earlier iterations of this lane wrote to it."""
        return assign(self.command.context["ctx"], self.patches)

    def scope(self, index: int) -> JsonMap:
        """`iter`, as the iteration of that index sees it."""
        context = self.command.context
        # The iteration of several steps that this one is a part of, or that of the caller.
        parent = scope_around(self.worker.rt, context) or context.get("caller")
        return {self.loop.iterator: self._item(index), "index": index, "parent": parent}

    def _item(self, index: int) -> Json:
        if self.loop.cursor is not None:
            return self._find_later(index)
        if self._items is None:
            self._items = cast("Sequence[Json]", load_value(self.row.items, self.worker.rt.load))
        return self._items[index] if index < len(self._items) else self._find_later(index)

    def _find_later(self, index: int) -> Json:
        """The row of that index, or the item that was added, from the log where it belongs to
        another event than the last one did. Raises NoetlError where the log holds none."""
        if not self._first <= index < self._first + len(self._later):
            command = self.command
            with self.worker.rt.store.read() as tx:
                event = tx.events.claim_of(command.execution_id, command.run_id, index)
            if event is None or not isinstance(event.fact, LoopClaimed | LoopGrown):
                raise NoetlError(f"The log holds no item {index} of step {command.step!r}.")
            self._first = event.draft.iteration or 0
            self._later = cast("Sequence[Json]", load_value(event.fact.items, self.worker.rt.load))
        return self._later[index - self._first] if self._later else None
