"""Rewritten data, and where each part of it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from noetl.dsl.problems import Path
from noetl.facts.json import Json

#: JSON in which any part may be `Rewritten`.
Tree: TypeAlias = Any
#: Path of a part in its rewritten form → path of what it says again. What is not named stands as
#: far below one that is as before, or where it always stood.
Origins: TypeAlias = Mapping[Path, Path]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """`value` says again what stands at `path` of the data that is rewritten."""

    value: Tree
    path: Path


def plain(tree: Tree) -> Json:
    """What `tree` says, wherever it comes from."""
    return settle({"": tree})[0][""]


def settle(tree: Tree) -> tuple[dict[str, Json], Origins]:
    """The plain data of `tree`, and the origins of its parts."""
    origins: dict[Path, Path] = {}

    def unwrap(value: Tree, path: Path) -> Any:
        while isinstance(value, Rewritten):
            # Where one stands directly in another, the inner one knows better.
            origins[path] = value.path
            value = value.value
        match value:
            case dict():
                return {key: unwrap(inner, (*path, key)) for key, inner in value.items()}
            case list():
                return [unwrap(inner, (*path, index)) for index, inner in enumerate(value)]
            case _:
                return value

    return unwrap(tree, ()), origins


def origin(origins: Origins, path: Path) -> Path:
    """What the part at `path` says again."""
    for end in range(len(path), -1, -1) if origins else ():
        found = origins.get(path[:end])
        if found is not None:
            return (*found, *path[end:])
    return path


def value_at(data: Any, path: Path, missing: Any = None) -> Any:
    """What stands at `path`; `missing` where nothing does."""
    for key in path:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            return missing
    return data
