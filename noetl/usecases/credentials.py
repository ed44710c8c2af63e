"""Credentials: encrypted before they reach the store, opened only for a tool call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.errors import BadRequest, NotFound, ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.usecases.credential_types import TYPES, fault
from noetl.usecases.ports import CredentialRow, Store
from noetl.usecases.runtime import Runtime

__all__ = ["TYPES", "credentials", "delete", "reveal", "save"]


def save(
    rt: Runtime, encrypt: Callable[[JsonMap], bytes], name: str, type: str, data: JsonMap
) -> CredentialRow:
    """Creates or replaces. Raises BadRequest for a bad name, type or data."""
    if not name or len(name) > 128 or not all(c.isalnum() or c in "-_./" for c in name):
        raise BadRequest(f"{name!r} is not a credential name: use letters, digits, `-`, `_`, `.` and `/`.")
    if type not in TYPES:
        raise BadRequest(
            f"{type!r} is not a credential type ({', '.join(TYPES)}).{did_you_mean(type, TYPES)}"
        )
    if not data:
        raise BadRequest("The data of a credential is a JSON object with at least one field.")
    wrong = fault(type, data)
    if wrong is not None:
        raise BadRequest(f"Credential {name!r} cannot be kept: {wrong}.")
    now = rt.clock()
    with rt.store.begin() as tx:
        before = tx.credential(name)
        row = CredentialRow(name, type, encrypt(data), before.created_at if before else now, now)
        tx.save_credential(row)
    return row


def credentials(rt: Runtime) -> list[CredentialRow]:
    """All, by name; their data stays encrypted."""
    with rt.store.read() as tx:
        return tx.credentials()


def delete(rt: Runtime, name: str) -> None:
    """Raises NotFound with the nearest name."""
    with rt.store.begin() as tx:
        if not tx.delete_credential(name):
            hint = did_you_mean(name, (row.name for row in tx.credentials()))
            raise NotFound(f"There is no credential {name!r}.{hint}")


def reveal(store: Store, decrypt: Callable[[bytes], Mapping[str, Json]], name: str) -> Mapping[str, Json]:
    """The data of a credential, for a tool, with its `type`. Raises ToolError of kind `auth`."""
    with store.read() as tx:
        row = tx.credential(name)
        if row is None:
            hint = did_you_mean(name, (one.name for one in tx.credentials()))
            raise ToolError("auth", f"There is no credential {name!r}.{hint}", type="UnknownCredential")
    # A credential that is of no use to a tool is known by its type; what its data says itself wins.
    return {"type": row.type, **decrypt(row.data)}
