"""Patterns of texts, matched in time that grows with the text and not with what the pattern could
try: the engine does not backtrack, and so has no look-around and no back-references."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

#: Characters of a pattern.
LONGEST_PATTERN: Final = 1_000


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


def matches(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`. Raises ValueError where it is no pattern."""
    try:
        _matcher(pattern).validate_python(text)
    except SchemaError as error:
        raise ValueError(pattern) from error
    except ValidationError:
        return False
    return True


def pattern_fault(pattern: str) -> str:
    """Why it is no pattern; empty where it is one."""
    if len(pattern) > LONGEST_PATTERN:
        return f"it has more than {LONGEST_PATTERN:,} characters"
    try:
        _matcher(pattern)
    except SchemaError as error:
        return _reason(str(error))
    return ""


def _reason(said: str) -> str:
    """The last sentence of what the engine says, which draws the pattern before."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    found = next((line for line in reversed(lines) if "error:" in line), lines[-1])
    return found.partition("error:")[2].strip().strip('"') or found
