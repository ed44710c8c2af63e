"""The loop of a task: its items run one after another, in the worker that runs the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from noetl.errors import LimitExceeded
from noetl.expressions import evaluate_at
from noetl.facts.events import TaskItemDone, TaskItemFailed, TaskLoopStarted
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.facts.reference import Load, as_items
from noetl.facts.warnings import Warned
from noetl.net.model import Loop, Task
from noetl.pipeline.failures import blame
from noetl.pipeline.model import Items
from noetl.pipeline.names import TemplateScope
from noetl.pipeline.policy import Verdict

#: Items of a task's own loop: a step's loop may have more, and many workers.
MOST_ITEMS: Final = 10_000


def begin(task: Task, loop: Loop, sight: TemplateScope, load: Load) -> TaskLoopStarted:
    """The collection, evaluated. Raises CannotGoOn."""
    warnings: list[Warned] = []
    with blame(f"The loop of task '{task.name}'", task.lines.get("loop") or task.line or None):
        found = evaluate_at("loop.in", loop.collection, sight, warnings, load=load)
        count, items = as_items(found, load)
        if count > MOST_ITEMS:
            raise LimitExceeded(
                f"it has {count} items; at most {MOST_ITEMS:,} are allowed in the loop of a task: loop "
                "on a step."
            )
    return TaskLoopStarted(task.name, count, items, tuple(warnings))


def item_end(task: Task, item: int, outcome: Outcome, verdict: Verdict) -> TaskItemDone | TaskItemFailed:
    """How the end of an item is recorded, once no other attempt follows."""
    failure = verdict.error if verdict.do == "fail" else outcome.error
    if failure is None:
        return TaskItemDone(task.name, item, outcome.result, outcome.meta, outcome.extras)
    error = replace(failure, item=item)
    return TaskItemFailed(task.name, item, error, outcome.meta, outcome.extras, verdict.do != "fail")


def is_over(loop: Loop, items: Items, verdict: Verdict) -> bool:
    """Whether no other item follows: there is none, too many have failed, or a jump leads
    elsewhere."""
    goes_on = loop.failure.goes_on(len(items.errors), items.count)
    return items.index >= items.count or not goes_on or verdict.do == "jump"


def whole(loop: Loop, items: Items) -> Outcome:
    """What the task has come to: `{results, stats[, errors]}` in the order of the items, or the
    first error that its loop does not tolerate, with the stats."""
    if not loop.failure.tolerates(len(items.errors), items.count):
        return failed(replace(items.errors[min(items.errors)], stats=items.stats))
    result: dict[str, Json] = {"results": list(items.results), "stats": items.stats}
    if items.errors:
        wrong = (items.errors.get(index) for index in range(items.index))
        result["errors"] = [error.as_json() if error else None for error in wrong]
    return succeeded(result)
