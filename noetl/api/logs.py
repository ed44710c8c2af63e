"""`/api/executions/{id}/logs`: what user code printed, in pages or as a stream (server-sent
events)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Final

from flask import Response, jsonify, request

from noetl.api.answers import LOGS
from noetl.api.events import HEARTBEAT_S, STREAM, frame, open_stream
from noetl.api.groups import group
from noetl.api.requests import EventsHeader, ExecutionPath, LogsQuery
from noetl.api.services import services
from noetl.errors import NoetlError
from noetl.facts.logs import LogFilter
from noetl.usecases import logs
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

log = logging.getLogger(__name__)

api = group("logs", "/api/executions", "What user code printed")

#: Chunks that a stream reads at once.
BATCH: Final = 200


@api.get("/<execution_id>/logs", responses={200: LOGS})
def read(path: ExecutionPath, query: LogsQuery, header: EventsHeader) -> Response:
    """Read what python and shell tasks printed

    In the order in which it was stored, secrets masked. As `text/event-stream` (asked for by
    `Accept`) all chunks from `Last-Event-ID` or `after` on, as they come, until the execution ends:
    `id` is the number, `event` is `log`, `data` the chunk as JSON; the last one is `event: end`.
    Else one page.
    """
    rt = services().rt
    where = LogFilter(query.step, query.iteration, query.attempt)
    if request.accept_mimetypes.best == STREAM:
        after = int(header.last_event_id) if header.last_event_id else query.after
        return _stream(rt, path.execution_id, where, after, again=bool(header.last_event_id))
    if query.last is not None:
        page = logs.end(rt, path.execution_id, where, query.last)
    else:
        page = logs.page(rt, path.execution_id, where, query.after, query.limit)
    chunks = [chunk_view(chunk) for chunk in page.chunks]
    return jsonify({"status": page.row.status, "chunks": chunks, "next": page.next})


def _stream(rt: Runtime, execution_id: str, where: LogFilter, after: int, *, again: bool) -> Response:
    # Asked now, while an error can still be answered.
    first = logs.page(rt, execution_id, where, after, 1)
    if again and first.is_last and not first.chunks:
        # Nothing will come: 204 is what keeps a browser from connecting again for ever.
        return Response(status=204)
    return open_stream(stream(rt, execution_id, where, after))


def stream(
    rt: Runtime,
    execution_id: str,
    where: LogFilter,
    after: int,
) -> Iterator[str]:
    """Frames of server-sent events behind number `after`, until the execution ends."""
    said = time.monotonic()
    try:
        with rt.store.watch(execution_id) as watch:
            while True:
                page = logs.page(rt, execution_id, where, after, BATCH)
                for chunk in page.chunks:
                    after, said = chunk.seq, time.monotonic()
                    yield frame("log", chunk_view(chunk), after)
                if page.is_last:
                    yield frame("end", {"execution_id": execution_id, "status": page.row.status})
                    return
                if page.next is None:
                    watch.wait(HEARTBEAT_S)
                # Events wake it, too, and many of them may come while nothing is printed.
                if time.monotonic() - said >= HEARTBEAT_S:
                    said = time.monotonic()
                    yield ": waiting\n\n"
    except NoetlError as error:
        # The answer has begun; the client connects again and goes on behind its Last-Event-ID.
        log.warning("The log stream of execution %s breaks off: %s", execution_id, error)
        yield ": the store does not answer; connect again\n\n"
