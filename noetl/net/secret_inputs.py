"""Where secrets stand in what is given: found, and replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from noetl.facts.json import Json, JsonMap
from noetl.net.input_values import stands_for_another
from noetl.net.inputs import Input


def has_secrets(inputs: Sequence[Input]) -> bool:
    """Whether any of them, or anything in them, is a secret."""
    return any(_holds_secret(one) for one in inputs)


def _holds_secret(one: Input) -> bool:
    return one.secret or has_secrets(one.properties) or (one.items is not None and _holds_secret(one.items))


def replace_secrets(
    inputs: Sequence[Input], given: JsonMap, make: Callable[[str, Json], Json], above: str = ""
) -> dict[str, Json]:
    """`given`, in which `make` says what stands in the place of the secret at a path; references
    stay."""
    declared = {one.name: one for one in inputs if _holds_secret(one)}
    return {
        key: _replace_secret(declared[key], value, make, f"{above}{key}") if key in declared else value
        for key, value in given.items()
    }


def _replace_secret(one: Input, value: Json, make: Callable[[str, Json], Json], path: str) -> Json:
    if value is None or stands_for_another(value):
        return value
    if one.secret:
        return make(path, value)
    if one.items is not None and isinstance(value, list):
        items = one.items
        return [_replace_secret(items, item, make, f"{path}[{index}]") for index, item in enumerate(value)]
    return replace_secrets(one.properties, value, make, f"{path}.") if isinstance(value, Mapping) else value


def find_open_secrets(inputs: Sequence[Input], given: JsonMap) -> list[str]:
    """The paths of secrets whose values stand in `given` as they are."""
    found: list[str] = []
    replace_secrets(inputs, given, lambda path, _value: found.append(path))
    return found
