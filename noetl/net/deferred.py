"""Guards in the configuration of a task that are asked later than its call
(`KindInfo.deferred`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from noetl.facts.json import Json
from noetl.net.tasks import Template

#: What such a guard is asked about: the signal that has come.
SIGNAL: Final = "signal"
#: Keys under which only data stands, whatever its own keys are called.
DATA: Final = frozenset({"show", "match", "form"})


def find_guards(template: Template, keys: Collection[str]) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """The texts under one of `keys`, wherever they stand in `template`, with their paths."""
    match template:
        case Mapping():
            for key, value in template.items():
                if key in keys and isinstance(value, str):
                    yield (key,), value
                elif key not in DATA:
                    yield from (((key, *path), text) for path, text in find_guards(value, keys))
        case list() | tuple():
            for index, value in enumerate(template):
                yield from (((index, *path), text) for path, text in find_guards(value, keys))
        case _:
            return


def without_guards(template: Template, keys: Collection[str]) -> Template:
    """`template` with null in the place of such texts."""
    match template:
        case Mapping():
            return {key: _bare(key, value, keys) for key, value in template.items()}
        case list() | tuple():
            return [without_guards(value, keys) for value in template]
        case _:
            return template


def _bare(key: str, value: Template, keys: Collection[str]) -> Template:
    if key in DATA:
        return value
    return None if key in keys and isinstance(value, str) else without_guards(value, keys)
