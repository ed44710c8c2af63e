"""What can be asked of a server. The clients' methods are made from these functions: they have
their names, their parameters and what is said of them here."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final
from urllib.parse import quote, urlsplit

from noetl.client.core import (
    TIMEOUT_S,
    Operation,
    Request,
    ask,
    ask_waiting,
    make_body,
    make_error,
    make_params,
    read,
    send,
)
from noetl.client.core import execution_path as path_of
from noetl.client.model import (
    BatchItem,
    Event,
    EventPage,
    LogChunk,
    LogPage,
    Registered,
    Result,
    ResultPage,
    Started,
)
from noetl.errors import NoetlError
from noetl.facts import json
from noetl.facts.business_key import OnConflict
from noetl.facts.json import Json, JsonMap

#: Seconds for which one request for a result waits at the server, and between two where the server
#: has no place to wait in.
WAIT_S: Final = 30.0
POLL_S: Final = 0.2
#: Items of one batch, and executions of one page of the list: as many as the API takes.
BATCH: Final = 1000
PAGE: Final = 1000
#: What references to results begin with.
RESULTS: Final = "noetl://results/"

Clock = Callable[[], float]


# --- playbooks ---


def register(content: str, *, strict: bool = False) -> Operation[Registered]:
    """Registers the YAML text of a playbook under its `metadata.path`; with `strict` not one with
    warnings. Raises PlaybookInvalid."""
    # Left out where it says nothing: older servers do not know the key.
    body = {"content": content, **({"strict": True} if strict else {})}
    said = yield from ask(Request("POST", "/api/catalog", body=body))
    return Registered(said["path"], said["version"], said.get("warnings", []))


def playbook(path: str, version: int | None = None) -> Operation[str]:
    """The YAML text of a playbook in the catalog; of its newest version unless told otherwise.
    Raises NotFound."""
    said = yield from ask(Request("GET", f"/api/catalog/{quote(path)}", make_params(version=version)))
    return str(said["content"])


def inputs(path: str, version: int | None = None) -> Operation[JsonMap]:
    """The JSON Schema of what a playbook takes as its payload; of its newest version unless told
    otherwise. Raises NotFound."""
    params = make_params(version=version)
    said = yield from ask(Request("GET", f"/api/catalog/{quote(path)}/openapi.json", params))
    found: JsonMap = said["components"]["schemas"]["Payload"]
    return found


# --- starting and waiting ---


def start(
    path: str,
    payload: JsonMap | None = None,
    *,
    version: int | None = None,
    overrides: JsonMap | None = None,
    idempotency_key: str | None = None,
    directories: Sequence[str] = (),
    key: str | None = None,
    on_conflict: OnConflict | None = None,
    labels: JsonMap | None = None,
) -> Operation[Started]:
    """Starts an execution of a playbook in the catalog, and returns once it is recorded.

    `payload` is merged over the workload, `overrides` over that. The same `idempotency_key` and
    request is the same execution. `directories` are where relative file names start, on a server
    that works for its machine's user. `key` is its business key; where an open execution has that,
    `on_conflict` says what becomes of the request: KeyTaken is raised (`reject`), that one is
    returned (`return`), or cancelled (`cancel_other`). `labels` are what it is told apart by, over
    those of the playbook.
    """
    body: JsonMap = {
        "path": path,
        "payload": payload or {},
        "overrides": overrides or {},
        "version": version,
        # Left out where there are none: a server may refuse it, and older ones do not know it.
        **({"directories": list(directories)} if directories else {}),
        **make_body(key=key, on_conflict=on_conflict, labels=labels or None),
    }
    headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
    said = yield from ask(Request("POST", "/api/executions", body=body, headers=headers))
    return _started(said)


def _started(said: JsonMap) -> Started:
    return Started(said["execution_id"], said.get("warnings", []), said.get("existing", False))


def start_batch(items: Sequence[BatchItem]) -> Operation[list[Started | NoetlError]]:
    """Starts many, a thousand with each request. What is wrong with one is its own answer."""
    answers: list[Started | NoetlError] = []
    for first in range(0, len(items), BATCH):
        part = [_batch_body(item) for item in items[first : first + BATCH]]
        for item in part:
            item["idempotency_key"] = item["idempotency_key"] or str(uuid.uuid4())
        request = Request("POST", "/api/executions/batch", body={"executions": part}, timeout_s=4 * TIMEOUT_S)
        said = yield from ask(request)
        answers += [_answer(one) for one in said["executions"]]
    return answers


def _batch_body(item: BatchItem) -> dict[str, Json]:
    body = asdict(item)
    labels = body.pop("labels") or None
    keyed = make_body(key=body.pop("key"), on_conflict=body.pop("on_conflict"), labels=labels)
    return {**body, **keyed}


def _answer(said: JsonMap) -> Started | NoetlError:
    if said["status"] < 400:
        return _started(said)
    return make_error(said["status"], said["problem"])


def result(execution_id: str) -> Operation[Result]:
    """Says where an execution stands."""
    return _result(execution_id, 0.0)


def _result(execution_id: str, wait_s: float) -> Operation[Result]:
    said = yield from ask_waiting(Request("GET", path_of(execution_id, "/result")), wait_s)
    return Result(said["execution_id"], said["status"], said["result"], said["error"])


def wait(execution_id: str, timeout_s: float | None = None) -> Operation[Result]:
    """Waits until an execution has ended. Raises TimeoutError."""
    return _wait(execution_id, timeout_s, time.monotonic)


def _wait(execution_id: str, timeout_s: float | None, clock: Clock) -> Operation[Result]:
    give_up = None if timeout_s is None else clock() + timeout_s
    while True:
        began = clock()
        left = WAIT_S if give_up is None else max(0.0, min(WAIT_S, give_up - began))
        found = yield from _result(execution_id, left)
        if found.ended:
            return found
        if give_up is not None and timeout_s is not None and clock() >= give_up:
            raise TimeoutError(
                f"Execution {execution_id} is {found.status} after {timeout_s:g} s; it goes on without us."
            )
        # Behind an answer that came at once there was no place to wait in.
        yield max(0.0, min(left, POLL_S) - (clock() - began))


def run(
    path: str,
    payload: JsonMap | None = None,
    *,
    version: int | None = None,
    overrides: JsonMap | None = None,
    timeout_s: float | None = None,
) -> Operation[Json]:
    """Starts, waits and returns the result. Raises ExecutionFailed, TimeoutError."""
    started = yield from start(path, payload, version=version, overrides=overrides)
    return (yield from wait(started.execution_id, timeout_s)).value()


# --- looking and steering ---


def report(execution_id: str, *, resolve: bool = True) -> Operation[JsonMap]:
    """Status, result, ctx and steps of an execution, as `GET /api/executions/{id}` answers. Without
    `resolve` results that are large stay references."""
    return ask(Request("GET", path_of(execution_id), {"resolve": str(resolve).lower()}))


def executions(
    *,
    path: str | None = None,
    status: str | None = None,
    key: str | None = None,
    where: str | None = None,
    limit: int = 50,
) -> Operation[list[JsonMap]]:
    """The newest executions, newest first, as `GET /api/executions` lists them; with `where` those
    of which that is true (`ended > '-2h' and error ~ 'timed out'`)."""
    params = make_params(path=path, status=status, key=key, where=where)
    found: list[JsonMap] = []
    while len(found) < limit:
        size = min(PAGE, limit - len(found))
        said = yield from ask(Request("GET", "/api/executions", {**params, "limit": str(size)}))
        found += said["executions"]
        if said["next"] is None:
            break
        params["before"] = said["next"]
    return found


def plan_retry(execution_id: str, **how: Json) -> Operation[JsonMap]:
    """What a retry would run again, and what stands, as `POST /api/executions/{id}/retry` with
    `dry_run` answers. `how` are the keys of its body: `from`, `iterations`, `payload`, `overrides`,
    `version`, `playbook`."""
    return ask(Request("POST", path_of(execution_id, "/retry"), {"dry_run": "true"}, body=how))


def retry(execution_id: str, *, confirm: bool = False, **how: Json) -> Operation[str]:
    """Runs an ended execution again; returns the id of the new one. `how` as for `plan_retry`.
    Raises Conflict where it has not ended, is being retried already, or calls that may have had
    effects would be made again and `confirm` does not say that they may."""
    params = {"confirm": "true"} if confirm else {}
    said = yield from ask(Request("POST", path_of(execution_id, "/retry"), params, body=how, again=False))
    return str(said["execution_id"])


def fork(
    execution_id: str, *, at: int | None = None, before: str = "", patch: JsonMap | None = None
) -> Operation[str]:
    """Goes on from version `at`, or from before a step, as another execution, whose id it
    returns."""
    body: JsonMap = {"at": at, "before": before, "patch": patch or {}}
    said = yield from ask(Request("POST", path_of(execution_id, "/fork"), body=body, again=False))
    return str(said["execution_id"])


def plan_migration(execution_id: str, **how: Json) -> Operation[JsonMap]:
    """What a migration would take along and run, and its `obstacles`, as `POST
    /api/executions/{id}/migrate` with `dry_run` answers. `how` are the keys of its body: `version`,
    `playbook`."""
    return ask(Request("POST", path_of(execution_id, "/migrate"), {"dry_run": "true"}, body=how))


def migrate(execution_id: str, *, confirm: bool = False, **how: Json) -> Operation[str]:
    """Lets an open execution that waits go on under another version; returns the id of the one that
    does. `how` as for `plan_migration`. Raises Conflict where it has ended, there are obstacles, or
    calls that may have had effects would be made again and `confirm` does not say that they may."""
    params = {"confirm": "true"} if confirm else {}
    said = yield from ask(Request("POST", path_of(execution_id, "/migrate"), params, body=how, again=False))
    return str(said["execution_id"])


def explain(execution_id: str, step: str | None = None, *, version: int | None = None) -> Operation[JsonMap]:
    """Why each step ran, did not run or waits, or `step` alone, as `GET
    /api/executions/{id}/explain` answers. Raises NotFound."""
    return ask(Request("GET", path_of(execution_id, "/explain"), make_params(step=step, version=version)))


def diff(execution_id: str, other: str, *, limit: int = 20) -> Operation[JsonMap]:
    """In what the execution `other` differs, as `GET /api/executions/{id}/diff/{other}` answers: at
    most `limit` differences of each kind. Raises NotFound."""
    path = path_of(execution_id, f"/diff/{quote(other, safe='')}")
    return ask(Request("GET", path, make_params(limit=limit)))


def cancel(
    execution_id: str,
    reason: str = "",
    *,
    step: str | None = None,
    iteration: int | None = None,
    region: str | None = None,
) -> Operation[str]:
    """Cancels an execution, or a step of it (or one run, `step#k`), or one iteration of that, or a
    region; returns the execution's status. Raises Conflict where that has ended."""
    said = {"reason": reason, **make_body(step=step, iteration=iteration, region=region)}
    answer = yield from ask(Request("POST", path_of(execution_id, "/cancel"), body=said, again=False))
    return str(answer["status"])


