"""The client over requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests

from noetl.client import core
from noetl.client.core import NO_REPLY, Operation, Pause, Reply, Request, T
from noetl.client.model import BatchItem, Event, Registered, Result, Started
from noetl.client.stream import EventStream
from noetl.errors import NoetlError
from noetl.facts.json import Json, JsonMap

#: Seconds for connecting.
CONNECT_S = 10.0


class Client:
    """Talks to the server at `url` (`http://host:port`). Usable from one thread at a time; close it, or use `with`.

    Requests that get no answer, or 502, 503 or 504, are sent again; starts carry an idempotency key of their own, so
    that this starts nothing twice. Raises Unavailable where it was in vain, and BadRequest, NotFound, Conflict,
    LimitExceeded and PlaybookInvalid as the server answers.
    """

    def __init__(self, url: str = "http://127.0.0.1:8642") -> None:
        self._url = core.server_url(url)
        self._session = requests.Session()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections back."""
        self._session.close()

    def register(self, content: str) -> Registered:
        """Registers the YAML text of a playbook under its `metadata.path`. Raises PlaybookInvalid."""
        return self._run(core.register(content))

    def start(
        self,
        path: str,
        payload: JsonMap | None = None,
        *,
        version: int | None = None,
        overrides: JsonMap | None = None,
        idempotency_key: str | None = None,
    ) -> Started:
        """Starts an execution of a playbook in the catalog, and returns once it is recorded.

        `payload` is merged over the workload, `overrides` over that. The same `idempotency_key` and request is the
        same execution.
        """
        return self._run(core.start(path, payload or {}, version, overrides or {}, idempotency_key))

    def start_batch(self, items: Sequence[BatchItem]) -> list[Started | NoetlError]:
        """Starts many, a thousand with each request. What is wrong with one is its own answer."""
        return self._run(core.start_batch(items))

    def run(
        self,
        path: str,
        payload: JsonMap | None = None,
        *,
        version: int | None = None,
        overrides: JsonMap | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        """Starts, waits and returns the result. Raises ExecutionFailed, TimeoutError."""
        return self._run(core.run(path, payload or {}, version, overrides or {}, timeout_s))

    def result(self, execution_id: str) -> Result:
        """Says where an execution stands."""
        return self._run(core.result(execution_id))

    def wait(self, execution_id: str, timeout_s: float | None = None) -> Result:
        """Waits until an execution has ended. Raises TimeoutError."""
        return self._run(core.wait(execution_id, timeout_s))

    def report(self, execution_id: str) -> JsonMap:
        """Status, result, ctx and steps of an execution, as `GET /api/executions/{id}` answers."""
        return self._run(core.report(execution_id))

    def executions(
        self, *, path: str | None = None, status: str | None = None, limit: int = 50
    ) -> list[JsonMap]:
        """The newest executions, newest first, as `GET /api/executions` lists them."""
        return self._run(core.executions(path, status, limit))

    def cancel(self, execution_id: str, reason: str = "") -> str:
        """Cancels an execution; returns its status. Raises Conflict where it has ended."""
        return self._run(core.control(execution_id, "cancel", reason))

    def pause(self, execution_id: str, reason: str = "") -> str:
        """Lets nothing new start; returns the status."""
        return self._run(core.control(execution_id, "pause", reason))

    def resume(self, execution_id: str, reason: str = "") -> str:
        """Lets a paused execution go on; returns the status."""
        return self._run(core.control(execution_id, "resume", reason))

    def events(self, execution_id: str, after: int = 0, types: Sequence[str] = ()) -> Iterator[Event]:
        """Yields events behind the version `after` as they happen, until the execution has ended.

        A connection that breaks is made again, and goes on behind the last event. Raises Unavailable.
        """
        stream = EventStream(execution_id, after, tuple(types))
        while not stream.ended:
            reply = Reply(NO_REPLY, "the stream broke off")
            try:
                with self._open(stream.request()) as (reply, lines):
                    if stream.opened(reply):
                        yield from (event for line in lines if (event := stream.feed(line)) is not None)
            except requests.RequestException as error:
                reply = Reply(NO_REPLY, reason(error))
            if not stream.ended:
                time.sleep(stream.pause(reply))

    def _run(self, operation: Operation[T]) -> T:
        reply: Reply | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                value: T = end.value
                return value
            reply = self._take(step)

    def _take(self, step: core.Step) -> Reply | None:
        match step:
            case Pause(seconds):
                time.sleep(seconds)
                return None
            case Request():
                return self._send(step)

    def _send(self, request: Request) -> Reply:
        try:
            answer = self._session.request(**self._arguments(request))
        except requests.RequestException as error:
            return Reply(NO_REPLY, reason(error))
        return Reply(answer.status_code, answer.text, answer.headers)

    @contextmanager
    def _open(self, request: Request) -> Iterator[tuple[Reply, Iterator[str]]]:
        """Raises what requests raises."""
        with self._session.request(**self._arguments(request), stream=True) as answer:
            text = "" if answer.status_code == 200 else answer.text
            answer.encoding = "utf-8"
            lines = answer.iter_lines(chunk_size=None, decode_unicode=True)
            yield Reply(answer.status_code, text, answer.headers), lines

    def _arguments(self, request: Request) -> dict[str, Any]:
        return {
            "method": request.method,
            "url": self._url + request.path,
            "params": request.params,
            "json": request.body,
            "headers": request.headers,
            "timeout": (CONNECT_S, request.timeout_s),
        }


def reason(error: BaseException) -> str:
    """The innermost reason of a failed connection, without the layers of libraries around it."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            return inner.strerror
        inner = inner.__cause__ or inner.__context__
    return type(error).__name__
