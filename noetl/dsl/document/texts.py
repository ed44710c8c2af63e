"""Texts that may hold expressions."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.facts.json import Json


def is_template(value: Json) -> bool:
    """Whether a text may hold an expression."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def holds_template(value: Json) -> bool:
    """Whether a template stands anywhere in `value`."""
    if isinstance(value, Mapping):
        return any(map(holds_template, value.values()))
    return any(map(holds_template, value)) if isinstance(value, list) else is_template(value)
