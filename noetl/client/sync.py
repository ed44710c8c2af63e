"""The client over requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Concatenate, Final, ParamSpec

import requests

from noetl.client import access, approving, core, fleets, limits, operations, specimens, stream
from noetl.client.core import NO_REPLY, TRIES, Operation, Reply, Request, T
from noetl.client.stream import E, Stream

P = ParamSpec("P")

#: Bytes of a result that are fetched at once.
BLOCK: Final = 256 * 1024


def _keep_headers(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
    """Has no password of `~/.netrc` take the place of the token."""
    return prepared


def perform(make: Callable[P, Operation[T]]) -> Callable[Concatenate[Client, P], T]:
    """The method that performs the operation which `make` makes."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(make(*args, **kwargs))

    core.describe(method, make)
    return method


def follow(make: Callable[P, Stream[E]]) -> Callable[Concatenate[Client, P], Iterator[E]]:
    """The method that yields what the stream which `make` makes brings."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[E]:
        return self._follow(make(*args, **kwargs))

    core.describe(method, make)
    return method


class Client:
    """Talks to the server at `url` (`http://host:port`). Usable from one thread at a time; close
    it, or use `with`.

    `token` says who asks, where the server wants to know; no other server is sent it. Requests
    that get no answer, or 429, 502, 503 or 504, are sent up to `tries` times; starts carry an
    idempotency key, so that this starts nothing twice. Raises Unavailable or TooManyRequests where
    it was in vain, and BadRequest, InputsInvalid, NotFound, Conflict, LimitExceeded,
    PlaybookInvalid, Unauthenticated and Forbidden as the server answers.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8642", token: str | None = None, *, tries: int = TRIES
    ) -> None:
        self._url = core.server_url(url)
        self._token = core.check_token(token)
        self._tries = tries
        self._session = requests.Session()
        # No proxy of the environment stands between two programs of one machine.
        host = core.host_here(self._url)
        self._proxies = {} if host is None else {"no_proxy": host}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections back: a server that stops waits for those that are kept alive."""
        self._session.close()

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

    def download(self, ref: str, *, raw: bool = False) -> Iterator[bytes]:
        """Yields the JSON of the value that a reference (`noetl://results/...`) stands for, or with
        `raw` the bytes that were kept, in pieces. Raises NotFound, Unavailable."""
        request = operations.download(ref, raw)
        try:
            with self._open(request) as (reply, answer):
                if reply.status >= 400:
                    core.read(reply)
                yield from answer.iter_content(BLOCK)
        except requests.RequestException as error:
            core.read(self._no_reply(error, request))

    def _follow(self, found: Stream[E]) -> Iterator[E]:
        while not found.ended:
            request = found.request()
            reply = Reply(NO_REPLY, f"The server at {self._url} broke it off.")
            try:
                with self._open(request) as (reply, answer):
                    if found.accept(reply):
                        answer.encoding = "utf-8"
                        for line in answer.iter_lines(chunk_size=None, decode_unicode=True):
                            if (one := found.feed(line)) is not None:
                                yield one
            except requests.RequestException as error:
                reply = self._no_reply(error, request)
            if not found.ended:
                time.sleep(found.pause(reply, self._tries))

    def _run(self, operation: Operation[T]) -> T:
        operation, reply = core.persist(operation, self._tries), None
        while True:
            try:
                step = operation.send(reply)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Request):
                reply = self._send(step)
            else:
                time.sleep(step)

    def _send(self, request: Request) -> Reply:
        try:
            with self._open(request, stream=False) as (reply, _):
                return reply
        except requests.RequestException as error:
            return self._no_reply(error, request)

    @contextmanager
    def _open(self, request: Request, *, stream: bool = True) -> Iterator[tuple[Reply, requests.Response]]:
        """The answer; of a stream before its body was read, and the reply has its text only where
        it is an error. Raises what requests raises."""
        with self._session.request(
            request.method,
            self._url + request.path,
            params=request.params,
            data=core.content_of(request),
            headers=core.headers_of(request, self._token),
            auth=None if self._token is None else _keep_headers,
            proxies=self._proxies,
            timeout=(core.CONNECT_S, request.timeout_s),
            stream=stream,
        ) as answer:
            text = answer.text if answer.status_code >= 400 or not stream else ""
            yield Reply(answer.status_code, text, answer.headers, answer.url), answer

    def _no_reply(self, error: requests.RequestException, request: Request) -> Reply:
        waited_s = core.CONNECT_S if isinstance(error, requests.ConnectTimeout) else request.timeout_s
        return core.no_reply(self._url, error, waited_s if isinstance(error, requests.Timeout) else None)
