"""Tests wait for conditions that the program itself shows, and never for instants.

    until(lambda: inspect.execution(rt, run).status in ENDED, "the execution to end")

How long that takes says something of the machine and nothing of the program. What ends the wait all
the same is a guard against what never comes, at least ten times what a busy machine has needed; it
is no promise, and nobody gives a shorter one. That nothing happens is shown by something that
happens behind it: the next sweep, another message on the same queue, an answer to a later question.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

#: Seconds after which a test gives up on what does not come.
GUARD_S = 300.0
#: Seconds between two looks.
_PAUSE_S = 0.01


def until(probe: Callable[[], Value], what: str | Callable[[], str]) -> Value:
    """The first true value of `probe`. Fails where there is none within GUARD_S: `what` was waited
    for, in words, or a function that says how things stand then."""
    ends = time.monotonic() + GUARD_S
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > ends:
            raise AssertionError(f"waited {GUARD_S:.0f} s in vain for {what() if callable(what) else what}")
        time.sleep(_PAUSE_S)
