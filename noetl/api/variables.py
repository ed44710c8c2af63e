"""`/api/vars`: the ctx of an execution, name by name."""

from __future__ import annotations

from noetl.api import shapes
from noetl.api.answers import ExecutionStanding, VariableValue, VariableValues
from noetl.api.bodies import ValueBody
from noetl.api.groups import group
from noetl.api.requests import ExecutionPath, PatchHeader, VariablePath
from noetl.api.services import services
from noetl.facts.json import Json
from noetl.usecases import control, inspect

api = group("variables", "/api/vars", "The ctx of an execution")


@api.get("/<execution_id>", responses={200: VariableValues})
def variables(path: ExecutionPath) -> dict[str, Json]:
    """Show all names in ctx"""
    view = inspect.state_view(services().rt, path.execution_id)
    return {"execution_id": path.execution_id, "version": view["version"], "vars": view["ctx"]}


@api.get("/<execution_id>/<name>", responses={200: VariableValue})
def variable(path: VariablePath) -> dict[str, Json]:
    """Show one name"""
    value = inspect.variable(services().rt, path.execution_id, path.name)
    return {"execution_id": path.execution_id, "name": path.name, "value": value}


@api.put("/<execution_id>/<name>", responses={200: ExecutionStanding})
def assign(path: VariablePath, body: ValueBody, header: PatchHeader) -> dict[str, Json]:
    """Assign one name

    With `If-Match` only where the execution is still at that version, else 409.
    """
    rt = services().rt
    control.patch_ctx(rt, path.execution_id, {path.name: body.value}, header.expected_version)
    return shapes.stands(inspect.execution(rt, path.execution_id))
