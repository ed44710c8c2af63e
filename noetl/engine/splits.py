"""Arcs that put down several tokens (`times`)."""

from __future__ import annotations

from noetl.errors import TemplateError
from noetl.facts.brief import brief
from noetl.facts.json import Json, whole
from noetl.net.model import MOST_TIMES


def read_times(place: str, value: Json) -> int:
    """How many tokens `value`, of the template at `place`, means. Raises TemplateError where it is
    no whole number from 1 to MOST_TIMES."""
    number = _whole(value)
    if number is None or not 1 <= number <= MOST_TIMES:
        raise TemplateError(f"{place}: {brief(value)} is no number of tokens; give 1 to {MOST_TIMES:,}.")
    return number


def _whole(value: Json) -> int | None:
    """A whole number, or a text of one."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 9:
        return int(value)
    return whole(value)
