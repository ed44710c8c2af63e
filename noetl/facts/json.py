"""The JSON data model, as far as static types can say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

#: null, booleans, numbers, strings, lists and mappings with string keys.
Json: TypeAlias = Any
#: A JSON object.
JsonMap: TypeAlias = Mapping[str, Any]


def deep_merge(base: Json, over: Json) -> Json:
    """`over` on top of `base`: mappings merge key by key, everything else is replaced."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = dict(base)
        for key, value in over.items():
            merged[key] = deep_merge(base[key], value) if key in base else value
        return merged
    return over


def set_path(target: JsonMap, path: str, value: Json) -> dict[str, Json]:
    """A copy of `target` in which the dotted `path` holds `value`; missing mappings are made."""
    head, _, rest = path.partition(".")
    copy = dict(target)
    inner = copy.get(head)
    copy[head] = set_path(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    return copy


def assign(target: JsonMap, patch: JsonMap) -> JsonMap:
    """`target` after the assignments of `patch` (dotted name → value), in order."""
    for path, value in patch.items():
        target = set_path(target, path, value)
    return target


def canonical(value: Json) -> str:
    """The one text that equal values have: compact, keys in order. Raises ValueError for what no
    JSON holds, such as NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
