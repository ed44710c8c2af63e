"""Loops of steps and of tasks: what they go over, how often, and how wide."""

from __future__ import annotations

from noetl.facts.reference import as_items
from noetl.forecast.model import LoopAhead, Rendered
from noetl.forecast.sight import Sight, rendered
from noetl.net.model import Loop, Template


def loop_ahead(loop: Loop, sight: Sight, max_in_flight: int) -> LoopAhead:
    """`max_in_flight` is the width of parallel loops that name none."""
    collection = rendered(loop.collection, sight)
    known = collection.known and loop.cursor is None
    width: Template = 1 if loop.mode == "sequential" else loop.max_in_flight
    wide = rendered(max_in_flight if width is None else width, sight)
    return LoopAhead(
        iterator=loop.iterator,
        mode=_mode(loop, wide),
        collection=collection,
        width=wide,
        count=as_items(collection.worlds[0], None)[0] if known else None,
        cursor=loop.cursor.kind if loop.cursor is not None else None,
    )


def _mode(loop: Loop, width: Rendered) -> str:
    """Where it is left to a width that is not known yet, it may come to either."""
    if loop.mode != "cursor":
        return loop.mode
    return "sequential" if width.known and str(width.worlds[0]) == "1" else "parallel"
