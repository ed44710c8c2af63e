"""One stream for each browser: that executions have changed, so that its pages look again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from flask import Response, request

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.ui.audience import NewsAudience
from noetl.ui.kept_parts import say_moment, say_now
from noetl.ui.site import Visitor, here
from noetl.usecases import moment
from noetl.usecases.ports import Mark
from noetl.usecases.runtime import Runtime

#: Executions that one browser may watch at once.
MOST: Final = 50
#: A comment goes out after so many seconds of silence, so that a browser that left is noticed.
HEARTBEAT_S: Final = 15.0
#: Seconds between two frames to one browser, which looks no oftener either; and how many more for
#: each browser that hears them, because all look again: about some executions, and about any.
PACE_S: Final = 0.1
SHARE_S: Final = 0.01
ALL_SHARE_S: Final = 0.02
#: Seconds, for each browser that hears it, over which they look again: not all at once.
SPREAD_S: Final = 0.01
#: Seconds until it is looked again where the executions have not changed.
REST_S: Final = 0.05


def show_news() -> Response:
    """`/news?all=1&id=…&id=…`: server-sent events. `event: changed`, with the executions that have
    (`{ids}`), whether any has at all (`{any}`), where that was asked for, the moment (`{at}`), and
    the milliseconds over which all who hear it look again (`{spread}`).

    Raises BadRequest where there is nothing to watch, or too much.
    """
    wants_all = request.args.get("all") == "1"
    ids = list(dict.fromkeys(request.args.getlist("id")))
    if len(ids) > MOST or not all(moment.is_id(one) for one in ids):
        raise BadRequest(f"A browser watches up to {MOST} executions, by their ids.")
    visitor = here().find_visitor()
    visible = _find_visible(visitor, ids)
    if not visible and not wants_all:
        raise BadRequest("There is nothing to watch: name an execution (id=…), or all (all=1).")
    frames = follow(visitor.rt, here().audience, visible, wants_all=wants_all)
    return here().open_stream(frames, "pages")


def _find_visible(visitor: Visitor, ids: Sequence[str]) -> list[str]:
    with visitor.rt.store.read() as tx:
        rows = [tx.executions.get(one) for one in ids]
    may = visitor.principal.may
    return [row.execution_id for row in rows if row is not None and may("read", row.path)]


def follow(rt: Runtime, audience: NewsAudience, ids: Sequence[str], *, wants_all: bool) -> Iterator[str]:
    """Frames, for ever, for one more of the audience. The first one says what there is to watch."""
    with rt.store.watch(*(() if wants_all else ids)) as watch, audience.joined():
        known = _look(rt, ids)
        yield _frame("hello", {"ids": list(known), "at": say_now()})
        while True:
            if not watch.wait(HEARTBEAT_S):
                yield ": waiting\n\n"
                continue
            # Those who were woken together are shown the same.
            at, found = say_moment(watch.woken_at), _look(rt, ids)
            changed = [one for one, mark in found.items() if known.get(one) != mark]
            known = found
            if changed or wants_all:
                spread = round(1000 * SPREAD_S * (audience.count - 1))
                yield _frame("changed", {"ids": changed, "any": wants_all, "at": at, "spread": spread})
            # What happens meanwhile is told of then: who commits all the time wakes all the time.
            time.sleep(_find_rest(audience, wants_all) if changed or wants_all else REST_S)


def _find_rest(audience: NewsAudience, wants_all: bool) -> float:
    return PACE_S + audience.count * (ALL_SHARE_S if wants_all else SHARE_S)


def _look(rt: Runtime, ids: Sequence[str]) -> Mapping[str, Mark]:
    if not ids:
        return {}
    with rt.store.read() as tx:
        return tx.executions.marks(ids)


def _frame(kind: str, data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
