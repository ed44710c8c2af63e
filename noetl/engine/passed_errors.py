"""Errors that an execution went on after: a policy continued, or a loop tolerated a failed
iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from noetl.facts.events import TaskCallFailed, TaskFailed, TaskItemFailed
from noetl.facts.outcome import ErrorInfo

#: Errors of a step that are kept; of others only their number is.
MOST: Final = 20


@dataclass(frozen=True, slots=True)
class PassedErrors:
    """The errors that a step went on after, over all its runs: how many, and the first `MOST` of
    them.

    `failed` of them are iterations that failed in loops that were done all the same, of `items` in
    all.
    """

    count: int = 0
    errors: tuple[ErrorInfo, ...] = ()
    failed: int = 0
    items: int = 0

    def __bool__(self) -> bool:
        return self.count > 0

    def after_task(self, fact: TaskFailed | TaskItemFailed | TaskCallFailed) -> PassedErrors:
        """With the error, where the pipeline goes on. A task that fails with the error of one of
        its items takes back those that it had: they are that failure."""
        if not isinstance(fact, TaskFailed) or not fact.fatal:
            return replace(self, count=self.count + 1, errors=self._with([fact.error]))
        is_of_item = fact.error.item is not None and fact.error.stats is not None
        return self._without_items(fact.error) if is_of_item else self

    def after_loop(self, errors: Mapping[int, ErrorInfo], items: int) -> PassedErrors:
        """With the failed iterations of a loop over so many `items` that was done."""
        return replace(
            self,
            count=self.count + len(errors),
            errors=self._with(errors.values()),
            failed=self.failed + len(errors),
            items=self.items + items,
        )

    def _with(self, errors: Iterable[ErrorInfo]) -> tuple[ErrorInfo, ...]:
        """The first ones, without what only their own events need to say."""
        found = islice(errors, MOST - len(self.errors))
        return (*self.errors, *(replace(error, traceback=None, stats=None) for error in found))

    def _without_items(self, error: ErrorInfo) -> PassedErrors:
        failed = int((error.stats or {}).get("failed", 0))
        left = tuple(one for one in self.errors if not _is_item_of(one, error))
        return replace(self, count=max(self.count - failed, len(left)), errors=left)


def _is_item_of(one: ErrorInfo, error: ErrorInfo) -> bool:
    return one.item is not None and (one.task, one.iteration) == (error.task, error.iteration)


def describe(passed: PassedErrors) -> str:
    """`49 of 50, 1 failed`, `1 error passed over`, or both; empty where there was none."""
    parts = []
    if passed.failed:
        parts.append(f"{passed.items - passed.failed} of {passed.items}, {passed.failed} failed")
    if others := passed.count - passed.failed:
        parts.append(f"{others} error{'s' if others > 1 else ''} passed over")
    return ", ".join(parts)
