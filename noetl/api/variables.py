"""`/api/vars`: the ctx of an execution, name by name."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from noetl.api.answers import ExecutionStanding, JsonObject, WireModel, fields_of
from noetl.api.bodies import ValueBody
from noetl.api.context import services
from noetl.api.executions import stand
from noetl.api.groups import group
from noetl.api.requests import ExecutionPath, PatchHeader, VariablePath
from noetl.facts.json import Json
from noetl.usecases import control
from noetl.usecases.variables import CtxVariable, JsonType, VariableWrite, WriteCause, variable, variables

api = group("variables", "/api/vars", "The ctx of an execution")


class VariableSource(WireModel):
    """The newest assignment of it, or within it."""

    cause: WriteCause = Field(
        description="where it was assigned: `client` from outside, `start` by what the playbook begins with"
    )
    version: int = Field(description="of the event")
    step: str | None
    run_id: str | None
    iteration: int | None
    task: str | None = Field(description="where a task assigned it")
    principal: str | None = Field(description="who asked for it from outside")


class VariableView(WireModel):
    """What is known of a variable besides its value."""

    type: JsonType = Field(description="what JSON calls the value; `reference` to a large one")
    recorded_at: str | None = Field(description="when it was assigned, UTC")
    source: VariableSource | None


class VariableValues(WireModel):
    execution_id: str
    version: int
    vars: JsonObject
    about: dict[str, VariableView] = Field(description="by the names of `vars`")


class VariableValue(VariableView):
    execution_id: str
    name: str
    value: Any


@api.get("/<execution_id>", responses={200: VariableValues})
def list_variables(path: ExecutionPath) -> dict[str, Json]:
    """Show all names in ctx

    `about` says of each its type, and when and by what it was assigned.
    """
    found = variables(services().rt, path.execution_id)
    return {
        "execution_id": path.execution_id,
        "version": found.version,
        "vars": {name: one.value for name, one in found.by_name.items()},
        "about": {name: _view(one) for name, one in found.by_name.items()},
    }


@api.get("/<execution_id>/<name>", responses={200: VariableValue})
def show(path: VariablePath) -> dict[str, Json]:
    """Show one name, its type, and when and by what it was assigned"""
    found = variable(services().rt, path.execution_id, path.name)
    return {"execution_id": path.execution_id, "name": path.name, "value": found.value, **_view(found)}


def _view(found: CtxVariable) -> dict[str, Json]:
    write = found.write
    return {
        "type": found.type,
        "recorded_at": write.recorded_at.isoformat() if write else None,
        "source": _source(write) if write else None,
    }


def _source(write: VariableWrite) -> dict[str, Json]:
    return fields_of(write, VariableSource.model_fields)


@api.put("/<execution_id>/<name>", responses={200: ExecutionStanding})
def assign(path: VariablePath, body: ValueBody, header: PatchHeader) -> dict[str, Json]:
    """Assign one name

    With `If-Match` only where the execution is still at that version, else 409.
    """
    control.patch_ctx(services().rt, path.execution_id, {path.name: body.value}, header.expected_version)
    return stand(path.execution_id)
