"""What an execution reports without failing: warnings, and errors that it went on after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any, Final

from noetl.facts import events as e
from noetl.facts.events import TaskCallFailed, TaskFailed, TaskItemFailed
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo

#: Different notices that an execution keeps; of others it only knows how many came.
MOST: Final = 50
#: Characters of a notice's text.
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning of a run and how often it was recorded.

    `template` became null, or `absent` in it left nothing in its text, and stands at `place` of the
    `task`, of the `step`, or of the playbook; or there is a `message`, which is a tool's, of an
    earlier version, or about what the execution was given.
    """

    message: str = ""
    template: str = ""
    place: str = ""
    step: str | None = None
    task: str | None = None
    count: int = 1
    absent: str = ""
    why: str = ""

    def is_again(self, other: Notice) -> bool:
        """Whether `other` says the same of the same place."""
        return replace(self, count=0) == replace(other, count=0)


@dataclass(frozen=True, slots=True)
class Notices:
    """The first `MOST` notices of an execution, and how many others were recorded."""

    kept: tuple[Notice, ...] = ()
    more: int = 0

    @property
    def count(self) -> int:
        """How many different ones there are, as far as they are kept, and all others."""
        return len(self.kept) + self.more

    def after(self, draft: e.Draft) -> Notices:
        """With the warnings of the event."""
        found, read = self, _WARNINGS.get(type(draft.fact))
        for notice in _notices(draft, read(draft.fact)) if read is not None else ():
            found = found._with(notice)
        return found

    def _with(self, notice: Notice) -> Notices:
        for index, known in enumerate(self.kept):
            if known.is_again(notice):
                again = replace(known, count=known.count + 1)
                return replace(self, kept=(*self.kept[:index], again, *self.kept[index + 1 :]))
        if len(self.kept) >= MOST:
            return replace(self, more=self.more + 1)
        return replace(self, kept=(*self.kept, notice))


def _of_meta(fact: Any) -> Json:
    return fact.meta.get("warnings", ())


#: Where the facts that warn have their warnings. What is wrong with a child's answer is repeated by
#: the task that called.
_WARNINGS: Final[Mapping[type[Any], Callable[[Any], Json]]] = {
    **dict.fromkeys(
        (e.Evaluated, e.StepScheduled, e.LoopStarted, e.LoopGrown, e.NextEvaluated, e.TaskLoopStarted),
        attrgetter("warnings"),
    ),
    **dict.fromkeys(
        (
            e.TaskDone,
            e.TaskFailed,
            e.AttemptFailed,
            e.TaskItemDone,
            e.TaskItemFailed,
            e.TaskCallDone,
            e.TaskCallFailed,
            e.LoopClaimed,
        ),
        _of_meta,
    ),
}


def _notices(draft: e.Draft, warnings: Json) -> Iterable[Notice]:
    if not isinstance(warnings, list | tuple):
        # Workers in other languages may put anything into `meta`.
        return
    step, task = draft.step, getattr(draft.fact, "task", None)
    for one in warnings:
        if isinstance(one, str):
            yield Notice(message=one[:_LONGEST], step=step, task=task)
        elif isinstance(one, Mapping):
            message, template, place, absent, why = (
                _text(one.get(key)) for key in ("message", "template", "place", "absent", "why")
            )
            yield Notice(message, template, place, step, task, absent=absent, why=why)


def _text(value: Json) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


#: Errors of a step that are kept; of others only their number is.
MOST_ERRORS: Final = 20


@dataclass(frozen=True, slots=True)
class PassedErrors:
    """The errors that a step went on after, over all its runs: how many, and the first
    `MOST_ERRORS` of them.

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
        found = islice(errors, MOST_ERRORS - len(self.errors))
        return (*self.errors, *(replace(error, traceback=None, stats=None) for error in found))

    def _without_items(self, error: ErrorInfo) -> PassedErrors:
        failed = int((error.stats or {}).get("failed", 0))
        left = tuple(one for one in self.errors if not _is_item_of(one, error))
        return replace(self, count=max(self.count - failed, len(left)), errors=left)


def _is_item_of(one: ErrorInfo, error: ErrorInfo) -> bool:
    return one.item is not None and (one.task, one.iteration) == (error.task, error.iteration)


def describe(passed: PassedErrors) -> str:
    """`49 of 50, 1 failed`, `1 ignored error`, or both; empty where there was none."""
    parts = []
    if passed.failed:
        parts.append(f"{passed.items - passed.failed} of {passed.items}, {passed.failed} failed")
    if others := passed.count - passed.failed:
        parts.append(f"{others} ignored error{'s' if others > 1 else ''}")
    return ", ".join(parts)
