"""What a run of a step was given, and what it came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.errors import NoetlError
from noetl.facts import json
from noetl.facts.events import Event, LoopStarted
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Load, load_value
from noetl.history.run_details import LoopedItems, RunResults, find_items, find_results
from noetl.ui.values import ShownValue, show_value
from noetl.usecases.step_inputs import TaskInputs

#: Characters of JSON that the overview shows of a value.
_SHORT: Final = 1_500


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value under a name. `shown` None: it is too long for an overview; `size` says how long."""

    name: str
    shown: ShownValue | None
    size: int


@dataclass(frozen=True, slots=True)
class ValueGroup:
    """Values under what they are; `note` says why there are none, or not all."""

    title: str
    values: Sequence[NamedValue]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Makes values of what a page shows: of all of it where that is the `whole`, else of what is
    short."""

    load: Load
    whole: bool

    def name(self, name: str, value: Json) -> NamedValue:
        size = len(json.dumps(value, ensure_ascii=False, default=str))
        is_shown = self.whole or size <= _SHORT
        return NamedValue(name, self._show(name, value) if is_shown else None, size)

    def _show(self, name: str, value: Json) -> ShownValue:
        """What is kept elsewhere is fetched where values alone are looked at, for no overview."""
        return show_value(value, self.load if self.whole else None, name=name)

    def inputs(
        self, args: JsonMap, tasks: Sequence[TaskInputs], events: Sequence[Event], iteration: int | None
    ) -> Iterator[ValueGroup]:
        """What the run was fired with, what the iteration is about, and what each of its tasks was
        handed besides. The tasks of a loop are those of an iteration."""
        values = [self.name(name, value) for name, value in args.items()]
        if iteration is not None:
            values = [*self._item(find_items(events), iteration), *values]
        own = [one for one in tasks if one.values or one.fault]
        if len(own) == 1 and len(tasks) == 1:
            yield self._group("Inputs", values, own[0])
            return
        is_loop = iteration is None and any(isinstance(one.fact, LoopStarted) for one in events)
        none = "Choose an iteration to see the inputs of its tasks." if is_loop else "No inputs"
        yield ValueGroup("Inputs", values, none if is_loop or not (values or own) else "")
        for one in own:
            yield self._group(f"Inputs of {one.task}", [], one)

    def _group(self, title: str, values: Sequence[NamedValue], task: TaskInputs) -> ValueGroup:
        own = [self.name(name, value) for name, value in task.values.items()]
        replaced = {one.name for one in own}
        return ValueGroup(title, [*(one for one in values if one.name not in replaced), *own], task.fault)

    def _item(self, items: LoopedItems, index: int) -> Iterator[NamedValue]:
        start, chunk = next(one for one in reversed([(0, items.first), *items.added]) if one[0] <= index)
        try:
            found = load_value(chunk, self.load)
        except NoetlError:
            return
        if isinstance(found, Sequence) and index - start < len(found):
            yield self.name("item", found[index - start])

    def outcome(self, events: Sequence[Event], kept: RunResults) -> ValueGroup:
        """What the run, or the iteration whose events these are, came to. `kept` is what the
        execution remembers of the step, for what its events do not say."""
        found = find_results(events)
        result = found if found.known else kept
        others = [self.name(task, value) for task, value in found.tasks.items() if not _is(value, result)]
        values = [*others, *([self.name("result", result.value)] if result.known else [])]
        return ValueGroup("Output", values, "" if values else "There is no result.")


def _is(value: Json, result: RunResults) -> bool:
    """Whether the task's result is that of the whole, which is shown once."""
    return result.known and value is result.value
