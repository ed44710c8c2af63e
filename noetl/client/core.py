"""How the client talks to the API, without sending anything (sans I/O).

An operation is a generator: it yields requests to send, and seconds to let pass, is sent the
answers to its requests, and returns what the caller asked for. A client drives it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

from noetl.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    InputsInvalid,
    KeyTaken,
    LimitExceeded,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    PrerequisitesMissing,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from noetl.facts import json
from noetl.facts.json import Json

#: How often a request is sent that got no answer or 429, 502, 503, 504, and the shortest and the
#: longest of the pauses between.
TRIES: Final = 5
FIRST_PAUSE_S: Final = 0.2
LAST_PAUSE_S: Final = 5.0
#: A server that asks for a longer pause is not asked again.
LONGEST_PAUSE_S: Final = 60.0
#: Seconds for connecting, and those that one answer may take.
CONNECT_S: Final = 10.0
TIMEOUT_S: Final = 30.0

#: Status of a reply where none came.
NO_REPLY: Final = 0
#: What may be over the next time.
PASSING: Final = frozenset({NO_REPLY, 429, 502, 503, 504})
#: Not now, and the server says when.
TOO_MANY: Final = 429
_ERRORS: Final[Mapping[int, type[NoetlError]]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: LimitExceeded,
    422: PlaybookInvalid,
}
#: What a proxy may say as well, in words of its own.
_REFUSALS: Final = frozenset({401, 403, TOO_MANY})
#: What cannot be run, and what cannot be given to what can.
INVALID: Final = 422
#: The type of a problem that names an execution.
KEY_TAKEN: Final = "urn:noetl:problem:key-taken"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is below the server's URL. `body` is sent as JSON, `content` as it is. `again`: it may
    be sent twice, and there is a use in that."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    again: bool = True
    #: Sent without the client's token: it is answered whoever asks.
    anonymous: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from `url`. Where nothing came, `status` is `NO_REPLY`, and `text` the
    sentence that says so."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)
    url: str = ""

    def header(self, name: str) -> str:
        """The value under `name`, which is written in lower case; empty where there is none."""
        return next((value for key, value in self.headers.items() if key.lower() == name), "")


#: A request to send, or seconds to let pass.
Step: TypeAlias = Request | float
Operation: TypeAlias = Generator[Step, Reply | None, T]


def server_url(url: str) -> str:
    """The URL without a slash at its end. Raises BadRequest."""
    if not url.startswith(("http://", "https://")):
        raise BadRequest(f"The server {url!r} is not a URL; write it as http://host:port.")
    return url.rstrip("/")


def check_token(token: str | None) -> str | None:
    """The token, where it can be sent at all. Raises BadRequest, without the token."""
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token and token):
        raise BadRequest(
            "The token cannot be sent: it is empty, or has spaces or characters that no token has."
        )
    return token


def headers_of(request: Request, token: str | None) -> dict[str, str]:
    """What the request is sent with, by a client that has that token."""
    headers = dict(request.headers)
    if request.body is not None:
        headers.setdefault("Content-Type", "application/json")
    if token is not None and not request.anonymous:
        headers["Authorization"] = f"Bearer {token}"
    return headers


def content_of(request: Request) -> bytes | None:
    """What is sent. Encoders of HTTP libraries do not know exact numbers."""
    return request.content if request.body is None else json.dumps(request.body).encode()


def host_here(url: str) -> str | None:
    """The host of a URL that can only be this machine, by an address of loopback or `localhost`;
    None for any other."""
    if "@" in url or "\\" in url:
        # Not everybody reads these in the same way.
        return None
    try:
        host = urlsplit(url).hostname or ""
        is_here = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return None
    return host if is_here else None


def execution_path(execution_id: str, part: str = "") -> str:
    """Where an execution is, or `part` of it. In the place of an id its business key may stand."""
    return f"/api/executions/{quote(execution_id, safe='')}{part}"


def make_params(**values: object) -> dict[str, str]:
    """The parameters of a query: those of `values` that are not None, as text."""
    return {name: str(value) for name, value in values.items() if value is not None}


def make_body(**values: Json) -> dict[str, Json]:
    """Those of `values` that say something: older servers do not know all keys."""
    return {name: value for name, value in values.items() if value is not None}


def describe(method: Any, made_from: Callable[..., object]) -> None:
    """Gives a method the name, the documentation and the parameters of the function that it is made
    from."""
    functools.update_wrapper(method, made_from)
    signature = inspect.signature(made_from)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])


# --- one request and its answer ---


def send(request: Request) -> Operation[Reply]:
    """The reply to the request, whatever it says."""
    reply = yield request
    assert reply is not None, "a request is answered with a reply"
    return reply


def ask(request: Request) -> Operation[Any]:
    """The JSON of the answer. Raises the error that a problem stands for."""
    return read((yield from send(request)))


def ask_waiting(request: Request, wait_s: float) -> Operation[Any]:
    """As `ask`; the server may wait so many seconds before it answers, if it has a place for
    that."""
    if wait_s > 0:
        params = {**request.params, "wait": f"{wait_s:g}"}
        reply = yield from send(
            Request("GET", request.path, params, timeout_s=request.timeout_s + wait_s, again=False)
        )
        if reply.status not in PASSING:
            return read(reply)
        if reply.status == TOO_MANY:
            yield min(pause_after(0, reply), LONGEST_PAUSE_S)
    return (yield from ask(request))


def persist(operation: Operation[T], tries: int) -> Operation[T]:
    """`operation`, whose requests are sent up to `tries` times until they are answered by more than
    "not now"."""
    reply: Reply | None = None
    while True:
        try:
            step = operation.send(reply)
        except StopIteration as end:
            value: T = end.value
            return value
        reply = yield step
        attempt = 1
        while isinstance(step, Request) and reply is not None and _may_repeat(step, reply, attempt, tries):
            yield pause_after(attempt - 1, reply)
            reply = yield step
            attempt += 1


def _may_repeat(request: Request, reply: Reply, attempt: int, tries: int) -> bool:
    is_worth_it = attempt < tries and request.again and reply.status in PASSING
    return is_worth_it and pause_after(attempt - 1, reply) <= LONGEST_PAUSE_S


def pause_after(attempt: int, reply: Reply) -> float:
    """Seconds to let pass behind the attempt of that number, from 0: what the server asks for, else
    longer and longer."""
    asked = reply.header("retry-after")
    return float(asked) if asked.isdigit() else min(FIRST_PAUSE_S * 2**attempt, LAST_PAUSE_S)


def no_reply(url: str, error: BaseException, timed_out_s: float | None) -> Reply:
    """What stands for the answer of the server at `url` where `error` came instead; `timed_out_s`
    is how long was waited for it in vain, None where it failed at once."""
    reason = f"no answer within {timed_out_s:g} s" if timed_out_s is not None else _reason(error)
    return Reply(NO_REPLY, f"The server at {url} does not answer: {reason}.", url=url)


def _reason(error: BaseException) -> str:
    """The innermost reason of a failed connection, without the layers of libraries around it."""
    causes = [error]
    while (inner := causes[-1].__cause__ or causes[-1].__context__) and inner not in causes:
        causes.append(inner)
    named = next((one.strerror for one in causes if isinstance(one, OSError) and one.strerror), None)
    return named or str(causes[-1]).rstrip(".") or type(error).__name__


def read(reply: Reply) -> Any:
    """The JSON of an answer. Raises the error that a problem stands for, Unavailable where nothing
    came."""
    if reply.status == NO_REPLY:
        raise Unavailable(reply.text)
    try:
        said = json.loads_exactly(reply.text)
    except ValueError as error:
        if reply.status in _REFUSALS:
            raise make_error(reply.status, None, reply.header("retry-after")) from error
        if reply.status in PASSING:
            raise Unavailable(
                f"What should answer {reply.url} is not there (HTTP {reply.status})."
            ) from error
        raise BadRequest(
            f"{reply.url} is not the API of NoETL: it answered {reply.status} without JSON."
        ) from error
    if reply.status >= 400:
        raise make_error(reply.status, said, reply.header("retry-after"))
    return said


def make_error(status: int, said: Json, retry_after: str = "") -> NoetlError:
    """The error that the problem `said` stands for; `retry_after` is what that header says."""
    faults = said.get("errors") if isinstance(said, Mapping) else None
    detail = str(said.get("detail") or said.get("title") or "") if isinstance(said, Mapping) else ""
    if status == INVALID and isinstance(faults, list):
        return InputsInvalid(detail, faults)
    missing = said.get("missing") if isinstance(said, Mapping) else None
    if status == INVALID and isinstance(missing, list):
        return PrerequisitesMissing(detail, missing)
    if isinstance(said, Mapping) and said.get("type") == KEY_TAKEN:
        return KeyTaken(f"{detail} (HTTP {status})", str(said.get("execution_id") or ""))
    if status == TOO_MANY:
        message = f"{detail or 'The server takes no more requests for now.'} (HTTP {status})"
        return TooManyRequests(message, int(retry_after) if retry_after.isdigit() else 1)
    cls = Unavailable if status >= 500 else _ERRORS.get(status, BadRequest)
    return cls(f"{detail or 'The server gave no reason.'} (HTTP {status})")
