"""How much work a call is, counted and not timed: the same on every machine, however busy.

    assert calls(lambda: read(twice)) < 2.2 * calls(lambda: read(once))

What hangs or is exponential never ends, and is caught by the guard of every test. For what grows
faster than it should, two sizes are compared. Seconds belong to `make bench`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any


def calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls in this thread, those written in C among them."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    _watch(work, note, sys.getprofile, sys.setprofile)
    return count


def lines(work: Callable[[], object]) -> int:
    """How many lines of Python `work` runs in this thread: for loops that call nothing."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    _watch(work, note, sys.gettrace, sys.settrace)
    return count


def _watch(
    work: Callable[[], object], note: Any, current: Callable[[], Any], use: Callable[[Any], None]
) -> None:
    before = current()
    # What finalizers call is work of somebody else.
    gc.disable()
    use(note)
    try:
        work()
    finally:
        use(before)
        gc.enable()
