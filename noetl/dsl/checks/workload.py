"""The workload: values that name each other in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeAlias

from noetl.dsl.checks.subject import Subject
from noetl.dsl.checks.templates import FOR_WORKLOAD
from noetl.dsl.problems import Code, Finding
from noetl.expressions import names_used
from noetl.facts.json import Json, JsonMap

#: Where a value stands in the workload: keys of mappings. A list is one value, with all that is in
#: it.
_Place: TypeAlias = tuple[str, ...]

#: Circles that are told of one playbook.
_MOST: Final = 20
#: Values of a circle that a message names.
_SHOWN: Final = 10


def check_circles(subject: Subject) -> Iterator[Finding]:
    """Values that name each other: a run ends there, unless its payload gives one of them."""
    workload = subject.document.workload or {}
    named = {place: set(_named(workload, place, value)) for place, value in _values(workload, ())}
    for _ in range(_MOST):
        try:
            TopologicalSorter(named).prepare()
            return
        except CycleError as error:
            # From who is named to who names it, the first once more at the end.
            circle = tuple(reversed(error.args[1]))
        start = min(circle)
        turned = circle[circle.index(start) : -1] + circle[: circle.index(start) + 1]
        shown = [".".join(place) for place in turned]
        names = " → ".join(shown if len(shown) <= _SHOWN else [*shown[: _SHOWN - 2], "…", shown[-1]])
        yield Finding(
            Code.CIRCLE,
            ("workload", *start),
            f"values refer to each other in a circle: {names}",
            "write one of them out; a run goes on only where its payload gives one",
        )
        named[start] = set()


def _values(value: Json, place: _Place) -> Iterator[tuple[_Place, Json]]:
    if place:
        yield place, value
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _values(inner, (*place, key))


def _named(workload: JsonMap, place: _Place, value: Json) -> Iterator[_Place]:
    """The values that the one at `place` waits for."""
    if isinstance(value, Mapping):
        yield from ((*place, key) for key in value)
        return
    for chain in names_used(value):
        if chain == ("workload",):
            yield from ((key,) for key in workload if key != place[0])
        elif chain[0] == "workload" or chain[0] not in FOR_WORKLOAD:
            found = _place(workload, chain[chain[0] == "workload" :])
            # Which of its neighbours it means may be computed.
            # A text that names itself means what the payload gives.
            own = found == place and isinstance(value, str)
            if found and not own and not (len(found) < len(place) and place[: len(found)] == found):
                yield found


def _place(workload: JsonMap, chain: tuple[str, ...]) -> _Place:
    """How far a chain leads through the workload's mappings; empty where one does not have its next
    name."""
    value: Json = workload
    for depth, part in enumerate(chain):
        if not isinstance(value, Mapping):
            return chain[:depth]
        if part not in value:
            return ()
        value = value[part]
    return chain
