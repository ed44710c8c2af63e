"""The names under which guards know the end of a step or of an iteration."""

from __future__ import annotations

#: Names that show a guard to be about how the step ended: it is asked after failures too.
BOUNDARY = frozenset({"event", "outcome", "output", "error"})

#: How a step ended, most specific name first.
DONE = ("step.done", "call.done", "step.exit")
LOOP_DONE = ("loop.done", "loop.finished", *DONE)
FAILED = ("step.failed", "call.error", "step.exit")
#: The same of one iteration of a loop.
ITERATION_DONE = ("call.done",)
ITERATION_FAILED = ("call.error",)


class BoundaryName(str):
    """The name of a boundary that equals each of its other names: `event.name == 'call.done'`."""

    __slots__ = ("_names",)

    _names: frozenset[str]

    def __new__(cls, names: tuple[str, ...]) -> BoundaryName:
        self = super().__new__(cls, names[0])
        self._names = frozenset(names)
        return self

    def __eq__(self, other: object) -> bool:
        return other in self._names

    def __ne__(self, other: object) -> bool:
        return other not in self._names

    def __hash__(self) -> int:
        return str.__hash__(self)
