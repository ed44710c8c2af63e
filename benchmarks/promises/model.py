"""A promise of speed, and the clocks that it is measured with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Promise:
    """What `sentence` is about takes at most `bound`: seconds, or times as long as something else.
    It is kept where the median of all samples is within the bound."""

    name: str
    sentence: str
    bound: float
    unit: Literal["s", "×"]
    #: One repetition: its samples. Where several things are to be within the bound, the worst.
    measure: Callable[[], Sequence[float]]


def elapsed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def processor(work: Callable[[], object]) -> float:
    """Seconds of a processor that it takes in this process."""
    began = time.process_time()
    work()
    return time.process_time() - began
