"""Pages that do not move: a service that gives the same ones for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.errors import LimitExceeded
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Load, open_references
from noetl.net.model import PageKind, Repeat
from noetl.pipeline.model import Calls

#: Keys of a request that say what is asked for, and bring nothing along.
_ASKING: Final = frozenset({"params", "url", "endpoint", "headers"})
#: What to do where the pages, or (None) the calls of `next`, do not move.
_ADVICE: Final[Mapping[PageKind | None, str]] = {
    "page": "name in `param` what the service counts pages by, or say in `stop_when` which page is the last",
    "offset": "name in `param` what the service skips items by, or say in `stop_when` which page is the last",
    "cursor": "name in `param` the parameter that takes the mark, and in `path` where the next one stands",
    "link": "the service's Link header does not move; say in `stop_when` which page is the last",
    None: "let `next` ask for something else, and its `when` end with the last answer",
}


def refuse_standstill(
    repeat: Repeat, calls: Calls, requests: tuple[JsonMap, JsonMap], kept: Json, load: Load
) -> None:
    """Raises LimitExceeded where the same would come until there are too many: `requests` are that
    of the call that has ended behind those of `calls`, and the next one; `kept` is what it adds.

    Who asks for the same again, or keeps the last answer alone, polls."""
    name, number = repeat.call, calls.count + 1
    advice = _ADVICE[None if repeat.pages is None else repeat.pages.by]
    changed = {key for one in repeat.next for key in one.changes}
    is_kept = repeat.collect is not None and repeat.collect.strategy != "replace"
    if repeat.pages is None and not (is_kept and changed):
        return
    if requests[0] == requests[1]:
        raise LimitExceeded(f"{name} {number} leads to itself: {advice}.")
    # An answer to what a call brings along may be the same each time.
    is_page = repeat.pages is not None or changed <= _ASKING
    if is_page and calls.earlier and requests[1] == open_references(calls.earlier, load):
        raise LimitExceeded(f"{name} {number} leads back to one before it: {advice}.")
    if is_page and kept and calls.parts and kept == open_references(calls.parts[-1], load):
        raise LimitExceeded(f"{name} {number} is the same as {name} {calls.count}, and not empty: {advice}.")
