"""What a task may take: how many points of its sweep run, and whether any of it is sent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.facts.durations import seconds
from noetl.facts.json import JsonMap
from noetl.quantum.config import Limits
from noetl.quantum.model import Estimate

#: The error of a task of which not even one point fits, by the limit that it meets.
_TYPES: Final = {"max_points": "OverPoints", "max_shots": "OverShots", "max_cost": "OverCost"}
_MIB: Final = 1 << 20
#: Files of Linux with the memory that a container may have, and has, in bytes.
_CGROUPS: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


@dataclass(frozen=True, slots=True)
class Need:
    """What points would take. `shots` is for each of them, `fixed` for all together (calibration); `cost` tells what the
    first so many points cost together."""

    points: int
    shots: int
    fixed: int = 0
    cost: Callable[[int], float] = lambda _: 0.0

    @property
    def all_shots(self) -> int:
        return self.fixed + self.points * self.shots


@dataclass(frozen=True, slots=True)
class Room:
    """How many points run. `stopped` is `{limit, at, of}` where that is not all of them: the limit that is met, its value,
    and what all points would take."""

    points: int
    stopped: JsonMap | None = None


def room(limits: Limits, need: Need) -> Room:
    """How much of a sweep may run. Raises ToolError(limit) where not even its first point may."""
    rooms = [Room(need.points), *_rooms(limits, need)]
    least = min(rooms, key=lambda one: one.points)
    if least.points > 0 or least.stopped is None:
        return least
    limit = str(least.stopped["limit"])
    raise ToolError(
        "limit",
        f"Not even one point may run: `limits.{limit}` is {least.stopped['at']:g}, and all of the task would take "
        f"{least.stopped['of']:g}. Raise the limit, or ask for less.",
        type=_TYPES[limit],
        extras={"quantum": {"stopped": least.stopped}},
    )


def _rooms(limits: Limits, need: Need) -> Iterator[Room]:
    if limits.max_points is not None and limits.max_points < need.points:
        yield _stopped("max_points", limits.max_points, limits.max_points, need.points)
    if limits.max_shots is not None and need.all_shots > limits.max_shots:
        fit = max(0, limits.max_shots - need.fixed) // need.shots if need.shots else 0
        yield _stopped("max_shots", fit, limits.max_shots, need.all_shots)
    if limits.max_cost is not None and (whole := need.cost(need.points)) > limits.max_cost:
        yield _stopped("max_cost", _affordable(limits.max_cost, need), limits.max_cost, whole)


def _stopped(limit: str, points: int, at: float, of: float) -> Room:
    return Room(points, {"limit": limit, "at": at, "of": of})


def _affordable(most: float, need: Need) -> int:
    """How many of the first points cost at most `most` together; all of them are too many."""
    fits, fails = 0, need.points
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if need.cost(middle) <= most:
            fits = middle
        else:
            fails = middle
    return fits


def check_told(limits: Limits, estimate: Estimate, provider: str) -> None:
    """Raises ToolError(limit) where a limit cannot be checked because the backend does not tell, or too much waits
    there."""
    if limits.max_cost is not None and estimate.cost is None:
        raise _not_told("max_cost", f"{provider} does not tell what jobs cost. Leave it out to run without.")
    most = limits.max_queue
    if most is None:
        return
    told: float | None
    if isinstance(most, int):
        told, bound, waits = estimate.queue, float(most), f"{estimate.queue} jobs wait"
        instead = "how many jobs wait; give a duration, such as 6h, where it tells how long they do"
    else:
        told, bound, waits = (
            estimate.queue_s,
            seconds(most),
            f"Jobs wait about {estimate.queue_s or 0:,.0f} s",
        )
        instead = "how long jobs wait; give a number of jobs where it tells how many there are"
    if told is None:
        raise _not_told("max_queue", f"{provider} does not tell {instead}.")
    if told > bound:
        raise ToolError(
            "limit",
            f"{waits} at {provider}, more than `limits.max_queue` of {most}; try again later.",
            retryable=True,
            type="OverQueue",
        )


def _not_told(limit: str, why: str) -> ToolError:
    return ToolError("limit", f"`limits.{limit}` cannot be kept: {why}", type="NotTold")


def free_memory_mb() -> float:
    """The memory that a simulation may take where `max_memory_mb` is not given: what this machine, or the container
    that the worker is in, has left."""
    free = [_machine_free()]
    for most, used in _CGROUPS:
        with contextlib.suppress(OSError, ValueError):  # there is no such file, or it says "max"
            free.append(int(most.read_text()) - int(used.read_text()))
    return max(0, min(free)) / _MIB


def _machine_free() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    # Not Linux: what the machine has at all.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
