"""References to results that are too large for the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from noetl.facts.json import Json, JsonMap, set_path

#: The value of `kind` in the mapping that stands for a result kept outside of the log.
RESULT_REF = "result_ref"


def is_reference(value: Json) -> bool:
    """Whether `value` is `{kind: result_ref, ref: noetl://…, …}`."""
    return (
        isinstance(value, Mapping) and value.get("kind") == RESULT_REF and isinstance(value.get("ref"), str)
    )


class Load(Protocol):
    """Fetches what a reference stands for. Content-addressed, hence the same at every replay."""

    def __call__(self, reference: Mapping[str, Any], /) -> Json: ...


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


def assigned_below(
    store: JsonMap,
    name: str,
    value: Json,
    load: Load | None,
    is_large: Callable[[Json], bool] = lambda _: False,
) -> tuple[str, Json]:
    """The assignment `name = value` to `store`, where `name` is dotted: what it changes a part of is opened
    if it is a reference, and assigned as a whole if it is one or will be. Raises what `load` raises."""
    parts = name.split(".")
    inner: Json = store
    for depth, part in enumerate(parts[:-1], 1):
        inner = inner.get(part) if isinstance(inner, Mapping) else None
        if not isinstance(inner, Mapping) or not (is_reference(inner) or is_large(inner)):
            continue
        whole = load(inner) if is_reference(inner) and load is not None else inner
        rest = ".".join(parts[depth:])
        return ".".join(parts[:depth]), set_path(whole if isinstance(whole, Mapping) else {}, rest, value)
    return name, value
