"""`/api/executions/{id}/export` and `/api/executions/import`: an execution as a file."""

from __future__ import annotations

import itertools
from typing import Final

from flask import Response
from flask_openapi3.models import RawModel
from pydantic import Field

from noetl.api.answers import ExecutionView, JsonObject, Links
from noetl.api.context import services
from noetl.api.executions import links
from noetl.api.groups import group
from noetl.api.guards import IMPORT as IMPORT
from noetl.api.guards import LINES
from noetl.api.requests import ExecutionPath
from noetl.api.wire import body_of
from noetl.facts.json import Json
from noetl.usecases import specimens
from noetl.usecases.fixtures import make_fixture

#: Bytes of a file.
MAX_FILE: Final = 64 * 1024 * 1024

api = group("specimens", "/api/executions", "Executions as files")

_FILE: Final[JsonObject] = {
    "description": "JSON lines, each with a hash that covers all before it",
    "content": {LINES: {"schema": {"type": "string"}}},
}


YAML: Final = "application/yaml"
_TESTS: Final[JsonObject] = {
    "description": "a file of tests",
    "content": {YAML: {"schema": {"type": "string"}}},
}


class SpecimenView(ExecutionView):
    """An execution that was imported."""

    path: str
    version: int = Field(description="of the playbook")
    events: int
    results: int = Field(description="large results that its file holds")
    left_out: int = Field(description="what it does not hold: large results, or what was printed")
    is_new: bool = Field(description="it was not here before")
    links: Links


class SpecimenFile(RawModel):
    """What an export answered, byte for byte."""

    mimetypes = [LINES]  # noqa: RUF012 - the library's attribute


@api.get("/<execution_id>/export", responses={200: _FILE})
def export(path: ExecutionPath) -> Response:
    """Export an execution as a file

    Its playbook, its net, its events as they are now, what its tasks printed (up to 4 MiB), and the
    results that events refer to (up to 4 MiB each, 16 MiB together), as JSON lines. The last line
    says what was left out; without it the file is cut off. No secret stands in it that does not
    stand in the log.
    """
    lines = specimens.export(services().rt, path.execution_id)
    # Read now, while an error can still be answered.
    first = next(lines)
    name = f"{path.execution_id}.noetl.jsonl"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(itertools.chain([first], lines), mimetype=LINES, headers=headers)


@api.get("/<execution_id>/fixture", responses={200: _TESTS})
def fixture(path: ExecutionPath) -> Response:
    """Make a test of an execution

    A file for `noetl test` that this execution would pass: what it was given, what it recorded in
    the place of its calls, and how it went. Secrets and values that are too large are left out,
    which the file says. An execution that still runs, or was cancelled, is refused (400).
    """
    made = make_fixture(services().rt, path.execution_id)
    name = f"{path.execution_id}.test.yaml"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(made.as_yaml(), mimetype=YAML, headers=headers)


@api.post("/import", responses={201: SpecimenView})
def import_(raw: SpecimenFile) -> tuple[dict[str, Json], int, dict[str, str]]:
    """Import an exported execution, to look at it

    It is shown like any other; it never goes on, and nothing changes it (409). A file that is not
    what was exported is refused (400) with the first line at fault, and one whose execution is here
    with other events as well (409); the same file once more finds what is here.
    """
    rt = services().rt
    found = specimens.keep(rt, specimens.check(rt, body_of(raw).splitlines()))
    row = found.row
    answer = {
        "execution_id": row.execution_id,
        "status": row.status,
        "path": row.path,
        "version": row.playbook_version,
        "events": row.head_version,
        "results": found.results,
        "left_out": found.left_out,
        "is_new": found.is_new,
        "links": links(row.execution_id),
    }
    return answer, 201, {"Location": f"/api/executions/{row.execution_id}"}
