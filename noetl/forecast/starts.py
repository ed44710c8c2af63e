"""Which variables of an execution still hold at a step what they began with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

from noetl.net.checks import cycles, descendants, dominators
from noetl.net.graphs import Dominators
from noetl.net.model import Assignment, Net, Task, Transition

#: When a template of a step is rendered: before its tasks, while they run, or once they have ended.
Moment: TypeAlias = Literal["before", "during", "end"]
MOMENTS: Final[tuple[Moment, ...]] = get_args(Moment)

#: Joins that fire once, where nothing leads back to them.
_ONCE: Final = frozenset({"auto", "all"})


class Starts:
    """What assigns which variable, and whether that can have happened by the time a step is due.

    A step that fires once is before all steps to which every path leads through it; whatever else
    assigns may have done so, in another branch or in an earlier round.
    """

    def __init__(self, net: Net) -> None:
        self._net = net
        self._tasks = {step.name: frozenset(_of_ctx(in_tasks(step.tasks))) for step in net.transitions}
        self._all = {step.name: frozenset(_of_ctx(_in_step(step))) for step in net.transitions}

    @property
    def assigned(self) -> frozenset[str]:
        """The names of ctx that anything assigns, and those that it begins with."""
        return frozenset(self._net.ctx).union(*self._all.values())

    def touched(self, step: str, moment: Moment) -> frozenset[str]:
        """The names that may have been assigned by then."""
        own = {"before": frozenset[str](), "during": self._tasks[step], "end": self._all[step]}[moment]
        once = step not in self._repeated
        others = (
            names
            for name, names in self._all.items()
            if name != step and not (once and self._tree.dominates(step, name))
        )
        return (own if once else self._all[step]).union(*others)

    @cached_property
    def _tree(self) -> Dominators:
        return dominators(self._net)

    @cached_property
    def _repeated(self) -> frozenset[str]:
        """The steps that may fire more than once, or late, and all behind them."""
        circular = {name for cycle in cycles(self._net) for name in cycle}
        again = {step.name for step in self._net.transitions if self._may_repeat(step)}
        return descendants(self._net, circular | again)

    def _may_repeat(self, step: Transition) -> bool:
        several = len(self._net.incoming[step.name]) > 1 and step.join.mode not in _ONCE
        late = step.admit is not None and step.admit.on_deny == "pending"
        return several or late or step.name == self._net.final_step


def in_tasks(tasks: tuple[Task, ...]) -> Iterator[Assignment]:
    """What tasks and their policies assign."""
    for task in tasks:
        yield from task.assigns


def _in_step(step: Transition) -> Iterator[Assignment]:
    yield from step.set
    yield from in_tasks(step.tasks)
    for arc in step.arcs:
        yield from arc.set


def _of_ctx(assignments: Iterator[Assignment]) -> Iterator[str]:
    return (one.name.partition(".")[0] for one in assignments if one.scope == "ctx")
