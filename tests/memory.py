"""How much memory a call needs, counted and not looked up: what a process ever had says more of the
tests before it.

    assert peak(lambda: write(many)) < 1.5 * peak(lambda: write(few))
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable


def peak(work: Callable[[], object]) -> int:
    """The most bytes that Python's objects had at once in `work`, above what was there before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
