"""The client for asyncio, over httpx (the extra `async`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Concatenate, ParamSpec

import httpx

from noetl.client import access, approving, core, fleets, limits, operations, specimens, stream
from noetl.client.core import NO_REPLY, TRIES, Operation, Reply, Request, T
from noetl.client.stream import E, Stream

P = ParamSpec("P")


def perform(make: Callable[P, Operation[T]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[T]]:
    """The method that performs the operation which `make` makes."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(make(*args, **kwargs))

    core.describe(method, make)
    return method


def follow(make: Callable[P, Stream[E]]) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[E]]:
    """The method that yields what the stream which `make` makes brings."""

    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[E]:
        return self._follow(make(*args, **kwargs))

    core.describe(method, make)
    return method


class AsyncClient:
    """As `noetl.client.Client`, with the same methods and errors, to be awaited. Use `async
    with`."""

    def __init__(
        self, url: str = "http://127.0.0.1:8642", token: str | None = None, *, tries: int = TRIES
    ) -> None:
        self._url = core.server_url(url)
        self._token = core.check_token(token)
        self._tries = tries
        # No proxy of the environment stands between two programs of one machine.
        host = core.host_here(self._url)
        place = f"[{host}]" if host is not None and ":" in host else host
        self._http = httpx.AsyncClient(mounts=None if place is None else {f"all://{place}": None})

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Gives the connections back."""
        await self._http.aclose()

    register = perform(operations.register)
    playbook = perform(operations.playbook)
    inputs = perform(operations.inputs)
    start = perform(operations.start)
    start_batch = perform(operations.start_batch)
    run = perform(operations.run)
    result = perform(operations.result)
    wait = perform(operations.wait)
    report = perform(operations.report)
    executions = perform(operations.executions)
    plan_retry = perform(operations.plan_retry)
    retry = perform(operations.retry)
    fork = perform(operations.fork)
    failures = perform(fleets.failures)
    plan_retries = perform(fleets.plan_retries)
    retry_all = perform(fleets.retry_all)
    list_operations = perform(fleets.list_operations)
    operation = perform(fleets.operation)
    operation_items = perform(fleets.operation_items)
    cancel_operation = perform(fleets.cancel_operation)
    pause_operation = perform(fleets.pause_operation)
    resume_operation = perform(fleets.resume_operation)
    plan_migration = perform(operations.plan_migration)
    migrate = perform(operations.migrate)
    explain = perform(operations.explain)
    diff = perform(operations.diff)
    cancel = perform(operations.cancel)
    signal = perform(operations.signal)
    signal_about = perform(operations.signal_about)
    call_back = perform(operations.call_back)
    approvals = perform(approving.approvals)
    approvals_of = perform(approving.approvals_of)
    approve = perform(approving.approve)
    reject = perform(approving.reject)
    pause = perform(operations.pause)
    resume = perform(operations.resume)
    events = follow(stream.events)
    event_page = perform(operations.event_page)
    logs = follow(stream.logs)
    log_page = perform(operations.log_page)
    last_lines = perform(operations.last_lines)
    result_page = perform(operations.result_page)
    export_execution = perform(specimens.export_execution)
    fixture = perform(specimens.fixture)
    import_execution = perform(specimens.import_execution)
    cached = perform(operations.cached)
    clear_cache = perform(operations.clear_cache)
    pause_key = perform(limits.pause_key)
    resume_key = perform(limits.resume_key)
    pause_queue = perform(limits.pause_queue)
    resume_queue = perform(limits.resume_queue)
    queues = perform(limits.queues)
    limits = perform(limits.limits)
    whoami = perform(access.whoami)
    create_token = perform(access.create_token)
    list_tokens = perform(access.list_tokens)
    revoke_token = perform(access.revoke_token)
    audit = perform(access.audit)
    runtime = perform(operations.runtime)
    health = perform(operations.health)

    async def download(self, ref: str, *, raw: bool = False) -> AsyncIterator[bytes]:
        """Yields a value or the bytes of a reference, as `Client.download` does."""
        request = operations.download(ref, raw)
        try:
            async with self._open(request) as (reply, answer):
                if reply.status >= 400:
                    core.read(reply)
                async for block in answer.aiter_bytes():
                    yield block
        except httpx.TransportError as error:
            core.read(self._no_reply(error, request))

    async def _follow(self, found: Stream[E]) -> AsyncIterator[E]:
        while not found.ended:
            request = found.request()
            reply = Reply(NO_REPLY, f"The server at {self._url} broke it off.")
            try:
                async with self._open(request) as (reply, answer):
                    if found.accept(reply):
                        async for line in answer.aiter_lines():
                            if (one := found.feed(line)) is not None:
                                yield one
            except httpx.TransportError as error:
                reply = self._no_reply(error, request)
            if not found.ended:
                await asyncio.sleep(found.pause(reply, self._tries))

    async def _run(self, operation: Operation[T]) -> T:
        operation, reply = core.persist(operation, self._tries), None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                value: T = end.value
                return value
            reply = await (self._send(step) if isinstance(step, Request) else asyncio.sleep(step))

    async def _send(self, request: Request) -> Reply:
        try:
            async with self._open(request, stream=False) as (reply, _):
                return reply
        except httpx.TransportError as error:
            return self._no_reply(error, request)

    @asynccontextmanager
    async def _open(
        self, request: Request, *, stream: bool = True
    ) -> AsyncIterator[tuple[Reply, httpx.Response]]:
        """The answer; of a stream before its body was read, and the reply has its text only where
        it is an error. Raises httpx.TransportError."""
        async with self._http.stream(
            request.method,
            self._url + request.path,
            params=dict(request.params),
            content=core.content_of(request),
            headers=core.headers_of(request, self._token),
            timeout=httpx.Timeout(request.timeout_s, connect=core.CONNECT_S),
        ) as answer:
            is_whole = answer.status_code >= 400 or not stream
            text = (await answer.aread()).decode(errors="replace") if is_whole else ""
            yield Reply(answer.status_code, text, answer.headers, str(answer.url)), answer

    def _no_reply(self, error: httpx.TransportError, request: Request) -> Reply:
        waited_s = core.CONNECT_S if isinstance(error, httpx.ConnectTimeout) else request.timeout_s
        is_timeout = isinstance(error, httpx.TimeoutException)
        return core.no_reply(self._url, error, waited_s if is_timeout else None)
