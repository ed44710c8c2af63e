"""Rows of tables, their columns, and the values that several tables share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo

#: `id` is a number below 2^63, a string in JSON; `instant` is UTC, to the microsecond; `json` is
#: any JSON value.
ColumnType: TypeAlias = Literal["id", "integer", "double", "boolean", "text", "instant", "json"]


@dataclass(frozen=True, slots=True)
class ProjectionColumn:
    """`required`: never null."""

    name: str
    type: ColumnType
    meaning: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class ProjectionTable:
    """`key` names one thing. Rows of a table that is `revised` come again with a greater `as_of`;
    those of others never change."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[ProjectionColumn, ...]
    revised: bool = False


@dataclass(frozen=True, slots=True)
class ProjectionRow:
    """One row of `table`. Values are JSON: instants are ISO 8601 in UTC, ids decimal strings."""

    table: str
    values: Mapping[str, Json]


NO_ERROR: Final[dict[str, Json]] = {"error_kind": None, "error_message": None, "error": None}


def error_columns(error: ErrorInfo | None) -> dict[str, Json]:
    """`error_kind`, `error_message` and `error`."""
    if error is None:
        return NO_ERROR
    return {"error_kind": error.kind, "error_message": error.message, "error": error.as_json()}


def milliseconds(begin: str, end: datetime) -> float:
    """From `begin` (ISO 8601) to `end`, to the microsecond."""
    return round((end - datetime.fromisoformat(begin)).total_seconds() * 1000, 3)