def signal(
    execution_id: str,
    name: str,
    payload: Json = None,
    *,
    id: str | None = None,
    expires: str | float | None = None,
    everyone: bool = False,
) -> Operation[JsonMap]:
    """Tells an execution something: `{execution_id, id, version, existing}`. Two signals with one
    id are one. Raises NotFound for a name that nothing in its playbook waits for, Conflict after
    its end."""
    body = _signal(payload, id or uuid.uuid4().hex, expires, everyone=everyone)
    path = path_of(execution_id, f"/signals/{quote(name, safe='')}")
    answer: JsonMap = yield from ask(Request("POST", path, body=body))
    return answer


def signal_about(
    name: str,
    correlate: str,
    payload: Json = None,
    *,
    id: str | None = None,
    expires: str | float | None = None,
    everyone: bool = False,
) -> Operation[JsonMap]:
    """Tells whoever waits for such a signal about that value: `{id, sent: [...]}`; where nobody
    does it is kept for the first that will."""
    body = {"correlate": correlate, **_signal(payload, id or uuid.uuid4().hex, expires, everyone=everyone)}
    answer: JsonMap = yield from ask(Request("POST", f"/api/signals/{quote(name, safe='')}", body=body))
    return answer


def call_back(address: str, payload: Json = None) -> Operation[JsonMap]:
    """Calls the address of a task, `callback.<task>.url`, as a service does that was handed it:
    `{accepted, at}`. Of several calls the first one counts. Raises NotFound for what is no address,
    Conflict where nothing waits for the call any more."""
    token = urlsplit(address).path.rpartition("/")[2]
    path = f"/api/callbacks/{quote(token, safe='')}"
    answer: JsonMap = yield from ask(Request("POST", path, body=payload, anonymous=True))
    return answer


