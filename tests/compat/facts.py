"""What events say: the names of their fields, and of those of the records in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from noetl.facts.events import Fact


def fields_of_events() -> dict[str, list[str]]:
    """By the type of an event, or the name of a record in one."""
    found: dict[str, list[str]] = {}
    pending: list[Any] = list(get_args(Fact))
    while pending:
        record = pending.pop()
        name = name_of(record)
        if name not in found:
            found[name] = [field.name for field in fields(record)]
            hints = get_type_hints(record)
            pending += [one for field in fields(record) for one in _records_in(hints[field.name])]
    return found


def name_of(record: type[Any]) -> str:
    """The type of an event; of another record its own name."""
    return record.type if record in get_args(Fact) else record.__name__


def _records_in(hint: Any) -> Iterator[Any]:
    if isinstance(hint, type) and is_dataclass(hint):
        yield hint
    for arm in get_args(hint):
        yield from _records_in(arm)
