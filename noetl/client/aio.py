"""The client for asyncio, over httpx (the extra `async`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from noetl.client import core
from noetl.client.core import NO_REPLY, Operation, Pause, Reply, Request, T
from noetl.client.model import BatchItem, Event, Registered, Result, Started
from noetl.client.stream import EventStream
from noetl.client.sync import CONNECT_S, reason
from noetl.errors import NoetlError
from noetl.facts.json import Json, JsonMap


class AsyncClient:
    """As `noetl.client.Client`, with the same methods and errors, to be awaited. Use `async with`."""

    def __init__(self, url: str = "http://127.0.0.1:8642") -> None:
        self._url = core.server_url(url)
        self._http = httpx.AsyncClient()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def register(self, content: str) -> Registered:
        return await self._run(core.register(content))

    async def start(
        self,
        path: str,
        payload: JsonMap | None = None,
        *,
        version: int | None = None,
        overrides: JsonMap | None = None,
        idempotency_key: str | None = None,
    ) -> Started:
        return await self._run(core.start(path, payload or {}, version, overrides or {}, idempotency_key))

    async def start_batch(self, items: Sequence[BatchItem]) -> list[Started | NoetlError]:
        return await self._run(core.start_batch(items))

    async def run(
        self,
        path: str,
        payload: JsonMap | None = None,
        *,
        version: int | None = None,
        overrides: JsonMap | None = None,
        timeout_s: float | None = None,
    ) -> Json:
        return await self._run(core.run(path, payload or {}, version, overrides or {}, timeout_s))

    async def result(self, execution_id: str) -> Result:
        return await self._run(core.result(execution_id))

    async def wait(self, execution_id: str, timeout_s: float | None = None) -> Result:
        return await self._run(core.wait(execution_id, timeout_s))

    async def report(self, execution_id: str) -> JsonMap:
        return await self._run(core.report(execution_id))

    async def executions(
        self, *, path: str | None = None, status: str | None = None, limit: int = 50
    ) -> list[JsonMap]:
        return await self._run(core.executions(path, status, limit))

    async def cancel(self, execution_id: str, reason: str = "") -> str:
        return await self._run(core.control(execution_id, "cancel", reason))

    async def pause(self, execution_id: str, reason: str = "") -> str:
        return await self._run(core.control(execution_id, "pause", reason))

    async def resume(self, execution_id: str, reason: str = "") -> str:
        return await self._run(core.control(execution_id, "resume", reason))

    async def events(
        self, execution_id: str, after: int = 0, types: Sequence[str] = ()
    ) -> AsyncIterator[Event]:
        stream = EventStream(execution_id, after, tuple(types))
        while not stream.ended:
            reply = Reply(NO_REPLY, "the stream broke off")
            try:
                async with self._open(stream.request()) as (reply, lines):
                    if stream.opened(reply):
                        async for line in lines:
                            if (event := stream.feed(line)) is not None:
                                yield event
            except httpx.TransportError as error:
                reply = Reply(NO_REPLY, reason(error))
            if not stream.ended:
                await asyncio.sleep(stream.pause(reply))

    async def _run(self, operation: Operation[T]) -> T:
        reply: Reply | None = None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                value: T = end.value
                return value
            reply = await self._take(step)

    async def _take(self, step: core.Step) -> Reply | None:
        match step:
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return None
            case Request():
                return await self._send(step)

    async def _send(self, request: Request) -> Reply:
        try:
            answer = await self._http.send(self._built(request))
        except httpx.TransportError as error:
            return Reply(NO_REPLY, reason(error))
        return Reply(answer.status_code, answer.text, answer.headers)

    @asynccontextmanager
    async def _open(self, request: Request) -> AsyncIterator[tuple[Reply, AsyncIterator[str]]]:
        """Raises httpx.TransportError."""
        answer = await self._http.send(self._built(request), stream=True)
        try:
            text = "" if answer.status_code == 200 else (await answer.aread()).decode(errors="replace")
            yield Reply(answer.status_code, text, answer.headers), answer.aiter_lines()
        finally:
            await answer.aclose()

    def _built(self, request: Request) -> httpx.Request:
        return self._http.build_request(
            request.method,
            self._url + request.path,
            params=dict(request.params),
            json=request.body,
            headers=dict(request.headers),
            timeout=httpx.Timeout(request.timeout_s, connect=CONNECT_S),
        )