def _signal(payload: Json, signal_id: str, expires: str | float | None, *, everyone: bool) -> dict[str, Json]:
    deliver = "all" if everyone else None
    return {"payload": payload, **make_body(id=signal_id, expires=expires, deliver=deliver)}


def pause(execution_id: str, reason: str = "", step: str | None = None) -> Operation[str]:
    """Lets nothing new of the execution, or of the step, start; returns the status."""
    return _control(execution_id, "pause", reason, step)


def resume(execution_id: str, reason: str = "", step: str | None = None) -> Operation[str]:
    """Lets a paused execution, or step, go on; returns the status."""
    return _control(execution_id, "resume", reason, step)


def _control(execution_id: str, verb: str, reason: str, step: str | None) -> Operation[str]:
    body = {"reason": reason, **make_body(step=step)}
    said = yield from ask(Request("POST", path_of(execution_id, f"/{verb}"), body=body, again=False))
    return str(said["status"])


def event_page(
    execution_id: str,
    after: int = 0,
    types: Sequence[str] = (),
    *,
    limit: int = 1000,
    wait_s: float = 0.0,
    until_idle: bool = False,
) -> Operation[EventPage]:
    """Events behind the version `after`, and where the execution was when they were read. With
    `wait_s` the answer comes once there is one, or none will come: with `until_idle` also where
    nothing happens to the execution by itself."""
    params = make_params(
        after=after, limit=limit, type=",".join(types) or None, until="idle" if until_idle else "end"
    )
    said = yield from ask_waiting(Request("GET", path_of(execution_id, "/events"), params), wait_s)
    events = [Event.of(one) for one in said["events"]]
    return EventPage(events, said["status"], said["version"], said["idle"], said["next"])


