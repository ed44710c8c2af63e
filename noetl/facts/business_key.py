"""Business keys: what people call an execution by. Of the open executions of a playbook no two have
the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal

from noetl.facts.json import Json, digits
from noetl.facts.secret import holds_secret

#: Characters of a key.
MOST: Final = 200
#: What becomes of a start whose key an open execution of the playbook has: it is refused, answered
#: with that one, or that one is asked to cancel.
OnConflict = Literal["reject", "return", "cancel_other"]
#: What clients make of them in an address, before it is sent.
_STEPS_OF_PATHS: Final = frozenset({".", ".."})


def read_key(value: Json) -> str:
    """`value` as a key: a text without the spaces around it; a number becomes one. Raises
    ValueError, which completes a sentence that begins with what the key is of."""
    if holds_secret(value):
        raise ValueError("holds a secret, and would show it in every list")
    if value is None:
        raise ValueError("is null")
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError(f"is {_KINDS.get(type(value), 'no text')}, and has to be a text or a number")
    return _check(value.strip() if isinstance(value, str) else _write(value))


_KINDS: Final = {bool: "true or false", list: "a list", dict: "a mapping"}


def _write(number: float | Decimal) -> str:
    try:
        return digits(number) if isinstance(number, Decimal) else str(number)
    except ValueError as error:  # Python writes out no more than some thousand digits
        raise ValueError(f"has more than {MOST} characters") from error


def _check(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    if len(text) > MOST:
        raise ValueError(f"has {len(text)} characters, more than {MOST}")
    odd = next((char for char in text if not char.isprintable()), None)
    if odd is not None:
        raise ValueError(f"holds a character that cannot be printed (U+{ord(odd):04X})")
    if text in _STEPS_OF_PATHS:
        raise ValueError(f"is {text!r}, which means another thing in an address")
    return text
