"""`/api/executions`: start, list, look at, and steer executions."""

from __future__ import annotations

from typing import assert_never

from flask import Response, jsonify, request

from noetl.api import shapes
from noetl.api.answers import (
    GRAPH,
    Accepted,
    ExecutionList,
    ExecutionReport,
    ExecutionResult,
    ExecutionStanding,
    FinishedExecution,
    StateView,
)
from noetl.api.bodies import PatchBody, ReasonBody, StartBody
from noetl.api.groups import group
from noetl.api.requests import (
    ExecutionPath,
    ExecutionsQuery,
    GraphFormat,
    GraphQuery,
    PatchHeader,
    ReportQuery,
    StartHeader,
    StateQuery,
    WaitQuery,
)
from noetl.api.services import services
from noetl.errors import BadRequest, Unavailable
from noetl.facts.json import Json
from noetl.net.codec import to_json
from noetl.net.diagram import dot, mermaid
from noetl.net.model import Net
from noetl.usecases import catalog, control, inspect, waiting
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartedExecution, StartRequest, start

api = group("executions", "/api/executions", "Runs of playbooks")


@api.post("", responses={200: FinishedExecution, 202: Accepted})
def create(body: StartBody, header: StartHeader) -> tuple[dict[str, Json], int, dict[str, str]]:
    """Start an execution

    Answers once the request is in the log: what was acknowledged is not lost. With an
    `Idempotency-Key` the same request yields the same execution, and another one under that key is
    refused (409). With `Prefer: wait=N` the answer waits for its end: 200 with the result, or 202
    where it did not end in time.
    """
    rt = services().rt
    wanted = _start_request(rt, body, header.idempotency_key)
    return acknowledge(rt, start(rt, wanted), header.wait_s)


def _start_request(rt: Runtime, body: StartBody, key: str | None) -> StartRequest:
    directories = _directories(body)
    if body.playbook is None:
        return StartRequest(
            body.path or "", body.version, body.payload, body.overrides, key, directories=directories
        )
    row = catalog.register(rt, body.playbook)
    return StartRequest(
        row.path, row.version, body.payload, body.overrides, key, row.content_sha256, directories
    )


def _directories(body: StartBody) -> tuple[str, ...]:
    """Raises BadRequest where names are not the machine's user's to choose, and for one that is not
    absolute."""
    if body.directories and services().settings.files != "user":
        raise BadRequest(
            "`directories` cannot be given here: this server serves others than this machine's user, "
            "whose files lie "
            "below NOETL_FILE_ROOTS; leave it out."
        )
    relative = next((name for name in body.directories if not name.startswith("/")), None)
    if relative is not None:
        raise BadRequest(f"`directories` names '{relative[:200]}', which is not an absolute path.")
    return tuple(body.directories)


def acknowledge(
    rt: Runtime, started: StartedExecution, wait_s: int | None = None
) -> tuple[dict[str, Json], int, dict[str, str]]:
    """202 for an execution that was asked for; 200 with its result where it ends within
    `wait_s`."""
    headers = {"Location": shapes.links(started.execution_id)["self"]}
    if wait_s is None or (found := _wait_if_possible(rt, started.execution_id, wait_s)) is None:
        return shapes.accepted(started.row, started.warnings), 202, headers
    headers["Preference-Applied"] = f"wait={wait_s}"
    answer = shapes.accepted(found.row, started.warnings)
    if found.row.status not in ENDED:
        return answer, 202, headers
    return {**answer, "result": found.value, "error": found.row.error}, 200, headers


def _wait_if_possible(rt: Runtime, execution_id: str, wait_s: int) -> inspect.ExecutionResultView | None:
    """None where no place is free, or the database has gone: what was started is acknowledged all
    the same."""
    try:
        with services().places.held(request.environ):
            return waiting.result(rt, execution_id, wait_s)
    except Unavailable:
        return None


