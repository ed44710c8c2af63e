"""`/api/credentials`: secrets go in and never come out."""

from __future__ import annotations

from noetl.api.answers import CredentialList, CredentialSummary, fields_of
from noetl.api.bodies import CredentialBody
from noetl.api.context import services
from noetl.api.groups import group
from noetl.api.requests import CredentialPath, CredentialQuery
from noetl.facts.json import Json
from noetl.usecases import credentials

api = group("credentials", "/api/credentials", "Secrets for tools, encrypted")


@api.post("", responses={201: CredentialSummary})
def save(body: CredentialBody) -> tuple[dict[str, Json], int]:
    """Create or replace a credential"""
    of = credentials.audience(body.path, body.execution)
    credentials.check_may_keep(services().principal, of)
    row = credentials.save(services().rt, body.name, body.type, body.data, of)
    return fields_of(row, CredentialSummary.model_fields), 201


@api.get("", responses={200: CredentialList}, operation_id="credentials_listed_get")
def list_credentials() -> dict[str, Json]:
    """List credentials, without their data"""
    here = services()
    rows = [row for row in credentials.credentials(here.rt) if credentials.may_know(here.principal, row)]
    return {"credentials": [fields_of(row, CredentialSummary.model_fields) for row in rows]}


@api.delete("/<path:name>", responses={204: None})
def delete(path: CredentialPath, query: CredentialQuery) -> tuple[str, int]:
    """Delete a credential"""
    of = credentials.audience(query.path, query.execution)
    credentials.check_may_keep(services().principal, of)
    credentials.delete(services().rt, path.name, of)
    return "", 204
