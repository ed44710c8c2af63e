"""`/api/catalog`: playbooks and their versions."""

from __future__ import annotations

from typing import Any, Final

from noetl.api.answers import PlaybookList, PlaybookRegistered, PlaybookSummary, PlaybookView, fields_of
from noetl.api.bodies import CatalogBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.permissions import check_text, may_read
from noetl.api.playbook_document import playbook_document
from noetl.api.requests import CatalogPath, VersionQuery
from noetl.api.texts import PlaybookOrJson, read_playbook
from noetl.facts.json import Json
from noetl.usecases import catalog
from noetl.usecases.ports import PlaybookRow

api = group("catalog", "/api/catalog", "Playbooks and their versions")
# `register` reads it by itself.
api.take(CatalogBody)

_DOCUMENT: Final[dict[str, Any]] = {
    "description": "The document",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@api.post("", responses={201: PlaybookRegistered})
def register(raw: PlaybookOrJson) -> tuple[dict[str, Json], int, dict[str, str]]:
    """Register a playbook

    Under its `metadata.path`: a new version when the text changed, else the newest one. 422 carries
    every problem of the text with its line and column; `warnings` are those that do not keep it
    from running.
    """
    body = read_playbook(raw, CatalogBody, "content")
    row = catalog.register(services().rt, body.content, strict=body.strict, check=check_text)
    return _describe(row), 201, {"Location": f"/api/catalog/{row.path}?version={row.version}"}


def _describe(row: PlaybookRow) -> dict[str, Json]:
    return {**fields_of(row, PlaybookSummary.model_fields), "warnings": catalog.warnings_of(row)}


@api.get("", responses={200: PlaybookList})
def playbooks() -> dict[str, Json]:
    """List the newest version of every playbook"""
    is_visible = may_read(services().principal)
    rows = [row for row in catalog.playbooks(services().rt) if is_visible(row.path)]
    return {"playbooks": [fields_of(row, PlaybookSummary.model_fields) for row in rows]}


@api.get("/<path:path>/openapi.json", responses={200: _DOCUMENT})
def inputs(path: CatalogPath, query: VersionQuery) -> dict[str, Json]:
    """Describe how a playbook is started

    An OpenAPI 3.1 document of that version alone: its start, with the JSON Schema of the inputs
    that it declares.
    """
    rt = services().rt
    row = catalog.playbook(rt, path.path, query.version)
    return playbook_document(row, catalog.net_of_version(rt, row))


@api.get("/<path:path>", responses={200: PlaybookView})
def playbook(path: CatalogPath, query: VersionQuery) -> dict[str, Json]:
    """Show a playbook"""
    rt = services().rt
    row = catalog.playbook(rt, path.path, query.version)
    return {
        **_describe(row),
        "content": row.content,
        "content_sha256": row.content_sha256,
        "versions": [one.version for one in catalog.versions(rt, path.path)],
    }
