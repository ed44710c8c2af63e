"""Turns what went wrong into the error of an outcome, with its place in the playbook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from noetl.errors import BadRequest, LimitExceeded, NoetlError, TemplateError, Unavailable
from noetl.facts.outcome import ErrorInfo, ErrorKind
from noetl.net.model import Task
from noetl.pipeline.model import Where

#: The kind under which an error is reported: that of the first class that fits.
_KINDS: Final[tuple[tuple[type[NoetlError], ErrorKind], ...]] = (
    (TemplateError, "template"),
    (LimitExceeded, "limit"),
    (BadRequest, "client_error"),
    (Unavailable, "connection"),
)


class CannotGoOn(Exception):
    """A task cannot go on, for the reason that `error` gives."""

    def __init__(self, error: ErrorInfo) -> None:
        super().__init__(error.message)
        self.error = error


@contextmanager
def blame(place: str, line: int | None = None) -> Iterator[None]:
    """Raises CannotGoOn in the place of a NoetlError that arises within the block; see
    `describe_failure`."""
    try:
        yield
    except NoetlError as error:
        raise CannotGoOn(describe_failure(error, place, line)) from error


def describe_failure(error: NoetlError, place: str, line: int | None = None) -> ErrorInfo:
    """What `error` means for the task; `place` says where it arose ("The `url` of task
    'fetch'")."""
    return ErrorInfo(
        kind=next((kind for of, kind in _KINDS if isinstance(error, of)), "internal"),
        message=f"{place}: {error.message}",
        type=type(error).__name__,
        retryable=isinstance(error, Unavailable),
        line=line,
    )


def locate(
    error: ErrorInfo, where: Where, task: Task, attempt: int, item_text: str | None = None
) -> ErrorInfo:
    """`error` with the place it has in this playbook; `line` is one of the file, or the task's
    own."""
    return replace(
        error,
        step=where.step,
        task=task.name,
        iteration=where.iteration,
        attempt=attempt,
        item_text=item_text,
        line=error.line or task.line or None,
    )


def line_in_file(task: Task, line: int | None) -> int | None:
    """The line of the file for `line` of the task's code; the task's own where that is not
    known."""
    if line is not None:
        for key in ("code", *task.verbatim, "command", "qasm"):
            if key in task.lines:
                return task.lines[key] + line - 1
    return task.line or None
