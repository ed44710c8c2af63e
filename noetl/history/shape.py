"""Accounts and comparisons as JSON: the objects that `--json` prints and the API answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime

from noetl.facts.json import Json
from noetl.history.differences import Comparison


def as_json(value: object) -> Json:
    """Every field of every account by its name, always there; instants are ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def comparison_as_json(comparison: Comparison) -> dict[str, Json]:
    """The same, with the sentence that sums it up."""
    return {"summary": comparison.summary, **as_json(comparison)}
