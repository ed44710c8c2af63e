"""Every part of a document, with its path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.dsl.document import Part
from noetl.dsl.problems import Path


def parts_of(value: Any, path: Path = ()) -> Iterator[tuple[Part, Path]]:
    """`value`, where it is a part, and those in it; outer ones first."""
    match value:
        case Part():
            yield value, path
            fields = type(value).model_fields
            for name in fields.keys() & value.model_fields_set:
                key = fields[name].alias or name
                yield from parts_of(getattr(value, name), (*path, key))
        case list():
            for index, item in enumerate(value):
                yield from parts_of(item, (*path, index))
        case dict():
            for key, item in value.items():
                yield from parts_of(item, (*path, key))
