"""Errors in the columns that several tables share."""

from __future__ import annotations

from typing import Final

from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo

NO_ERROR: Final[dict[str, Json]] = {"error_kind": None, "error_message": None, "error": None}


def error_columns(error: ErrorInfo | None) -> dict[str, Json]:
    """`error_kind`, `error_message` and `error`."""
    if error is None:
        return NO_ERROR
    return {"error_kind": error.kind, "error_message": error.message, "error": error.as_json()}
