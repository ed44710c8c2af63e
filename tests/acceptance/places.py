"""Places in the work of executions at which tests kill."""

from __future__ import annotations

from collections.abc import Callable

from tests.waiting import until

from .mortal import supervise
from .stack import Stack


def reach(stack: Stack, is_there: Callable[[], bool], place: str) -> None:
    """Waits until the work has come there. Workers that give up meanwhile are started again."""

    def has_come() -> bool:
        supervise(stack)
        return is_there()

    until(has_come, place)
