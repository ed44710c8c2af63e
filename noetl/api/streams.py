"""`/api/executions/{id}/events` and `/logs`: what happened and what user code printed, in pages or
as a stream (server-sent events)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Final

from flask import Response, jsonify, request

from noetl.api.answers import EventPage, LogPage
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import EventsHeader, EventsQuery, ExecutionPath, LogsQuery
from noetl.errors import NoetlError, Unavailable
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.logs import LogFilter
from noetl.usecases import inspect, logs, waiting
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view, envelope

log = logging.getLogger(__name__)

STREAM: Final = "text/event-stream"
#: Events, and chunks of what was printed, that a stream reads at once.
BATCH: Final = 500
LOG_BATCH: Final = 200

#: A comment goes out after so many seconds of silence, so that a client that left is noticed.
HEARTBEAT_S: Final = 15.0

#: Seconds after which a stream asks again where the store did not answer.
AGAIN_S: Final = 0.5

events_api = group("events", "/api/executions", "What happened")
logs_api = group("logs", "/api/executions", "What user code printed")


def _pages_or_stream(description: str, page: type) -> dict[Any, Any]:
    schema = {"$ref": f"#/components/schemas/{page.__name__}"}
    content = {"application/json": {"schema": schema}, STREAM: {"schema": {"type": "string"}}}
    return {"description": description, "content": content}


@events_api.get("/<execution_id>/events", responses={200: _pages_or_stream("Events in order", EventPage)})
def events(path: ExecutionPath, query: EventsQuery, header: EventsHeader) -> Response:
    """Read what happened

    As `text/event-stream` (asked for by `Accept`) all events from `Last-Event-ID` or `after` on, as
    they come, until the execution ends: `id` is the version, `event` the type, `data` the event as
    JSON; the last one is `event: end`. Else one page; with `wait` it comes once it holds an event,
    or none will come.
    """
    rt, execution_id = services().rt, path.execution_id
    if request.accept_mimetypes.best == STREAM:
        after = header.after(query)
        # Asked now, while an error can still be answered.
        first = inspect.news(rt, execution_id, after, 1, query.types)
        if header.last_event_id and first.row.is_over and not first.events:
            return _end_of_stream()
        return open_stream(stream(rt, execution_id, after, query.types), f"execution {execution_id}")
    news = _read_page(rt, execution_id, query)
    page = news.events[: query.limit]
    body = {
        "status": news.row.status,
        "version": news.row.head_version,
        "idle": news.idle,
        "events": [envelope(event) for event in page],
        "next": page[-1].version if len(news.events) > query.limit else None,
    }
    return jsonify(body)


def _read_page(rt: Runtime, execution_id: str, query: EventsQuery) -> inspect.NewEvents:
    asked = (query.after, query.limit + 1, query.types)
    news = inspect.news(rt, execution_id, *asked, ask_idle=True)
    if not query.wait or news.events or news.row.is_over:
        return news
    with services().places.hold(request.environ):
        return waiting.wait_for_news(rt, execution_id, *asked, query.wait, until_idle=query.until == "idle")


@logs_api.get("/<execution_id>/logs", responses={200: _pages_or_stream("Chunks of text in order", LogPage)})
def read(path: ExecutionPath, query: LogsQuery, header: EventsHeader) -> Response:
    """Read what python and shell tasks printed

    In the order in which it was stored, secrets masked. As `text/event-stream` (asked for by
    `Accept`) all chunks from `Last-Event-ID` or `after` on, as they come, until the execution ends:
    `id` is the number, `event` is `log`, `data` the chunk as JSON; the last one is `event: end`.
    Else one page.
    """
    rt, execution_id = services().rt, path.execution_id
    where = LogFilter(query.step, query.iteration, query.attempt)
    if request.accept_mimetypes.best == STREAM:
        after = header.after(query)
        # Asked now, while an error can still be answered.
        first = logs.page(rt, execution_id, where, after, 1)
        if header.last_event_id and first.is_last and not first.chunks:
            return _end_of_stream()
        return open_stream(log_stream(rt, execution_id, where, after), f"execution {execution_id}")
    if query.last is not None:
        page = logs.end(rt, execution_id, where, query.last)
    else:
        page = logs.page(rt, execution_id, where, query.after, query.limit)
    return jsonify(
        {"status": page.row.status, "chunks": [chunk_view(chunk) for chunk in page.chunks], "next": page.next}
    )


def _end_of_stream() -> Response:
    """Nothing will come: 204 is what keeps a browser from connecting again for ever."""
    return Response(status=204)


def open_stream(frames: Iterator[str], about: str) -> Response:
    """Answers with the frames, which are about that, in a place for requests that wait. Raises
    Unavailable where none is free."""
    places = services().places
    places.take(request.environ)
    response = Response(serve_frames(frames, about), mimetype=STREAM, headers={"X-Accel-Buffering": "no"})
    # Not in the generator: one that was never begun would never reach its end.
    response.call_on_close(places.release)
    return response


def serve_frames(frames: Iterator[str], about: str) -> Iterator[str]:
    """`frames` behind a line that goes out at once: servers hold the headers of an answer back
    until there is some of its body."""
    yield ": connected\n\n"
    try:
        yield from frames
    except NoetlError as error:
        # The answer has begun; the client connects again and resumes behind its Last-Event-ID.
        log.warning("A stream of %s breaks off: %s", about, error)
        yield ": the store does not answer; connect again\n\n"


def stream(
    rt: Runtime,
    execution_id: str,
    after: int,
    types: tuple[str, ...] = (),
    heartbeat_s: float = HEARTBEAT_S,
) -> Iterator[str]:
    """Frames of server-sent events behind version `after`, until the execution ends."""
    with rt.store.watch(execution_id) as watch:
        while True:
            news = _read_behind(rt, execution_id, after, types)
            for event in news.events:
                yield frame(event.fact.type, envelope(event), event.version)
            # What follows a page that is not full is behind what was there: of other types there
            # was nothing to send.
            is_full = len(news.events) == BATCH
            after = news.events[-1].version if is_full else max(after, news.row.head_version)
            if is_full:
                continue
            if news.row.is_over:
                yield frame("end", {"execution_id": execution_id, "status": news.row.status})
                return
            while not watch.wait(heartbeat_s):
                yield ": waiting\n\n"


def _read_behind(rt: Runtime, execution_id: str, after: int, types: tuple[str, ...]) -> inspect.NewEvents:
    """Asks a second time where the store does not answer: what wakes a stream may be that all
    connections of the database end, one after another, this one's among them."""
    try:
        return inspect.news(rt, execution_id, after, BATCH, types)
    except Unavailable:
        time.sleep(AGAIN_S)
        return inspect.news(rt, execution_id, after, BATCH, types)


def log_stream(rt: Runtime, execution_id: str, where: LogFilter, after: int) -> Iterator[str]:
    """Frames of server-sent events behind number `after`, until the execution ends."""
    sent = time.monotonic()
    with rt.store.watch(execution_id) as watch:
        while True:
            page = logs.page(rt, execution_id, where, after, LOG_BATCH)
            for chunk in page.chunks:
                after, sent = chunk.seq, time.monotonic()
                yield frame("log", chunk_view(chunk), after)
            if page.is_last:
                yield frame("end", {"execution_id": execution_id, "status": page.row.status})
                return
            if page.next is None:
                watch.wait(HEARTBEAT_S)
            # Events wake it, too, and many of them may come while nothing is printed.
            if time.monotonic() - sent >= HEARTBEAT_S:
                sent = time.monotonic()
                yield ": waiting\n\n"


def frame(kind: str, data: Json, version: int | None = None) -> str:
    """One server-sent event."""
    head = f"id: {version}\n" if version is not None else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