@api.get("", responses={200: ExecutionList})
def executions(query: ExecutionsQuery) -> dict[str, Json]:
    """List executions, newest first"""
    rows = inspect.executions(
        services().rt,
        status=query.status,
        path=query.path,
        parent=query.parent,
        before=query.before,
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    return {
        "executions": [shapes.execution(row) for row in page],
        "next": page[-1].execution_id if len(rows) > query.limit else None,
    }


@api.get("/<execution_id>", responses={200: ExecutionReport})
def report(path: ExecutionPath, query: ReportQuery) -> dict[str, Json]:
    """Tell how an execution went so far"""
    found = inspect.report(services().rt, path.execution_id, resolve=query.resolve)
    return {
        **found.as_json(),
        **shapes.execution_times(found.row),
        "links": shapes.links(path.execution_id),
    }


@api.get("/<execution_id>/result", responses={200: ExecutionResult})
def result(path: ExecutionPath, query: WaitQuery) -> dict[str, Json]:
    """Show an execution's result, whatever its size

    With `wait` the answer comes when the execution ends, or after so many seconds with its status
    then.
    """
    return result_of(services().rt, path.execution_id, query)


def result_of(rt: Runtime, execution_id: str, query: WaitQuery) -> dict[str, Json]:
    """`{execution_id, status, result, error}`."""
    found = inspect.result(rt, execution_id)
    if query.wait and found.row.status not in ENDED:
        with services().places.held(request.environ):
            found = waiting.result(rt, execution_id, query.wait, until_idle=query.until_idle)
    row = found.row
    return {"execution_id": execution_id, "status": row.status, "result": found.value, "error": row.error}


@api.get("/<execution_id>/state", responses={200: StateView})
def state(path: ExecutionPath, query: StateQuery) -> Response:
    """Show the state, now or as of a version

    The `ETag` is the version, for `If-Match`.
    """
    view = inspect.state_view(services().rt, path.execution_id, query.version)
    response = jsonify(view)
    response.set_etag(str(view["version"]))
    return response


@api.get("/<execution_id>/graph", responses={200: GRAPH})
def graph(path: ExecutionPath, query: GraphQuery) -> Response:
    """Draw the net that an execution runs"""
    return _drawn(inspect.net_of(services().rt, path.execution_id), query.format)


def _drawn(net: Net, wanted: GraphFormat) -> Response:
    match wanted:
        case "mermaid":
            return Response(mermaid(net), mimetype="text/vnd.mermaid")
        case "dot":
            return Response(dot(net), mimetype="text/vnd.graphviz")
        case "json":
            return jsonify(to_json(net))
        case _:
            assert_never(wanted)


@api.post("/<execution_id>/cancel", responses={202: ExecutionStanding})
def cancel(path: ExecutionPath, body: ReasonBody) -> tuple[dict[str, Json], int]:
    """Cancel an execution

    Nothing new starts; running work is told and waited for shortly.
    """
    control.cancel(services().rt, path.execution_id, body.reason)
    return _stands(path.execution_id), 202


@api.post("/<execution_id>/pause", responses={202: ExecutionStanding})
def pause(path: ExecutionPath, body: ReasonBody) -> tuple[dict[str, Json], int]:
    """Pause an execution

    Nothing new starts until it is resumed; running work ends.
    """
    control.pause(services().rt, path.execution_id, body.reason)
    return _stands(path.execution_id), 202


@api.post("/<execution_id>/resume", responses={202: ExecutionStanding})
def resume(path: ExecutionPath, body: ReasonBody) -> tuple[dict[str, Json], int]:
    """Resume an execution that was paused"""
    control.resume(services().rt, path.execution_id, body.reason)
    return _stands(path.execution_id), 202


@api.patch("/<execution_id>/ctx", responses={200: ExecutionStanding})
def patch(path: ExecutionPath, body: PatchBody, header: PatchHeader) -> dict[str, Json]:
    """Assign names in ctx

    With `If-Match` only where the execution is still at that version, else 409.
    """
    control.patch_ctx(services().rt, path.execution_id, body.root, header.expected_version)
    return _stands(path.execution_id)


def _stands(execution_id: str) -> dict[str, Json]:
    return shapes.stands(inspect.execution(services().rt, execution_id))
