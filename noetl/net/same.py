"""Whether two nets say the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from noetl.net.model import Assignment, Net

#: Fields that say where something stands in its file, not what it is.
_POSITIONS: Final = frozenset({"line", "lines", "file"})


def same_net(one: Net, other: Net) -> bool:
    """Whether two nets say the same, wherever it stands in their files.

    The order in which one `set` assigns different names does not count either: keys have no order.
    """
    return bool(_meaning(one) == _meaning(other))


def _meaning(value: Any) -> Any:
    if isinstance(value, tuple):
        items = [_meaning(item) for item in value]
        if value and all(isinstance(item, Assignment) for item in value):
            items.sort(key=lambda item: (item["scope"], item["name"]))
        return items
    if isinstance(value, Mapping):
        return {key: _meaning(item) for key, item in value.items()}
    if is_dataclass(value):
        return {
            field.name: _meaning(getattr(value, field.name))
            for field in fields(value)
            if field.name not in _POSITIONS
        }
    return value