def log_page(
    execution_id: str,
    after: int = 0,
    *,
    step: str | None = None,
    iteration: int | None = None,
    attempt: int | None = None,
    limit: int = 1000,
) -> Operation[LogPage]:
    """What python and shell tasks printed, behind the chunk of number `after`."""
    params = make_params(after=after, limit=limit, step=step, iteration=iteration, attempt=attempt)
    said = yield from ask(Request("GET", path_of(execution_id, "/logs"), params))
    chunks = [LogChunk.of(one) for one in said["chunks"]]
    return LogPage(chunks, said["status"], said["next"])


def last_lines(
    execution_id: str,
    lines: int = 10,
    *,
    step: str | None = None,
    iteration: int | None = None,
    attempt: int | None = None,
) -> Operation[list[str]]:
    """The last lines that python and shell tasks printed."""
    params = make_params(last=lines, step=step, iteration=iteration, attempt=attempt)
    said = yield from ask(Request("GET", path_of(execution_id, "/logs"), params))
    return "".join(chunk["text"] for chunk in said["chunks"]).splitlines()[-lines:]


# --- results that are kept by reference, and the server itself ---


def result_page(ref: str, offset: int = 0, limit: int = 1000) -> Operation[ResultPage]:
    """Items of the list that a reference (`noetl://results/...`) stands for."""
    said = yield from ask(Request("GET", result_path(ref), make_params(offset=offset, limit=limit)))
    return ResultPage(said["items"], said["offset"], said["length"], said["next"])


def result_path(ref: str) -> str:
    """Where a result that is kept by reference can be fetched."""
    return f"/api/results/{quote(ref.removeprefix(RESULTS))}"


def cached(path: str | None = None, limit: int = 100) -> Operation[list[JsonMap]]:
    """Results that stand in for equal calls, newest first, as `GET /api/cache` lists them."""
    said = yield from ask(Request("GET", "/api/cache", make_params(path=path, limit=limit)))
    return list(said["cached"])


def clear_cache(
    path: str | None = None, key: str | None = None, *, everything: bool = False
) -> Operation[int]:
    """Clears away the cached results of a playbook, the one with a key, or all; how many there
    were. Raises BadRequest where it is not said which."""
    params = make_params(path=path, key=key, all=1 if everything else None)
    said = yield from ask(Request("DELETE", "/api/cache", params))
    return int(said["removed"])


def runtime() -> Operation[JsonMap]:
    """Version, tool kinds, queues and the workers that were seen within a minute, as `GET
    /api/runtime` answers."""
    return ask(Request("GET", "/api/runtime"))


def health() -> Operation[JsonMap]:
    """`{status: ok|degraded|down, database, broker}`, asked once. Raises Unavailable where the
    server does not answer."""
    reply = yield from send(Request("GET", "/api/health", again=False, anonymous=True))
    # It is also how a server answers that has no database.
    is_down = reply.status == 503 and reply.header("content-type").startswith("application/json")
    found: JsonMap = json.loads_exactly(reply.text) if is_down else read(reply)
    return found


def download(ref: str, raw: bool) -> Request:
    """What fetches a value that is kept by reference as a whole."""
    return Request("GET", result_path(ref), {"raw": str(int(raw))})
