"""`/api/executions`: list, look at, and steer executions."""

from __future__ import annotations

from typing import Final, assert_never

from flask import Response, jsonify, request

from noetl.api.answers import (
    ExecutionList,
    ExecutionReport,
    ExecutionResult,
    ExecutionStanding,
    JsonObject,
    StateView,
    fields_of,
)
from noetl.api.bodies import CancelBody, PatchBody, PauseBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import (
    ExecutionPath,
    ExecutionsQuery,
    GraphFormat,
    GraphQuery,
    PatchHeader,
    ReportQuery,
    StateQuery,
    WaitQuery,
)
from noetl.facts.json import Json
from noetl.net.codec import to_json
from noetl.net.diagram import dot, mermaid
from noetl.net.model import Net
from noetl.usecases import control, inspect, pausing, waiting
from noetl.usecases.facets import read_facets
from noetl.usecases.holds import ListedExecution
from noetl.usecases.ports import ExecutionRow

api = group("executions", "/api/executions", "Runs of playbooks")

_GRAPH: Final[JsonObject] = {
    "description": "The net",
    "content": {
        "text/vnd.mermaid": {"schema": {"type": "string"}},
        "text/vnd.graphviz": {"schema": {"type": "string"}},
        "application/json": {"schema": {"type": "object"}},
    },
}


def links(execution_id: str) -> dict[str, Json]:
    here = f"/api/executions/{execution_id}"
    parts = {name: f"{here}/{name}" for name in ("events", "logs", "state", "result", "graph")}
    return {"self": here, **parts, "children": f"/api/executions?parent={execution_id}"}


def summary(row: ListedExecution) -> dict[str, Json]:
    """As `ExecutionSummary` describes it."""
    return {
        "execution_id": row.execution_id,
        "parent_id": row.parent_id,
        "source_id": row.source_id,
        "descent": row.descent,
        "operation_id": row.operation_id,
        "key": row.key,
        "labels": read_facets(row.labels),
        "principal": row.principal,
        "waiting_for": row.waiting_for,
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "hold": row.hold and row.hold.as_json(),
        "events": row.head_version,
        **_times(row),
        "error": row.error,
        "errors_passed_over": row.errors_passed_over,
        "warnings_count": row.warnings_count,
    }


def _times(row: ExecutionRow) -> dict[str, Json]:
    return fields_of(row, ("created_at", "updated_at", "ended_at", "imported_at"))


# --- looking ---


@api.get("", responses={200: ExecutionList})
def executions(query: ExecutionsQuery) -> dict[str, Json]:
    """List executions, newest first"""
    rows = inspect.executions(
        services().rt,
        status=query.status,
        path=query.path,
        parent=query.parent,
        source=query.source,
        where=query.where,
        key=query.key,
        principal=query.principal,
        among=services().principal.visible(),
        before=query.before,
        limit=query.limit + 1,
    )
    page = rows[: query.limit]
    return {
        "executions": [summary(row) for row in page],
        "next": page[-1].execution_id if len(rows) > query.limit else None,
    }


@api.get("/<execution_id>", responses={200: ExecutionReport})
def report(path: ExecutionPath, query: ReportQuery) -> dict[str, Json]:
    """Tell how an execution went so far"""
    found = inspect.report(services().rt, path.execution_id, resolve=query.resolve)
    return {
        **found.as_json(),
        **_times(found.row),
        "links": links(path.execution_id),
    }


@api.get("/<execution_id>/result", responses={200: ExecutionResult})
def result(path: ExecutionPath, query: WaitQuery) -> dict[str, Json]:
    """Show an execution's result, whatever its size

    With `wait` the answer comes when the execution ends, or after so many seconds with its status
    then.
    """
    return read_result(path.execution_id, query)


def read_result(execution_id: str, query: WaitQuery) -> dict[str, Json]:
    """`{execution_id, status, result, error}`."""
    rt = services().rt
    found = inspect.result(rt, execution_id)
    if query.wait and not found.row.is_over:
        with services().places.hold(request.environ):
            found = waiting.wait_for_result(rt, execution_id, query.wait, until_idle=query.until == "idle")
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


@api.get("/<execution_id>/graph", responses={200: _GRAPH})
def graph(path: ExecutionPath, query: GraphQuery) -> Response:
    """Draw the net that an execution runs"""
    return _draw(inspect.net_of(services().rt, path.execution_id), query.format)


def _draw(net: Net, wanted: GraphFormat) -> Response:
    match wanted:
        case "mermaid":
            return Response(mermaid(net), mimetype="text/vnd.mermaid")
        case "dot":
            return Response(dot(net), mimetype="text/vnd.graphviz")
        case "json":
            return jsonify(to_json(net))
        case _:
            assert_never(wanted)


# --- steering ---


@api.post("/<execution_id>/cancel", responses={202: ExecutionStanding})
def cancel(path: ExecutionPath, body: CancelBody) -> tuple[dict[str, Json], int]:
    """Cancel an execution, a step of it, one iteration, or a region

    Of an execution nothing new starts; running work is told and waited for shortly. With `step` the
    execution goes on: what runs of the step is interrupted, what it called is cancelled, and arcs
    that ask for `step.cancelled` are taken. With `region` all that runs or waits in it is
    withdrawn, and undone where the playbook says so. 409 where the step or the region does not run.
    """
    rt = services().rt
    if body.region is not None:
        control.cancel_region(rt, path.execution_id, body.region, body.reason)
    elif body.step is None:
        control.cancel(rt, path.execution_id, body.reason)
    else:
        control.cancel_step(rt, path.execution_id, body.step, body.iteration, body.reason)
    return stand(path.execution_id), 202


@api.post("/<execution_id>/pause", responses={202: ExecutionStanding})
def pause(path: ExecutionPath, body: PauseBody) -> tuple[dict[str, Json], int]:
    """Pause an execution, or a step of it

    Nothing new starts until it is resumed; running work ends.
    """
    if body.step is None:
        control.pause(services().rt, path.execution_id, body.reason)
    else:
        pausing.pause_step(services().rt, path.execution_id, body.step, body.reason)
    return stand(path.execution_id), 202


@api.post("/<execution_id>/resume", responses={202: ExecutionStanding})
def resume(path: ExecutionPath, body: PauseBody) -> tuple[dict[str, Json], int]:
    """Resume an execution that was paused, or a step of it"""
    if body.step is None:
        control.resume(services().rt, path.execution_id, body.reason)
    else:
        pausing.resume_step(services().rt, path.execution_id, body.step, body.reason)
    return stand(path.execution_id), 202


@api.patch("/<execution_id>/ctx", responses={200: ExecutionStanding})
def patch(path: ExecutionPath, body: PatchBody, header: PatchHeader) -> dict[str, Json]:
    """Assign names in ctx

    With `If-Match` only where the execution is still at that version, else 409.
    """
    control.patch_ctx(services().rt, path.execution_id, body.root, header.expected_version)
    return stand(path.execution_id)


def stand(execution_id: str) -> dict[str, Json]:
    """As `ExecutionStanding` describes it."""
    row = inspect.execution(services().rt, execution_id)
    return {"execution_id": row.execution_id, "status": row.status, "version": row.head_version}
