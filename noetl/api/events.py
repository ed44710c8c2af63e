"""`/api/executions/{id}/events`: pages of events, or a stream of them (server-sent events)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flask import Response, jsonify, request

from noetl.api.answers import EVENTS
from noetl.api.groups import group
from noetl.api.requests import EventsHeader, EventsQuery, ExecutionPath
from noetl.api.services import MAX_STREAMS, services
from noetl.errors import NoetlError, Unavailable
from noetl.facts.json import Json
from noetl.usecases import inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import envelope

log = logging.getLogger(__name__)

api = group("events", "/api/executions", "What happened")

STREAM = "text/event-stream"
#: Events that a stream reads at once.
BATCH = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream waits for events, in seconds: ever longer while nothing happens."""

    first: float = 0.2
    slowest: float = 1.0
    growth: float = 1.5
    #: A comment goes out after so much silence, so that a client that left is noticed.
    heartbeat: float = 15.0


@api.get("/<execution_id>/events", responses={200: EVENTS})
def events(path: ExecutionPath, query: EventsQuery, header: EventsHeader) -> Response:
    """Read what happened

    As `text/event-stream` (asked for by `Accept`) all events from `Last-Event-ID` or `after` on, as they
    come, until the execution ends: `id` is the version, `event` the type, `data` the event as JSON; the last
    one is `event: end`. Else one page.
    """
    rt = services().rt
    if request.accept_mimetypes.best == STREAM:
        return _stream(rt, path.execution_id, query, header)
    news = inspect.news(rt, path.execution_id, query.after, query.limit + 1, query.types, ask_idle=True)
    page = news.events[: query.limit]
    body = {
        "status": news.row.status,
        "version": news.row.head_version,
        "idle": news.idle,
        "events": [envelope(event) for event in page],
        "next": page[-1].version if len(news.events) > query.limit else None,
    }
    return jsonify(body)


def _stream(rt: Runtime, execution_id: str, query: EventsQuery, header: EventsHeader) -> Response:
    after = int(header.last_event_id) if header.last_event_id else query.after
    # Asked now, while an error can still be answered.
    news = inspect.news(rt, execution_id, after, 1, query.types)
    if header.last_event_id and news.row.status in ENDED and not news.events:
        # Nothing will come: 204 is what keeps a browser from connecting again for ever.
        return Response(status=204)
    places = services().streams
    if not places.acquire(blocking=False):
        raise Unavailable(
            f"All {MAX_STREAMS} event streams of this process are taken; read pages, or try again."
        )
    body = stream(rt, execution_id, after, query.types)
    response = Response(body, mimetype=STREAM, headers={"X-Accel-Buffering": "no"})
    # Not in the generator: one that was never begun would never reach its end.
    response.call_on_close(places.release)
    return response


def stream(
    rt: Runtime,
    execution_id: str,
    after: int,
    types: tuple[str, ...] = (),
    pace: Pace = Pace(),
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Frames of server-sent events behind version `after`, until the execution ends."""
    wait, silence = pace.first, 0.0
    try:
        while True:
            news = inspect.news(rt, execution_id, after, BATCH, types)
            for event in news.events:
                after = event.version
                yield frame(event.fact.type, envelope(event), after)
            if news.events:
                wait, silence = pace.first, 0.0
                continue
            if news.row.status in ENDED:
                yield frame("end", {"execution_id": execution_id, "status": news.row.status})
                return
            sleep(wait)
            silence, wait = silence + wait, min(pace.slowest, wait * pace.growth)
            if silence >= pace.heartbeat:
                silence = 0.0
                yield ": waiting\n\n"
    except NoetlError as error:
        # The answer has begun; the client connects again and goes on behind its Last-Event-ID.
        log.warning("The event stream of execution %s breaks off: %s", execution_id, error)
        yield ": the store does not answer; connect again\n\n"


def frame(kind: str, data: Json, version: int | None = None) -> str:
    """One server-sent event."""
    head = f"id: {version}\n" if version is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
