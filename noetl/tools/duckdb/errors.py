"""What DuckDB says of failures."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The cause, without the advice that follows it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
