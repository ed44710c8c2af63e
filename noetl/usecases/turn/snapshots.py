"""States as JSON and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from noetl.engine.state import State
from noetl.facts.json import JsonMap

#: Bit sets over the iterations of a loop. Python refuses to read or write decimal numbers of more than 4,300
#: digits (14,000 iterations), so they are kept as hexadecimal text.
_BITS: Final = ("ended", "failed")


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


def to_json(state: State) -> JsonMap:
    """Plain JSON that `from_json` turns into an equal state; the same for equal states in every process."""
    value: dict[str, Any] = _adapter().dump_python(state, mode="json")
    rounds = {step: _ordered(one) for step, one in value["rounds"].items()}
    return _converted({**value, "rounds": rounds}, hex)


def from_json(value: JsonMap) -> State:
    """Raises pydantic.ValidationError where `value` is not a state of this schema."""
    return _adapter().validate_python(_converted(value, lambda text: int(text, 16)), strict=False)


def _ordered(one: JsonMap) -> JsonMap:
    """A round whose sets stand in one order, whatever the seed of this process's hashes."""
    return {**one, "arrived": sorted(one["arrived"]), "outstanding": sorted(one["outstanding"])}


def _converted(value: JsonMap, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy in which the bit sets of all loops are changed; everything else is shared."""
    runs = {name: dict(run) for name, run in value["runs"].items()}
    for run in _with_loops(runs.values()):
        run["loop"] = {**run["loop"], **{bits: change(run["loop"][bits]) for bits in _BITS}}
    return {**value, "runs": runs}


def _with_loops(runs: Any) -> Iterator[dict[str, Any]]:
    return (run for run in runs if run["loop"] is not None)
