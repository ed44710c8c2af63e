"""Names that templates of the tests read."""

from __future__ import annotations

from typing import Any

NAMES: dict[str, Any] = {
    "n": 3,
    "pi": 3.5,
    "yes": True,
    "null": None,
    "s": "abc",
    "xs": [3, 1, 2],
    "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 1, "b": "z"}],
    "d": {"k": 1, "items": [1, 2], "nested": {"keys": "mine"}, "none": None},
    "text": "Grüße 'x' <b>",
}
