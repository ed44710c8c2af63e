"""Credentials that an execution makes for itself: the `data` of entries of its keychain."""

from __future__ import annotations

from datetime import datetime

from noetl.errors import ConfigError, TemplateError
from noetl.facts.json import JsonMap
from noetl.usecases.credential_types import TYPES
from noetl.usecases.ports import CredentialRow
from noetl.usecases.runtime import Runtime


def make_credential(rt: Runtime, execution_id: str, name: str, data: JsonMap, now: datetime) -> CredentialRow:
    """What only this execution has, and loses when it has ended. Raises TemplateError where there
    is no key."""
    try:
        sealed = rt.encrypt(data)
    except ConfigError as error:
        raise TemplateError(f"it cannot be kept: {error}") from error
    said = data.get("type")
    type = said if said in TYPES else "generic"
    return CredentialRow(name, type, sealed, now, now, "execution", execution_id)
