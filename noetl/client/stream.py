"""Server-sent events: lines of the stream as events, and where a stream that broke off goes on."""

from __future__ import annotations

import json
from typing import Final

from noetl.client.core import TRIES, Reply, Request, pause_after, read
from noetl.client.model import Event
from noetl.errors import Unavailable

#: Seconds without any line, the server's heartbeats among them, after which a stream counts as broken.
SILENCE_S: Final = 60.0


class EventStream:
    """Reads the events of one execution in the order of their versions, until it has ended.

    After a break `request()` asks for what comes behind the last event that was read: none is lost or doubled.
    """

    def __init__(self, execution_id: str, after: int = 0, types: tuple[str, ...] = ()) -> None:
        self.ended = False
        self._path = f"/api/executions/{execution_id}/events"
        self._types = types
        self._after = after
        self._failures = 0
        self._version = ""
        self._kind = ""
        self._data: list[str] = []

    def request(self) -> Request:
        """What opens the stream."""
        self._version, self._kind, self._data = "", "", []
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._after)}
        params = {"type": ",".join(self._types)} if self._types else {}
        return Request("GET", self._path, params, headers=headers, timeout_s=SILENCE_S)

    def feed(self, line: str) -> Event | None:
        """Takes one line without its end. An event is complete at the empty line behind it."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._version = value
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "" if not line:
                return self._complete()
        return None

    def _complete(self) -> Event | None:
        version, kind, data = self._version, self._kind, "\n".join(self._data)
        self._version, self._kind, self._data = "", "", []
        if kind == "end":
            self.ended = True
        if not data or not version:
            return None
        self._after, self._failures = int(version), 0
        return Event(self._after, kind, json.loads(data))

    def opened(self, reply: Reply) -> bool:
        """Whether lines follow. 204 says that nothing is to come. Raises what `read` raises for errors that stay."""
        if reply.status == 204:
            self.ended = True
        elif reply.status >= 400 and reply.status not in (502, 503, 504):
            read(reply)
        return reply.status == 200

    def pause(self, reply: Reply) -> float:
        """Seconds to let pass before the stream is opened again. Raises Unavailable after too many failures."""
        if self._failures == TRIES - 1:
            raise Unavailable(f"The stream of events does not come back: {reply.text[:200] or reply.status}.")
        self._failures += 1
        return pause_after(self._failures - 1, reply)
