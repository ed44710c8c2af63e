"""States as JSON and back."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter

from noetl.engine.state import State
from noetl.facts.json import JsonMap


@cache
def _adapter() -> TypeAdapter[State]:
    return TypeAdapter(State)


def to_json(state: State) -> JsonMap:
    """Plain JSON that `from_json` turns into an equal state."""
    value: dict[str, Any] = _adapter().dump_python(state, mode="json")
    return value


def from_json(value: JsonMap) -> State:
    """Raises pydantic.ValidationError where `value` is not a state of this schema."""
    return _adapter().validate_python(value, strict=False)
