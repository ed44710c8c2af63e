"""Guards that are made of guards: both hold, one does not hold."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from noetl.errors import TemplateError
from noetl.expressions import names_used

#: As `when` has it: None and true always hold.
Guard: TypeAlias = bool | str | None

_WHOLE: Final = re.compile(r"\s*\{\{-?((?:(?!\{\{|\}\}|\{%).)*?)-?\}\}\s*", re.DOTALL)


class NotOneExpressionError(Exception):
    """A guard that is text with templates in it: nothing can be put around it."""


def both(*guards: Guard) -> Guard:
    """Holds where all of `guards` do. Raises NotOneExpressionError where two have to be put together and one is no
    single expression."""
    asked = [guard for guard in guards if guard is not None and guard is not True]
    if False in asked:
        return False
    if len(asked) < 2:
        return asked[0] if asked else None
    return "{{ " + " and ".join(f"({_expression(str(guard))})" for guard in asked) + " }}"


def none_of(guards: list[Guard]) -> Guard:
    """Holds where none of `guards` does. Raises NotOneExpressionError."""
    asked = [guard for guard in guards if guard is not False]
    if any(guard is None or guard is True for guard in asked):
        return False
    if not asked:
        return None
    return "{{ " + " and ".join(f"not ({_expression(str(guard))})" for guard in asked) + " }}"


def heads(guard: Guard) -> frozenset[str]:
    """The names that it begins its chains with; none where it cannot be read."""
    if not isinstance(guard, str):
        return frozenset()
    try:
        return frozenset(chain[0] for chain in names_used(guard, guard=True))
    except TemplateError:
        # The compiler reports it where it stands.
        return frozenset()


def _expression(guard: str) -> str:
    """What stands between the braces, or the guard itself where it has none."""
    found = _WHOLE.fullmatch(guard)
    if found is not None:
        return found.group(1).strip()
    if "{{" in guard or "{%" in guard or "{#" in guard or not guard.strip():
        raise NotOneExpressionError
    return guard.strip()
