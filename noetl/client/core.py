"""What the client says to the API and how it reads the answers, without sending anything.

An operation is a generator: it yields requests to send and pauses to make, is sent the answers to its requests, and
returns what the caller asked for. Whoever drives it decides how to send (sans I/O).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

from noetl.client.model import BatchItem, Registered, Result, Started
from noetl.errors import (
    BadRequest,
    Conflict,
    LimitExceeded,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    Unavailable,
)
from noetl.facts.json import Json, JsonMap

#: How often a request is sent that got no answer or 502, 503, 504, and the pauses between, in seconds.
TRIES: Final = 5
FIRST_PAUSE_S: Final = 0.2
#: Seconds that one answer may take.
TIMEOUT_S: Final = 30.0
#: Seconds for which one request for a result waits at the server.
WAIT_S: Final = 30.0
#: Items of one batch: as many as the API takes.
BATCH: Final = 1000

#: Executions that one page of the list has at most.
PAGE: Final = 1000

#: Status of a reply where none came.
NO_REPLY: Final = 0
_PASSING: Final = frozenset({NO_REPLY, 502, 503, 504})
_ERRORS: Final[Mapping[int, type[NoetlError]]] = {
    400: BadRequest,
    404: NotFound,
    409: Conflict,
    413: LimitExceeded,
    422: PlaybookInvalid,
}

T = TypeVar("T")
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is below the server's URL. `again`: sending it twice does no more than sending it once."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    again: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back. `status` is `NO_REPLY` where the connection failed, and `text` then says why."""

    status: int
    text: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds to let pass."""

    seconds: float


Step: TypeAlias = Request | Pause
Operation: TypeAlias = Generator[Step, Reply | None, T]


def server_url(url: str) -> str:
    """The URL without a slash at its end. Raises BadRequest."""
    if not url.startswith(("http://", "https://")):
        raise BadRequest(f"The server {url!r} is not a URL; write it as http://host:port.")
    return url.rstrip("/")


# --- operations -------------------------------------------------------------------------------------


def register(content: str) -> Operation[Registered]:
    said = yield from _ask(Request("POST", "/api/catalog", body={"content": content}))
    return Registered(said["path"], said["version"], said.get("warnings", []))


def start(
    path: str, payload: JsonMap, version: int | None, overrides: JsonMap, idempotency_key: str | None
) -> Operation[Started]:
    body = {"path": path, "payload": payload, "overrides": overrides, "version": version}
    headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    said = yield from _ask(Request("POST", "/api/executions", body=body, headers=headers))
    return Started(said["execution_id"], said.get("warnings", []))


def start_batch(items: Sequence[BatchItem]) -> Operation[list[Started | NoetlError]]:
    answers: list[Started | NoetlError] = []
    for first in range(0, len(items), BATCH):
        part = [_item(item) for item in items[first : first + BATCH]]
        request = Request("POST", "/api/executions/batch", body={"executions": part}, timeout_s=4 * TIMEOUT_S)
        said = yield from _ask(request)
        answers += [_answer(one) for one in said["executions"]]
    return answers


def _item(item: BatchItem) -> JsonMap:
    return {
        "path": item.path,
        "payload": item.payload,
        "version": item.version,
        "overrides": item.overrides,
        "idempotency_key": item.idempotency_key or str(uuid.uuid4()),
    }


def _answer(said: JsonMap) -> Started | NoetlError:
    if said["status"] < 400:
        return Started(said["execution_id"], said.get("warnings", []))
    return _error(said["status"], said["problem"])


def result(execution_id: str, wait_s: float = 0.0) -> Operation[Result]:
    """Where the execution stands; `wait_s` is how long the server may wait for its end first."""
    path = f"{_execution(execution_id)}/result"
    params = {"wait": f"{wait_s:g}"} if wait_s else {}
    said = yield from _ask(Request("GET", path, params, timeout_s=TIMEOUT_S + wait_s))
    return Result(said["execution_id"], said["status"], said["result"], said["error"])


def wait(execution_id: str, timeout_s: float | None, clock: Clock = time.monotonic) -> Operation[Result]:
    """The end of the execution. Raises TimeoutError."""
    give_up = None if timeout_s is None else clock() + timeout_s
    while True:
        left = WAIT_S if give_up is None else min(WAIT_S, give_up - clock())
        found = yield from result(execution_id, max(0.0, left))
        if found.ended:
            return found
        if give_up is not None and clock() >= give_up:
            raise TimeoutError(
                f"Execution {execution_id} is {found.status} after {timeout_s:g} s; it goes on without us."
            )


def run(
    path: str, payload: JsonMap, version: int | None, overrides: JsonMap, timeout_s: float | None
) -> Operation[Json]:
    started = yield from start(path, payload, version, overrides, None)
    found = yield from wait(started.execution_id, timeout_s)
    return found.value()


def report(execution_id: str) -> Operation[JsonMap]:
    return _ask(Request("GET", _execution(execution_id), {"resolve": "true"}))


def executions(path: str | None, status: str | None, limit: int) -> Operation[list[JsonMap]]:
    asked = {"path": path, "status": status}
    params = {name: value for name, value in asked.items() if value is not None}
    found: list[JsonMap] = []
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        said = yield from _ask(Request("GET", "/api/executions", {**params, "limit": str(size)}))
        found += said["executions"]
        if said["next"] is None:
            break
        params["before"] = said["next"]
    return found


def control(execution_id: str, verb: str, reason: str) -> Operation[str]:
    """`verb` is `cancel`, `pause` or `resume`; the status behind it."""
    request = Request("POST", f"{_execution(execution_id)}/{verb}", body={"reason": reason}, again=False)
    said = yield from _ask(request)
    return str(said["status"])


def _execution(execution_id: str) -> str:
    return f"/api/executions/{quote(execution_id, safe='')}"


# --- one request and its answer ---------------------------------------------------------------------


def _ask(request: Request) -> Operation[Any]:
    """The JSON of the answer. Raises the error that a problem stands for."""
    for attempt in range(TRIES):
        reply = yield request
        assert reply is not None, "a request is answered with a reply"
        last = attempt == TRIES - 1 or not request.again
        if last or reply.status not in _PASSING:
            return read(reply)
        yield Pause(pause_after(attempt, reply))
    raise AssertionError("the last attempt returns or raises")


def pause_after(attempt: int, reply: Reply | None = None) -> float:
    """Seconds to let pass behind the attempt of that number, from 0: what the server asks for, else ever longer."""
    asked = (
        next((value for name, value in reply.headers.items() if name.lower() == "retry-after"), "")
        if reply
        else ""
    )
    return float(asked) if asked.isdigit() else FIRST_PAUSE_S * 2**attempt


def read(reply: Reply) -> Any:
    """The JSON of an answer. Raises the error that a problem stands for, Unavailable where nothing came."""
    if reply.status == NO_REPLY:
        raise Unavailable(f"The server does not answer: {reply.text}.")
    try:
        said = json.loads(reply.text)
    except ValueError as error:
        raise BadRequest(f"This is not the API of NoETL: it answered {reply.status} without JSON.") from error
    if reply.status >= 400:
        raise _error(reply.status, said)
    return said


def _error(status: int, said: Any) -> NoetlError:
    detail = str(said.get("detail") or said.get("title") or "") if isinstance(said, Mapping) else ""
    cls = Unavailable if status >= 500 else _ERRORS.get(status, BadRequest)
    return cls(f"{detail or 'The server gave no reason.'} (HTTP {status})")
