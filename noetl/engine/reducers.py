"""Reducers: how the ctx writes of parallel iterations become one value, in item order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.errors import TemplateError
from noetl.facts.json import Json
from noetl.facts.reference import loaded, plain


def reduce_writes(
    reducers: Mapping[str, str], writes: Iterable[Json], ctx: Json, inputs: Inputs
) -> dict[str, Json]:
    """ctx name → value: what the iterations wrote ((name, value) pairs for each), folded onto what
    ctx has.

    Raises TemplateError where values do not fit their reducer.
    """
    folded: dict[str, Json] = {}
    for pairs in writes:
        for name, value in pairs or ():
            before = folded[name] if name in folded else _load(_at(ctx, name), inputs)
            folded[name] = reduce_value(reducers[name], before, _load(value, inputs), name)
    return {name: inputs.hold(value) for name, value in folded.items()}


def _at(ctx: Json, path: str) -> Json:
    for key in path.split("."):
        ctx = ctx.get(key) if isinstance(ctx, Mapping) else None
    return ctx


def _load(value: Json, inputs: Inputs) -> Json:
    return value if inputs.load is None else plain(loaded(value, inputs.load))


def reduce_value(reducer: str, before: Json, value: Json, name: str = "x") -> Json:
    """One write folded onto what was there; null counts as nothing (but `append` and `last` keep
    it). Raises TemplateError where the two cannot be folded."""
    match reducer:
        case "last":
            return value
        case "append":
            return [*_as(list, reducer, name, before), value]
        case "merge":
            return {**_as(dict, reducer, name, before), **_as(dict, reducer, name, value)}
    if before is None or value is None:
        return value if before is None else before
    try:
        return _NUMERIC[reducer](before, value)
    except TypeError as error:
        message = f"The reducer `{reducer}` of ctx.{name} cannot fold {value!r:.60} onto {before!r:.60}."
        raise TemplateError(message) from error


_NUMERIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "sum": lambda before, value: before + value,
    "min": min,
    "max": max,
}


def _as(kind: type[Any], reducer: str, name: str, value: Json) -> Any:
    """`value` as the list or mapping that the reducer works on; null is an empty one."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "mappings"
        raise TemplateError(f"The reducer `{reducer}` of ctx.{name} needs {wanted}, not {value!r:.60}.")
    return value
