"""Whose secrets a task may open: those of its execution, of its playbook's path, and of that
playbook's keychain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noetl.facts.events import Evaluated
from noetl.facts.json import JsonMap
from noetl.facts.secret import called
from noetl.net.codec import from_json
from noetl.usecases.ports import Transaction


@dataclass(frozen=True, slots=True)
class SecretScope:
    """Whose secrets: an execution, the path of its playbook, and that playbook's keychain by
    name."""

    execution_id: str = ""
    path: str = ""
    keychain: Mapping[str, JsonMap] = field(default_factory=dict)


def read_scope(tx: Transaction, execution_id: str) -> SecretScope:
    """The scope of an execution; that of nobody's playbook where it, or its net, is gone."""
    row = tx.executions.get(execution_id)
    body = None if row is None else tx.nets.get(row.digest)
    if row is None or body is None:
        return SecretScope(execution_id)
    keychain = {str(entry["name"]): entry for entry in from_json(body).keychain if "name" in entry}
    return SecretScope(execution_id, row.path, {**keychain, **_read_rendered(tx, execution_id)})


def _read_rendered(tx: Transaction, execution_id: str) -> Mapping[str, JsonMap]:
    """The entries that are templates, as they were rendered when the execution was evaluated."""
    for event in tx.events.read(execution_id, limit=1, types=(Evaluated.type,)):
        if isinstance(event.fact, Evaluated):
            return event.fact.keychain
    return {}


def is_own(reference: JsonMap, scope: SecretScope) -> bool:
    """Whether the entry that is meant brings its own values."""
    entry = scope.keychain.get(str(reference.get("keychain")), {})
    return bool(entry.get("credential", entry.get("auth")) == called({"keychain": entry.get("name")}))
