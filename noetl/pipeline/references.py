"""Opening references: what a call is handed holds the values themselves."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.facts.json import Json
from noetl.facts.reference import Load, is_reference


def opened(value: Json, load: Load) -> Json:
    """`value` with every reference in it, at any depth, replaced by what it stands for.

    What holds no reference is handed back as it is, not copied. Raises what `load` raises.
    """
    return _replaced(value, load) if holds_reference(value) else value


def holds_reference(value: Json) -> bool:
    """Whether a reference stands anywhere in `value`, however deep (without recursion)."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            if is_reference(current):
                return True
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
    return False


def _replaced(value: Json, load: Load) -> Json:
    if isinstance(value, Mapping):
        if is_reference(value):
            return opened(load(value), load)
        return {key: _replaced(item, load) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, load) for item in value]
    return value
