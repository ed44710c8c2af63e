"""`/api/credentials`: secrets go in and never come out."""

from __future__ import annotations

from noetl.api.answers import CredentialList, CredentialSummary, fields_of
from noetl.api.bodies import CredentialBody
from noetl.api.context import group, services
from noetl.api.permissions import check_below, check_whole
from noetl.api.requests import CredentialPath, CredentialQuery
from noetl.facts.json import Json
from noetl.usecases import credentials
from noetl.usecases.ports import CredentialRow

api = group("credentials", "/api/credentials", "Secrets for tools, encrypted")


@api.post("", responses={201: CredentialSummary})
def save(body: CredentialBody) -> tuple[dict[str, Json], int]:
    """Create or replace a credential"""
    of = credentials.audience(body.path, body.execution)
    _check(of)
    row = credentials.save(services().rt, body.name, body.type, body.data, of)
    return fields_of(row, CredentialSummary.model_fields), 201


@api.get("", responses={200: CredentialList}, operation_id="credentials_listed_get")
def list_credentials() -> dict[str, Json]:
    """List credentials, without their data"""
    rows = [row for row in credentials.credentials(services().rt) if _is_visible(row)]
    return {"credentials": [fields_of(row, CredentialSummary.model_fields) for row in rows]}


def _is_visible(row: CredentialRow) -> bool:
    principal = services().principal
    return principal.may("admin") or (row.scope == "path" and principal.may_below("admin", row.place))


def _check(of: credentials.Audience) -> None:
    """Raises Forbidden for a credential of others' playbooks."""
    if of.scope == "path":
        check_below("admin", of.place)
    else:
        check_whole("admin")


@api.delete("/<path:name>", responses={204: None})
def delete(path: CredentialPath, query: CredentialQuery) -> tuple[str, int]:
    """Delete a credential"""
    of = credentials.audience(query.path, query.execution)
    _check(of)
    credentials.delete(services().rt, path.name, of)
    return "", 204
