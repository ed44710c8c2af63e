"""Server-sent events: lines of a stream as what they stand for, and where a stream that broke off
goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from noetl.client.core import (
    LONGEST_PAUSE_S,
    PASSING,
    TOO_MANY,
    Reply,
    Request,
    execution_path,
    make_params,
    pause_after,
    read,
)
from noetl.client.model import Event, LogChunk
from noetl.errors import Unavailable
from noetl.facts import json
from noetl.facts.json import JsonMap

#: Seconds without any line, the server's heartbeats among them, after which a stream counts as
#: broken.
SILENCE_S: Final = 60.0

E = TypeVar("E")


class Stream(Generic[E]):
    """Reads what a stream of an execution brings, in the order of its numbers, until the execution
    has ended.

    After a break `request()` asks for what comes behind the last one that was read: none is lost or
    doubled.
    """

    def __init__(
        self, path: str, params: dict[str, str], after: int, read_as: Callable[[JsonMap], E]
    ) -> None:
        self.ended = False
        self._path = path
        self._params = params
        self._after = after
        self._read_as = read_as
        self._failures = 0
        self._number = ""
        self._kind = ""
        self._data: list[str] = []

    def request(self) -> Request:
        """What opens the stream."""
        self._number, self._kind, self._data = "", "", []
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(self._after)}
        return Request("GET", self._path, self._params, headers=headers, timeout_s=SILENCE_S)

    def feed(self, line: str) -> E | None:
        """Takes one line without its end. What is read is complete at the empty line behind it."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "id":
                self._number = value
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "" if not line:
                return self._complete()
        return None

    def _complete(self) -> E | None:
        number, kind, data = self._number, self._kind, "\n".join(self._data)
        self._number, self._kind, self._data = "", "", []
        if kind == "end":
            self.ended = True
        if not data or not number:
            return None
        self._after, self._failures = int(number), 0
        return self._read_as(json.loads_exactly(data))

    def accept(self, reply: Reply) -> bool:
        """Whether lines follow. 204 says that nothing is to come. Raises what `read` raises for
        errors that stay."""
        if reply.status == 204:
            self.ended = True
        elif reply.status >= 400 and reply.status not in PASSING:
            read(reply)
        return reply.status == 200

    def pause(self, reply: Reply, tries: int) -> float:
        """Seconds to let pass before the stream is opened again. Raises Unavailable after so many
        failures, TooManyRequests where it would take too long."""
        pause_s = pause_after(self._failures, reply)
        if reply.status == TOO_MANY and (self._failures >= tries - 1 or pause_s > LONGEST_PAUSE_S):
            read(reply)
        if self._failures >= tries - 1:
            raise Unavailable(f"The stream does not come back: {_reason(reply)}")
        self._failures += 1
        return pause_s


def _reason(reply: Reply) -> str:
    if reply.status < 400:
        return reply.text
    try:
        read(reply)
    except Unavailable as error:
        return error.message
    return f"{reply.url} answered {reply.status}."


def events(execution_id: str, after: int = 0, types: Sequence[str] = ()) -> Stream[Event]:
    """Yields events behind the version `after` as they happen, until the execution has ended.

    A connection that breaks is made again, and goes on behind the last event. Raises Unavailable.
    """
    return Stream(
        execution_path(execution_id, "/events"), make_params(type=",".join(types) or None), after, Event.of
    )


def logs(
    execution_id: str,
    after: int = 0,
    *,
    step: str | None = None,
    iteration: int | None = None,
    attempt: int | None = None,
) -> Stream[LogChunk]:
    """Yields what python and shell tasks print, behind the chunk of number `after`, as it comes,
    until the execution has ended. Goes on after a break as `events` does. Raises Unavailable."""
    return Stream(
        execution_path(execution_id, "/logs"),
        make_params(step=step, iteration=iteration, attempt=attempt),
        after,
        LogChunk.of,
    )
