"""How the lanes of a loop behave, as its step says: when they commit, how much they take, when they
stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noetl.engine.names import loop_mode
from noetl.engine.plan import Plan
from noetl.net.model import KindInfo, Loop, Transition
from noetl.usecases.ports import CommandRow
from noetl.usecases.runtime import RuntimeLimits


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """`commits_each`: the end of each iteration is committed by itself. `may_suspend`: one may
    leave its worker half-way. `fails_fast`: after a failure nothing new begins."""

    commits_each: bool
    may_suspend: bool
    fails_fast: bool

    @staticmethod
    def of(plan: Plan, command: CommandRow, kinds: Mapping[str, KindInfo]) -> LanePolicy:
        """The policy of the loop that `command` belongs to."""
        step, loop = plan.step(command.step), loop_of(plan, command)
        return LanePolicy(
            _commits_each(command, step, loop, kinds),
            _may_suspend(step, kinds),
            loop.failure.mode == "fail_fast",
        )

    def share(self, limits: RuntimeLimits, size: int, lanes: int, pace: float) -> int:
        """How many iterations to take: what one commit interval holds at `pace` seconds each, and
        never more than a fair part of `size` for each of `lanes`."""
        if self.commits_each or self.may_suspend:
            # A lane whose iteration suspends ends: it may hold no others.
            return 1
        fair = max(1, size // (4 * lanes))
        return max(1, min(limits.commit_iterations, fair, int(limits.commit_s / max(pace, 1e-4))))


def loop_of(plan: Plan, command: CommandRow) -> Loop:
    """The loop of the command's step. Raises ValueError where it has none."""
    loop = plan.step(command.step).loop
    if loop is None:
        raise ValueError(f"step {command.step} has no loop")
    return loop


def _commits_each(command: CommandRow, step: Transition, loop: Loop, kinds: Mapping[str, KindInfo]) -> bool:
    if loop.commit is not None:
        return loop.commit == "each"
    if loop_mode(command.context, step) == "sequential":
        return True
    return any(kinds[task.kind].effects == "external" for task in step.tasks if task.kind in kinds)


def _may_suspend(step: Transition, kinds: Mapping[str, KindInfo]) -> bool:
    return any(
        (task.kind in kinds and kinds[task.kind].suspends)
        or any(rule.then.do == "retry" for rule in task.rules or ())
        for task in step.tasks
    )
