"""Snapshots: states as JSON and back, and the newest one that the store has of an execution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from noetl.engine.state import STATE_SCHEMA, State, initial_state
from noetl.facts.json import JsonMap
from noetl.usecases.ports import Transaction

#: Bit sets over the iterations of a loop. Python refuses to read or write decimal numbers of more
#: than 4,300 digits (14,000 iterations), so they are kept as hexadecimal text.
_BITS: Final = ("ended", "failed", "cancelled", "started", "asked")


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


def to_json(state: State) -> JsonMap:
    """Plain JSON that `from_json` turns into an equal state; the same for equal states in every
    process."""
    value: dict[str, Any] = _adapter().dump_python(state, mode="json")
    # Sets stand in one order, whatever the seed of this process's hashes.
    rounds = {
        step: {**one, "arrived": sorted(one["arrived"]), "outstanding": sorted(one["outstanding"])}
        for step, one in value["rounds"].items()
    }
    return _convert_bits({**value, "rounds": rounds}, hex)


def from_json(value: JsonMap) -> State:
    """Raises pydantic.ValidationError where `value` is not a state of this schema."""
    return _adapter().validate_python(_convert_bits(value, lambda text: int(text, 16)), strict=False)


def load_state(tx: Transaction, execution_id: str) -> State:
    """The state of the newest snapshot, or the state before the first event."""
    snapshot = tx.snapshots.get(execution_id)
    if snapshot is None or snapshot.schema != STATE_SCHEMA:
        return initial_state(execution_id)
    return from_json(snapshot.state)


def _convert_bits(value: JsonMap, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy in which the bit sets of all loops are changed; everything else is shared."""
    runs = {name: dict(run) for name, run in value["runs"].items()}
    for run in runs.values():
        if run["loop"] is not None:
            run["loop"] = {**run["loop"], **{bits: change(run["loop"][bits]) for bits in _BITS}}
    return {**value, "runs": runs}
