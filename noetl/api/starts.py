"""Starting executions: one, many with one request, and by the names of `/api/workflows`."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, TypeAlias

from flask import request

from noetl.api import problems
from noetl.api.answers import Accepted, Batch, ExecutionResult, ExecutionSummary, FinishedExecution
from noetl.api.context import services
from noetl.api.executions import api, links, read_result, summary
from noetl.api.groups import group
from noetl.api.permissions import check_playbook, check_text
from noetl.api.requests import ExecutionPath, StartHeader, WaitQuery
from noetl.api.start_bodies import BatchBody, BatchItem, StartBody, WorkflowBody
from noetl.api.texts import PlaybookOrJson, read_playbook
from noetl.errors import BadRequest, Forbidden, NoetlError, NotFound, Unavailable
from noetl.facts.business_key import OnConflict
from noetl.facts.json import Json
from noetl.usecases import catalog, inspect, waiting
from noetl.usecases.access import Scope
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import Answer, StartRequest, start, start_all

BATCH: Final = "/api/executions/batch"
#: Bytes of a batch.
MAX_BATCH_BODY: Final = 16 * 1024 * 1024

batch_api = group("batch", BATCH, "Many executions at once")
workflows_api = group("workflows", "/api/workflows", "Other names for executions, also without `/api`")
# Starts read them by themselves.
api.take(StartBody)
workflows_api.take(WorkflowBody)

Started: TypeAlias = tuple[dict[str, Json], int, dict[str, str]]


# --- one ---


@api.post("", responses={200: FinishedExecution, 202: Accepted})
def create(raw: PlaybookOrJson, header: StartHeader) -> Started:
    """Start an execution

    YAML as the body is a playbook, which is registered and started with what it has by itself.
    Answers once the request is in the log: what was acknowledged is not lost. With an
    `Idempotency-Key` the same request yields the same execution, and another one under that key is
    refused (409). Where an open execution of the playbook has the business key, `on_conflict` says
    what becomes of the request. With `Prefer: wait=N` the answer waits for its end: 200 with the
    result, or 202 where it did not end in time.
    """
    return _begin(read_playbook(raw, StartBody, "playbook"), header)


def _begin(body: StartBody, header: StartHeader) -> Started:
    rt = services().rt
    directories = directories_of(body.directories)
    path, version, digest = body.path or "", body.version, ""
    if body.path is not None:
        check_playbook(_scope_of(body.on_conflict), body.path)
    _admit(1)
    if body.playbook is not None:
        row = catalog.register(rt, body.playbook, check=check_text)
        path, version, digest = row.path, row.version, row.content_sha256
    wanted = StartRequest(
        path,
        version,
        body.payload,
        body.overrides,
        header.idempotency_key,
        digest,
        directories,
        body.key,
        body.on_conflict or ("return" if body.signal is not None else None),
        None if body.signal is None else body.signal.named(body.signal.name),
        body.labels,
    )
    return _start(wanted, header.wait_s)


def _admit(starts: int) -> None:
    """Raises TooManyRequests where too much waits already."""
    here = services()
    here.rt.backlog.admit(here.rt.store, here.rt.clock(), here.settings.backlog, starts)


def _scope_of(on_conflict: OnConflict | None) -> Scope:
    """What a start needs: one that asks for another execution to be cancelled steers that one."""
    return "operate" if on_conflict == "cancel_other" else "run"


def directories_of(given: Sequence[str]) -> tuple[str, ...]:
    """Raises BadRequest where names are not the machine's user's to choose, and for one that is not
    absolute."""
    if given and services().settings.files != "user":
        raise BadRequest(
            "`directories` cannot be given here: this server serves others than this machine's user, "
            "whose files lie "
            "below NOETL_FILE_ROOTS; leave it out."
        )
    relative = next((name for name in given if not name.startswith("/")), None)
    if relative is not None:
        raise BadRequest(f"`directories` names '{relative[:200]}', which is not an absolute path.")
    return tuple(given)


def _start(wanted: StartRequest, wait_s: int | None) -> Started:
    """202 for an execution that was asked for; 200 with its result where it ends within
    `wait_s`."""
    rt = services().rt
    started = start(rt, wanted)
    found = None if wait_s is None else _wait_if_possible(rt, started.execution_id, wait_s)
    row = started.row if found is None else found.row
    answer = {
        "execution_id": row.execution_id,
        "status": row.status,
        "existing": started.existing,
        "warnings": list(started.warnings),
        "links": links(row.execution_id),
    }
    headers = {"Location": links(row.execution_id)["self"]}
    if found is not None:
        headers["Preference-Applied"] = f"wait={wait_s}"
    if found is None or row.status not in ENDED:
        return answer, 202, headers
    return {**answer, "result": found.value, "error": row.error}, 200, headers


def _wait_if_possible(rt: Runtime, execution_id: str, wait_s: int) -> inspect.ExecutionResultView | None:
    """None where no place is free, or the database has gone: what was started is acknowledged all
    the same."""
    try:
        with services().places.hold(request.environ):
            return waiting.wait_for_result(rt, execution_id, wait_s)
    except Unavailable:
        return None


# --- many ---


@batch_api.post("", responses={200: Batch}, operation_id="batch_create_post")
def create_batch(body: BatchBody) -> dict[str, Json]:
    """Start up to 1,000 executions

    Each item is answered by itself, in its place: 202 once it is in the log, or the problem that it
    would have met alone; none spoils another. A body that is not a batch is refused as a whole
    (400).
    """
    refused = [_refuse(item) for item in body.executions]
    allowed = [item for item, why in zip(body.executions, refused, strict=True) if why is None]
    _admit(len(allowed))
    started = start_all(services().rt, [StartRequest(**dict(item)) for item in allowed])
    if started and isinstance(started[0], Unavailable):
        # Nothing was recorded: the store fails for all that follow it.
        raise started[0]
    following = iter(started)
    items = [_item(why or next(following)) for why in refused]
    accepted = sum(item["status"] == HTTPStatus.ACCEPTED for item in items)
    return {"accepted": accepted, "refused": len(items) - accepted, "executions": items}


def _refuse(item: BatchItem) -> NoetlError | None:
    """Why the caller may not start that one, where it may not."""
    try:
        check_playbook(_scope_of(item.on_conflict), item.path)
    except (Forbidden, NotFound) as error:
        return error
    return None


def _item(answer: Answer) -> dict[str, Json]:
    if isinstance(answer, NoetlError):
        problem = problems.as_json(answer)
        return {"status": problem["status"], "problem": problem}
    return {
        "status": HTTPStatus.ACCEPTED,
        "execution_id": answer.execution_id,
        "existing": answer.existing,
        "warnings": list(answer.warnings),
        "links": links(answer.execution_id),
    }


# --- other names ---


@workflows_api.post("/run", responses={200: FinishedExecution, 202: Accepted})
def run(raw: PlaybookOrJson, header: StartHeader) -> Started:
    """Start an execution of a playbook: of the catalog, or of one that comes along

    YAML as the body is a playbook, as in `POST /api/executions`; in JSON, `workflow` is its text,
    or the path of one. `Idempotency-Key` and `Prefer: wait=N` are as there, too.
    """
    return _begin(read_playbook(raw, WorkflowBody, "content").as_start(), header)


@workflows_api.get("/status/<execution_id>", responses={200: ExecutionSummary})
def status(path: ExecutionPath) -> dict[str, Json]:
    """Tell where an execution is"""
    return summary(inspect.listed(services().rt, path.execution_id))


@workflows_api.get("/result/<execution_id>", responses={200: ExecutionResult})
def result(path: ExecutionPath, query: WaitQuery) -> dict[str, Json]:
    """Show an execution's result

    `wait` as in `GET /api/executions/{execution_id}/result`.
    """
    return read_result(path.execution_id, query)
