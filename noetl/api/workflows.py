"""`/api/workflows`: other names for starting an execution and asking after it."""

from __future__ import annotations

from noetl.api import shapes
from noetl.api.answers import Accepted, ExecutionResult, ExecutionSummary, FinishedExecution
from noetl.api.bodies import WorkflowBody
from noetl.api.executions import acknowledge, result_of
from noetl.api.groups import group
from noetl.api.requests import ExecutionPath, StartHeader, WaitQuery
from noetl.api.services import services
from noetl.facts.json import Json
from noetl.usecases import inspect
from noetl.usecases.start import StartRequest, start

api = group("workflows", "/api/workflows", "Other names for executions")


@api.post("/run", responses={200: FinishedExecution, 202: Accepted})
def run(body: WorkflowBody, header: StartHeader) -> tuple[dict[str, Json], int, dict[str, str]]:
    """Start an execution of a playbook in the catalog

    `Prefer: wait=N` as in `POST /api/executions`.
    """
    rt = services().rt
    path = body.path or body.workflow or ""
    payload = body.payload or body.input or {}
    request = StartRequest(path, body.version, payload, idempotency_key=header.idempotency_key)
    return acknowledge(rt, start(rt, request), header.wait_s)


@api.get("/status/<execution_id>", responses={200: ExecutionSummary})
def status(path: ExecutionPath) -> dict[str, Json]:
    """Tell where an execution is"""
    return shapes.execution(inspect.execution(services().rt, path.execution_id))


@api.get("/result/<execution_id>", responses={200: ExecutionResult})
def result(path: ExecutionPath, query: WaitQuery) -> dict[str, Json]:
    """Show an execution's result

    `wait` as in `GET /api/executions/{execution_id}/result`.
    """
    return result_of(services().rt, path.execution_id, query)
