"""Parts of a document with their paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from noetl.dsl.document.base import Part
from noetl.dsl.problems import Path

#: Parts of a document, each with where it stands.
Parts: TypeAlias = Sequence[tuple[Part, Path]]


def parts_of(document: Part) -> Parts:
    """`document`, and all parts in it; outer ones first."""
    found: list[tuple[Part, Path]] = []
    _collect(document, (), found)
    return found


def _collect(value: Any, path: Path, found: list[tuple[Part, Path]]) -> None:
    match value:
        case Part():
            found.append((value, path))
            fields = type(value).model_fields
            for name in fields.keys() & value.model_fields_set:
                _collect(getattr(value, name), (*path, fields[name].alias or name), found)
        case list():
            for index, item in enumerate(value):
                _collect(item, (*path, index), found)
        case dict():
            for key, item in value.items():
                _collect(item, (*path, key), found)
