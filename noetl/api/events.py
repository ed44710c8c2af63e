"""`/api/executions/{id}/events`: pages of events, or a stream of them (server-sent events)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator

from flask import Response, jsonify, request

from noetl.api.answers import EVENTS
from noetl.api.groups import group
from noetl.api.requests import EventsHeader, EventsQuery, ExecutionPath
from noetl.api.services import services
from noetl.errors import NoetlError, Unavailable
from noetl.facts.json import Json
from noetl.usecases import inspect, waiting
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import envelope

log = logging.getLogger(__name__)

api = group("events", "/api/executions", "What happened")

STREAM = "text/event-stream"
#: Events that a stream reads at once.
BATCH = 500


#: A comment goes out after so many seconds of silence, so that a client that left is noticed.
HEARTBEAT_S = 15.0

#: Seconds after which a stream asks again where the store did not answer.
AGAIN_S = 0.5


@api.get("/<execution_id>/events", responses={200: EVENTS})
def events(path: ExecutionPath, query: EventsQuery, header: EventsHeader) -> Response:
    """Read what happened

    As `text/event-stream` (asked for by `Accept`) all events from `Last-Event-ID` or `after` on, as
    they come, until the execution ends: `id` is the version, `event` the type, `data` the event as
    JSON; the last one is `event: end`. Else one page; with `wait` it comes once it holds an event,
    or none will come.
    """
    rt = services().rt
    if request.accept_mimetypes.best == STREAM:
        return _stream(rt, path.execution_id, query, header)
    news = _news(rt, path.execution_id, query)
    page = news.events[: query.limit]
    body = {
        "status": news.row.status,
        "version": news.row.head_version,
        "idle": news.idle,
        "events": [envelope(event) for event in page],
        "next": page[-1].version if len(news.events) > query.limit else None,
    }
    return jsonify(body)


def _news(rt: Runtime, execution_id: str, query: EventsQuery) -> inspect.News:
    asked = (query.after, query.limit + 1, query.types)
    news = inspect.news(rt, execution_id, *asked, ask_idle=True)
    if not query.wait or news.events or news.row.status in ENDED:
        return news
    with services().places.held(request.environ):
        return waiting.news(rt, execution_id, *asked, query.wait, until_idle=query.until_idle)


def _stream(rt: Runtime, execution_id: str, query: EventsQuery, header: EventsHeader) -> Response:
    after = int(header.last_event_id) if header.last_event_id else query.after
    # Asked now, while an error can still be answered.
    news = inspect.news(rt, execution_id, after, 1, query.types)
    if header.last_event_id and news.row.status in ENDED and not news.events:
        # Nothing will come: 204 is what keeps a browser from connecting again for ever.
        return Response(status=204)
    return open_stream(stream(rt, execution_id, after, query.types))


def open_stream(frames: Iterator[str]) -> Response:
    """The answer to whoever streams `frames`."""
    places = services().places
    places.take(request.environ)
    response = Response(_announce(frames), mimetype=STREAM, headers={"X-Accel-Buffering": "no"})
    # Not in the generator: one that was never begun would never reach its end.
    response.call_on_close(places.release)
    return response


def _announce(frames: Iterator[str]) -> Iterator[str]:
    """A line before anything happens: servers hold the headers of an answer back until there is
    some of its body."""
    yield ": connected\n\n"
    yield from frames


def stream(
    rt: Runtime,
    execution_id: str,
    after: int,
    types: tuple[str, ...] = (),
    heartbeat_s: float = HEARTBEAT_S,
) -> Iterator[str]:
    """Frames of server-sent events behind version `after`, until the execution ends."""
    try:
        with rt.store.watch(execution_id) as watch:
            while True:
                news = _read_behind(rt, execution_id, after, types)
                for event in news.events:
                    yield frame(event.fact.type, envelope(event), event.version)
                # What follows a page that is not full is behind what was there: of other types
                # there was nothing to tell.
                is_full = len(news.events) == BATCH
                after = news.events[-1].version if is_full else max(after, news.row.head_version)
                if is_full:
                    continue
                if news.row.status in ENDED:
                    yield frame("end", {"execution_id": execution_id, "status": news.row.status})
                    return
                while not watch.wait(heartbeat_s):
                    yield ": waiting\n\n"
    except NoetlError as error:
        # The answer has begun; the client connects again and goes on behind its Last-Event-ID.
        log.warning("The event stream of execution %s breaks off: %s", execution_id, error)
        yield ": the store does not answer; connect again\n\n"


def _read_behind(rt: Runtime, execution_id: str, after: int, types: tuple[str, ...]) -> inspect.News:
    """Asks a second time where the store does not answer: what wakes a stream may be that all
    connections of the database end, one after another, this one's among them."""
    try:
        return inspect.news(rt, execution_id, after, BATCH, types)
    except Unavailable:
        time.sleep(AGAIN_S)
        return inspect.news(rt, execution_id, after, BATCH, types)


def frame(kind: str, data: Json, version: int | None = None) -> str:
    """One server-sent event."""
    head = f"id: {version}\n" if version is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
