"""Failures, grouped, and operations on many executions at once."""

from __future__ import annotations

from noetl.api.again import retry_request
from noetl.api.answers import fields_of
from noetl.api.bodies import OperationBody, ReasonBody
from noetl.api.context import services
from noetl.api.executions import api as executions_api
from noetl.api.groups import group
from noetl.api.operation_answers import (
    FailureGroups,
    OperationItems,
    OperationList,
    OperationPlan,
    OperationView,
)
from noetl.api.requests import (
    FailuresQuery,
    OperationItemsQuery,
    OperationPath,
    OperationsQuery,
    RetryQuery,
)
from noetl.facts.json import Json
from noetl.usecases.fleet import operations, planning
from noetl.usecases.fleet.failures import failures
from noetl.usecases.fleet.planning import FleetRequest

api = group("operations", "/api/operations", "What is done to many executions at once")


@executions_api.get("/failures", responses={200: FailureGroups})
def grouped_failures(query: FailuresQuery) -> dict[str, Json]:
    """Group failed executions by what they failed of

    Failures of one fingerprint have the same kind, type, step, task, and message but for what
    varies in it: numbers, ids, instants, paths, quoted text.
    """
    return failures(services().rt, query.where, services().principal.visible()).as_json()


@api.post("", responses={200: OperationPlan, 202: OperationView}, operation_id="operation_begin")
def begin(query: RetryQuery, body: OperationBody) -> tuple[dict[str, Json], int]:
    """Run many ended executions again

    Which ones is fixed now; those that were run again already are left out, since their retries
    stand for them. The sweeper begins them, at most `concurrency` at once. With `dry_run` the
    answer is the plan for all of them, and nothing is started. Where calls would be made again that
    may have had effects, `confirm` says that this is meant, else 409.
    """
    rt = services().rt
    how = retry_request(rt, "", body, confirmed=query.confirm)
    among = services().principal.reach("operate")
    wanted = FleetRequest(body.where, how, body.concurrency, body.limit, among, body.reason)
    if query.dry_run:
        return planning.plan(rt, wanted).as_json(), 200
    return operations.begin(rt, wanted).as_json(), 202


@api.get("", responses={200: OperationList}, operation_id="operation_list")
def list_operations(query: OperationsQuery) -> dict[str, Json]:
    """List operations, newest first

    Of a token that is for some playbooks only, those that its principal asked for.
    """
    principal = services().principal
    whose = None if principal.may("read") else principal.name
    found = operations.operations(services().rt, principal=whose, before=query.before, limit=query.limit + 1)
    page = found[: query.limit]
    return {
        "operations": [one.as_json() for one in page],
        "next": page[-1].row.operation_id if len(found) > query.limit else None,
    }


@api.get("/<operation_id>", responses={200: OperationView}, operation_id="operation_show")
def show(path: OperationPath) -> dict[str, Json]:
    """Tell how far an operation is"""
    return operations.operation(services().rt, path.operation_id).as_json()


@api.get("/<operation_id>/items", responses={200: OperationItems}, operation_id="operation_items")
def items(path: OperationPath, query: OperationItemsQuery) -> dict[str, Json]:
    """List what becomes of each execution of an operation"""
    found = operations.items(
        services().rt, path.operation_id, state=query.state, after=query.after, limit=query.limit + 1
    )
    page = found[: query.limit]
    names = ("position", "execution_id", "state", "begun_id", "reason")
    return {
        "items": [fields_of(item, names) for item in page],
        "next": page[-1].position if len(found) > query.limit else None,
    }


@api.post("/<operation_id>/cancel", responses={202: OperationView}, operation_id="operation_cancel")
def cancel(path: OperationPath, body: ReasonBody) -> tuple[dict[str, Json], int]:
    """Cancel an operation

    It begins nothing more; what it has begun goes on.
    """
    return operations.cancel(services().rt, path.operation_id, body.reason).as_json(), 202


@api.post("/<operation_id>/pause", responses={202: OperationView}, operation_id="operation_pause")
def pause(path: OperationPath, body: ReasonBody) -> tuple[dict[str, Json], int]:
    """Pause an operation

    It begins nothing more until it is resumed; what it has begun goes on.
    """
    return operations.pause(services().rt, path.operation_id, body.reason).as_json(), 202


@api.post("/<operation_id>/resume", responses={202: OperationView}, operation_id="operation_resume")
def resume(path: OperationPath) -> tuple[dict[str, Json], int]:
    """Resume an operation that was paused"""
    return operations.resume(services().rt, path.operation_id).as_json(), 202
