"""`/api/credentials`: secrets go in and never come out."""

from __future__ import annotations

from noetl.api import shapes
from noetl.api.bodies import CredentialBody
from noetl.api.definitions import CredentialList, CredentialSummary
from noetl.api.groups import group
from noetl.api.requests import CredentialPath, CredentialQuery
from noetl.api.services import services
from noetl.facts.json import Json
from noetl.usecases import credentials

api = group("credentials", "/api/credentials", "Secrets for tools, encrypted")


@api.post("", responses={201: CredentialSummary})
def save(body: CredentialBody) -> tuple[dict[str, Json], int]:
    """Create or replace a credential"""
    here = services()
    of = credentials.audience(body.path, body.execution)
    row = credentials.save(here.rt, body.name, body.type, body.data, of)
    return shapes.credential(row), 201


@api.get("", responses={200: CredentialList})
def listed() -> dict[str, Json]:
    """List credentials, without their data"""
    return {"credentials": [shapes.credential(row) for row in credentials.credentials(services().rt)]}


@api.delete("/<path:name>", responses={204: None})
def delete(path: CredentialPath, query: CredentialQuery) -> tuple[str, int]:
    """Delete a credential"""
    credentials.delete(services().rt, path.name, credentials.audience(query.path, query.execution))
    return "", 204
