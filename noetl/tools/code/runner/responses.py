"""Gives the body of http results a second name, `body` beside `data`, while code runs: one object,
of which the result of a call has one name again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

#: What the result of an http task has at least.
_KEYS: Final = frozenset({"status_code", "headers", "url", "elapsed", "data"})


def add_bodies(value: Any) -> bool:
    """Adds `body` to each result of an http task in `value`, which holds no circle; whether there
    is one."""
    found = [one for one in _mappings(value) if one.keys() >= _KEYS and "body" not in one]
    for one in found:
        one["body"] = one["data"]
    return bool(found)


def remove_bodies(value: Any) -> None:
    """Removes each `body` that is the very object that `data` is."""
    for one in list(_mappings(value)):
        if one.keys() >= _KEYS and one.get("body", _KEYS) is one["data"]:
            del one["body"]


def _mappings(value: Any) -> Iterator[dict[Any, Any]]:
    """All mappings in `value`, each once."""
    pending, seen = [value], set[int]()
    while pending:
        one = pending.pop()
        if isinstance(one, dict | list | tuple) and id(one) not in seen:
            seen.add(id(one))
            pending += one.values() if isinstance(one, dict) else one
            if isinstance(one, dict):
                yield one
