"""The values that a template reads, for the record of a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from noetl.expressions.follow import into
from noetl.expressions.limits import Meter
from noetl.expressions.members import Callee
from noetl.expressions.names import names_used
from noetl.expressions.refusals import OverLimit, Refusal
from noetl.expressions.rendering import find
from noetl.expressions.results import value_of
from noetl.expressions.undefined import Undefined
from noetl.expressions.values import measure, plain
from noetl.facts.json import Json
from noetl.facts.reference import Load, is_reference
from noetl.facts.secret import called, is_secret

#: What `measure` says of a value is at most so many times the length of its JSON.
_MEASURED: Final = 4


def values_read(
    template: Json,
    names: Mapping[str, Any],
    *,
    guard: bool = False,
    load: Load | None = None,  # noqa: ARG001  # what callers pass to `truth`; nothing is loaded
    limit: int = 256,
) -> dict[str, Json]:
    """Each chain of `names_used`, dotted, with its value now; null where it is undefined.

    A value whose JSON has more than `limit` characters is described (`<list of 1200>`), and so are
    references, which are never loaded, and functions, which are never called. Raises nothing.
    """
    chains = sorted(names_used(template, guard=guard))
    return {".".join(chain): _value(chain, names, limit) for chain in chains}


def _value(chain: tuple[str, ...], names: Mapping[str, Any], limit: int) -> Json:
    try:
        value = find(names, chain[0])
        for part in chain[1:]:
            if is_reference(value_of(value)):
                break
            value = _step(value, part)
        return _brief(value_of(value), limit)
    except Exception as error:  # noqa: BLE001  # a record must not fail what it records
        return f"<unreadable: {type(error).__name__}>"


def _step(value: Any, part: str) -> Any:
    is_list = isinstance(value_of(value), list | tuple) and part.lstrip("-").isdecimal()
    try:
        return into(value, int(part) if is_list else part, None)
    except (Refusal, ValueError):
        return Undefined(part)


def _brief(value: Any, limit: int) -> Json:
    if isinstance(value, Undefined):
        return None
    if is_reference(value):
        return f"<reference {value['ref']}>"[:limit] if "ref" in value else "<list of pages>"
    if is_secret(value):
        return f"<{called(value)}>"
    if isinstance(value, Callee) or callable(value):
        return "<function>"
    if not _is_small(value, limit):
        return _description(value)
    result = plain(value)
    return result if len(json.dumps(result, ensure_ascii=False)) <= limit else _description(value)


def _is_small(value: Any, limit: int) -> bool:
    """Whether `value` may fit; looks at no more than some of its parts, however large it is."""
    try:
        measure(value, Meter(), _MEASURED * limit)
    except OverLimit:
        return False
    return True


def _description(value: Any) -> str:
    if isinstance(value, str):
        return f"<text of {len(value)} characters>"
    if isinstance(value, Mapping | list | tuple):
        return f"<{'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}>"
    return f"<{type(value).__name__}>"
