"""What a task may take: how many points of its sweep run, and whether any of it is sent."""

from __future__ import annotations

import bisect
import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.facts.durations import seconds
from noetl.facts.json import JsonMap
from noetl.quantum.config.task import Limits
from noetl.quantum.model import Estimate

#: The error of a task whose first point does not fit, by the limit that it meets.
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
class PointCost:
    """What points would take. `shots` is for each of them, `fixed` for all together (calibration);
    `cost` tells what the first so many points cost together."""

    points: int
    shots: int
    fixed: int = 0
    cost: Callable[[int], float] = lambda _: 0.0

    @property
    def all_shots(self) -> int:
        return self.fixed + self.points * self.shots


@dataclass(frozen=True, slots=True)
class PointBudget:
    """How many points run. `stopped` is `{limit, at, of}` where that is not all of them: the limit
    that is met, its value, and what all points would take."""

    points: int
    stopped: JsonMap | None = None


def point_budget(limits: Limits, need: PointCost) -> PointBudget:
    """How much of a sweep may run. Raises ToolError(limit) where not even its first point may."""
    rooms = [PointBudget(need.points), *_rooms(limits, need)]
    least = min(rooms, key=lambda one: one.points)
    if least.points > 0 or least.stopped is None:
        return least
    limit = str(least.stopped["limit"])
    raise ToolError(
        "limit",
        f"Not even one point may run: `limits.{limit}` is {least.stopped['at']:g}, and all of "
        "the task would take "
        f"{least.stopped['of']:g}. Raise the limit, or ask for less.",
        type=_TYPES[limit],
        extras={"quantum": {"stopped": least.stopped}},
    )


def _rooms(limits: Limits, need: PointCost) -> Iterator[PointBudget]:
    if limits.max_points is not None and limits.max_points < need.points:
        yield _stop_at("max_points", limits.max_points, limits.max_points, need.points)
    if limits.max_shots is not None and need.all_shots > limits.max_shots:
        fit = max(0, limits.max_shots - need.fixed) // need.shots if need.shots else 0
        yield _stop_at("max_shots", fit, limits.max_shots, need.all_shots)
    if limits.max_cost is not None and (whole := need.cost(need.points)) > limits.max_cost:
        # All of them are too many.
        fit = bisect.bisect_right(range(1, need.points), limits.max_cost, key=need.cost)
        yield _stop_at("max_cost", fit, limits.max_cost, whole)


def _stop_at(limit: str, points: int, at: float, of: float) -> PointBudget:
    return PointBudget(points, {"limit": limit, "at": at, "of": of})


def check_estimate(limits: Limits, estimate: Estimate, provider: str) -> None:
    """Raises ToolError(limit) where a limit cannot be checked because the backend does not report
    it, or too much waits there."""
    if limits.max_cost is not None and estimate.cost is None:
        raise _limit_error(
            "max_cost", f"{provider} does not tell what jobs cost. Leave it out to run without."
        )
    most = limits.max_queue
    if most is None:
        return
    waiting: float | None
    if isinstance(most, int):
        waiting, bound, what = estimate.queue, float(most), f"{estimate.queue} jobs wait"
        instead = "how many jobs wait; give a duration, such as 6h, where it tells how long they do"
    else:
        waiting, bound = estimate.queue_s, seconds(most)
        what = f"Jobs wait about {estimate.queue_s or 0:,.0f} s"
        instead = "how long jobs wait; give a number of jobs where it tells how many there are"
    if waiting is None:
        raise _limit_error("max_queue", f"{provider} does not tell {instead}.")
    if waiting > bound:
        raise ToolError(
            "limit",
            f"{what} at {provider}, more than `limits.max_queue` of {most}; try again later.",
            retryable=True,
            type="OverQueue",
        )


def _limit_error(limit: str, why: str) -> ToolError:
    return ToolError("limit", f"`limits.{limit}` cannot be kept: {why}", type="NotTold")


def free_memory_mb() -> float:
    """The memory that a simulation may take where `max_memory_mb` is not given: what this machine,
    or the container that the worker is in, has left."""
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
