"""Bounds on time that hold on slow machines: written for the reference, scaled where this machine
is slower now.

The reference is a quiet machine with CPython 3.11 on which ten million additions in the `for` loop
of a function take 0.45 s. A bound that is kept is never scaled, so nothing is measured and nothing
is loosened where it holds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds that the reference machine takes for one addition.
_REFERENCE_S = 0.45 / 10_000_000
#: Additions of one measurement: 0.1 s on the reference machine.
_ADDITIONS = 2_000_000
#: A machine that is slower than this fails.
MOST = 5.0

Clock = Callable[[], float]


@contextmanager
def within(seconds: float, clock: Clock = time.perf_counter) -> Iterator[None]:
    """Fails where the body takes `seconds` or more, by `clock`, as the reference machine would
    count them."""
    began = clock()
    yield
    check(clock() - began, seconds, clock)


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile: to look through what some thousand tests have left takes
    seconds, and says nothing of the body."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def check(took: float, seconds: float, clock: Clock = time.perf_counter) -> None:
    """Fails where what `took` so many seconds here would have taken `seconds` or more on the
    reference machine."""
    if took < seconds:
        return
    factor = slowness(clock)
    assert took < seconds * factor, (
        f"took {took:.3g} s; {seconds:g} s are allowed, and {seconds * factor:.3g} s on this machine, "
        f"which is now {factor:.1f} times slower than the reference"
    )


def slowness(clock: Clock = time.perf_counter, most: float = MOST) -> float:
    """How many times slower this machine is now than the reference: from 1.0, as fast or faster, to
    `most`."""
    began = clock()
    _add(_ADDITIONS)
    return min(max(1.0, (clock() - began) / (_ADDITIONS * _REFERENCE_S)), most)


def _add(times: int) -> int:
    total = 0
    for number in range(times):
        total += number
    return total
