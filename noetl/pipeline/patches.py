"""Patches: assignments to dotted names, kept so that their order no longer matters.

A patch maps dotted names to values, and no name in it is the beginning of another (`a` and `a.b`
never stand side by side). It may therefore be stored as a JSON object whose keys come back in any
order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from noetl.facts.json import Json, JsonMap, set_path


def assign(patch: JsonMap, name: str, value: Json) -> dict[str, Json]:
    """`patch` after `name = value`: what was assigned below `name` goes, and a name above it takes
    it in."""
    if (above := _above(patch, name)) is not None:
        inner = patch[above] if isinstance(patch[above], Mapping) else {}
        return {**patch, above: set_path(inner, name[len(above) + 1 :], value)}
    below = f"{name}."
    return {**{key: old for key, old in patch.items() if not key.startswith(below)}, name: value}


def extend(patch: JsonMap, later: JsonMap) -> JsonMap:
    """`patch` after every assignment of `later`."""
    if not later:
        return patch
    return reduce(lambda merged, name: assign(merged, name, later[name]), later, patch)


def apply_patch(base: JsonMap, patch: JsonMap) -> JsonMap:
    """`base` as it reads after `patch`; `base` itself where there is nothing to apply."""
    if not patch:
        return base
    made = dict(base)
    # Each mapping is copied once, however many names are below it.
    own: dict[str, dict[str, Json]] = {}
    for name, value in patch.items():
        head, _, last = name.rpartition(".")
        _mapping_at(made, head, own)[last] = value
    return made


def _mapping_at(made: dict[str, Json], name: str, own: dict[str, dict[str, Json]]) -> dict[str, Json]:
    """The mapping that `name` stands for in `made`, copied or made where it is not among its `own`
    yet."""
    if not name:
        return made
    if name not in own:
        head, _, last = name.rpartition(".")
        around = _mapping_at(made, head, own)
        inner = around.get(last)
        own[name] = around[last] = dict(inner) if isinstance(inner, Mapping) else {}
    return own[name]


def _above(patch: JsonMap, name: str) -> str | None:
    end = name.rfind(".")
    while end > 0:
        if (head := name[:end]) in patch:
            return head
        end = name.rfind(".", 0, end)
    return None
