"""Whose secrets a task may open, the fields of an opened secret, and how messages name it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from noetl.errors import ToolError
from noetl.facts.events import Evaluated
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.secret import deeper, describe_secret, is_secret
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
    """The scope of an execution; one without a playbook where it, or its net, is gone."""
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
    return bool(
        entry.get("credential", entry.get("auth")) == describe_secret({"keychain": entry.get("name")})
    )


#: The field of a credential that holds the value of a secret input.
KEPT_AS: Final = "value"


def kept_name(reference: JsonMap) -> str:
    """What the credential is called that holds the value of a secret input. No name that people can
    give has a blank."""
    return f"workload.{reference['input']} {reference['hash']}"


def make_gone(reference: JsonMap) -> ToolError:
    """The error of a secret input that is not kept any more."""
    message = (
        f"{describe_secret(reference)} was given to execution {reference.get('execution')}, and went when "
        "its results did; start it anew."
    )
    return ToolError("auth", message, type="UnknownSecret")


def base_name(reference: JsonMap) -> str:
    """How the whole of a secret is called, whatever field of it a reference means."""
    return describe_secret({key: value for key, value in reference.items() if key != "field"})


def fields_of(value: Json) -> Json:
    """A text that is a JSON mapping has the fields of that."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, Mapping) else value


def pick(value: Json, field: str, reference: JsonMap) -> Json:
    """`field` is dotted. `value` of a text is the text, and `data` of what has none is itself.
    Raises ToolError where there is no such field."""
    rest = field
    while rest:
        if is_secret(value):
            # It is opened together with the entry that it is a part of.
            return deeper(value, rest)
        inner = fields_of(value)
        if isinstance(inner, Mapping) and rest in inner:
            return inner[rest]
        head, _, rest = rest.partition(".")
        if isinstance(inner, Mapping) and head in inner:
            value = inner[head]
        elif isinstance(inner, list) and head.isdecimal() and int(head) < len(inner):
            value = inner[int(head)]
        elif head != "data" and not (head == "value" and isinstance(value, str)):
            raise _no_field(inner, head, reference)
    return value


def _no_field(value: Json, head: str, reference: JsonMap) -> ToolError:
    place = f"keychain.{reference['name']}" if "provider" not in reference and "name" in reference else ""
    place = place or base_name(reference)
    if not isinstance(value, Mapping):
        why = f"{place} has no field {head[:80]!r}: it is a text without fields."
    else:
        why = f"{place} has no field {head[:80]!r}.{did_you_mean(head, map(str, value))}"
    return ToolError("auth", why, type="UnknownField")
