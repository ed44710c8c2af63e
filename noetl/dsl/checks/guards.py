"""What a guard says whatever the values are."""

from __future__ import annotations

import re
from typing import Final

from noetl import expressions
from noetl.errors import TemplateError
from noetl.net.model import Arc, Template

# Constants and operators that cost nothing: no calls, filters, powers or formats.
_SIMPLE: Final = re.compile(r"[^(|*%~]{1,60}")


def always(when: Template) -> bool | None:
    """Whether a guard holds or not, whatever the values are; None where it depends on them. No
    guard holds."""
    if when is None or isinstance(when, bool):
        return when is not False
    if not isinstance(when, str) or not _SIMPLE.fullmatch(when) or not when.strip():
        return None
    if expressions.names_used(when, guard=True) or expressions.check(when, guard=True):
        return None
    try:
        return expressions.truth(when, {})
    except TemplateError:
        return None


def fixed(arc: Arc) -> bool | None:
    """`always`, of an arc."""
    return always(arc.when)
