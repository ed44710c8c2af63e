"""The items of a loop as its lanes run them, and what the templates of an iteration see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from noetl.engine.plan import Plan
from noetl.facts.json import Json, JsonMap, assign
from noetl.facts.reference import loaded
from noetl.net.model import Loop
from noetl.pipeline.model import Names
from noetl.usecases.ports import CommandRow, LoopRow
from noetl.usecases.work.claims import Frame
from noetl.usecases.work.lane_policy import loop_of
from noetl.usecases.work.scopes import names, scope_around
from noetl.usecases.work.worker import Worker


@dataclass(slots=True)
class LoopItems:
    """What one lane has of its loop. `row` is as of its last claim; `patches` are the writes of its
    iterations to ctx."""

    worker: Worker
    command: CommandRow
    plan: Plan
    row: LoopRow
    patches: JsonMap = field(default_factory=dict)
    _list: Sequence[Json] | None = None
    #: Of a loop over a cursor: the rows at hand.
    _frame: Frame = field(default_factory=Frame)

    @property
    def loop(self) -> Loop:
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
        return {self.loop.iterator: self._item(index), "index": index, "parent": self._around()}

    def _around(self) -> Json:
        """The iteration of several steps that this one is a part of, or that of the playbook's
        caller."""
        context = self.command.context
        return scope_around(self.worker.rt, context) or context.get("caller")

    def _item(self, index: int) -> Json:
        if self.loop.cursor is not None:
            return self._frame.row(self.worker, self.command, index)
        if self._list is None:
            self._list = cast("Sequence[Json]", loaded(self.row.items, self.worker.rt.load))
        return self._list[index] if self._list else None
