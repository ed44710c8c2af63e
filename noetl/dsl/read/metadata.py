"""What a document calls itself, read no further than that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import yaml
from yaml import events

from noetl.dsl.read.line_ends import parse

Stream: TypeAlias = Iterator[events.Event]


def read_path(text: str) -> str | None:
    """`metadata.path`, else `metadata.name`, as written; None where there is none that can be read.

    The rest of the text may be anything: whether it is a playbook is the compiler's question.
    """
    try:
        return _path(parse(text))
    except (yaml.YAMLError, ValueError):
        # The pure-Python parser lets ValueError escape from impossible \U escapes.
        return None


def _path(stream: Stream) -> str | None:
    for event in stream:
        if isinstance(event, events.MappingStartEvent):
            break
        if isinstance(event, events.NodeEvent):
            return None
    for name, value in _entries(stream):
        if name == "metadata" and isinstance(value, events.MappingStartEvent):
            texts = dict(_texts(stream))
            return texts.get("path") or texts.get("name")
        _skip(value, stream)
    return None


def _texts(stream: Stream) -> Iterator[tuple[str, str]]:
    for name, value in _entries(stream):
        if isinstance(value, events.ScalarEvent):
            yield name, value.value
        _skip(value, stream)


def _entries(stream: Stream) -> Iterator[tuple[str, events.Event]]:
    """Of a mapping that has begun, each key with the first event of its value; the rest of the
    value is left to the caller."""
    for key in stream:
        if isinstance(key, events.MappingEndEvent | events.StreamEndEvent):
            return
        _skip(key, stream)
        yield key.value if isinstance(key, events.ScalarEvent) else "", next(stream, key)


def _skip(first: events.Event, stream: Stream) -> None:
    """Reads to the end of the node that began with `first`."""
    depth = _opens(first)
    while depth > 0 and (event := next(stream, None)) is not None:
        depth += _opens(event)


def _opens(event: events.Event) -> int:
    match event:
        case events.CollectionStartEvent():
            return 1
        case events.CollectionEndEvent():
            return -1
        case _:
            return 0
