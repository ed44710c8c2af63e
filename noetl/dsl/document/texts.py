"""Texts that may hold expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl.dsl.problems import Path
from noetl.facts.json import Json


def is_template(value: Json) -> bool:
    """Whether a text may hold an expression."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def holds_template(value: Json) -> bool:
    """Whether a template stands anywhere in `value`."""
    if isinstance(value, Mapping):
        return any(map(holds_template, value.values()))
    return any(map(holds_template, value)) if isinstance(value, list) else is_template(value)


def texts_in(template: Json, path: Path, *, guard: bool) -> Iterator[tuple[Path, str]]:
    """Every text in `template`, which stands at `path`, that is rendered, and where it stands."""
    match template:
        case str():
            if guard or is_template(template):
                yield path, template
        case list():
            for index, item in enumerate(template):
                yield from texts_in(item, (*path, index), guard=False)
        case dict():
            for key, item in template.items():
                yield from texts_in(item, (*path, key), guard=False)
