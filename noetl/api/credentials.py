"""`/api/credentials`: secrets go in and never come out."""

from __future__ import annotations

from noetl.api.answers import CredentialList, CredentialSummary, fields_of
from noetl.api.bodies import CredentialBody
from noetl.api.context import group, services
from noetl.api.requests import CredentialPath, CredentialQuery
from noetl.facts.json import Json
from noetl.usecases import credentials

api = group("credentials", "/api/credentials", "Secrets for tools, encrypted")


@api.post("", responses={201: CredentialSummary})
def save(body: CredentialBody) -> tuple[dict[str, Json], int]:
    """Create or replace a credential"""
    of = credentials.audience(body.path, body.execution)
    row = credentials.save(services().rt, body.name, body.type, body.data, of)
    return fields_of(row, CredentialSummary.model_fields), 201


@api.get("", responses={200: CredentialList}, operation_id="credentials_listed_get")
def list_credentials() -> dict[str, Json]:
    """List credentials, without their data"""
    return {
        "credentials": [
            fields_of(row, CredentialSummary.model_fields) for row in credentials.credentials(services().rt)
        ]
    }


@api.delete("/<path:name>", responses={204: None})
def delete(path: CredentialPath, query: CredentialQuery) -> tuple[str, int]:
    """Delete a credential"""
    credentials.delete(services().rt, path.name, credentials.audience(query.path, query.execution))
    return "", 204
