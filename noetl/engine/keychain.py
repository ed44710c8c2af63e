"""The keychain of one execution: entries that are templates, rendered once, before any secret is
opened."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.engine.inputs import Inputs
from noetl.engine.state import State
from noetl.engine.workload import request_names
from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate_at
from noetl.expressions.scope import layered
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import opened
from noetl.facts.secret import called, holds_secret
from noetl.facts.warnings import Warned
from noetl.net.model import Net

#: What is no template whatever stands in it; `data` is one of its own.
_FIXED = frozenset({"name", "kind", "data"})
#: Keys that name something: texts that are not empty, where they are given.
_NAMES = frozenset({"credential", "provider", "path", "field"})
#: Which key of an entry, by its kind, names the credential that its data is kept as.
_KEPT_AS: Mapping[str, str] = {"credential": "credential", "token": "auth"}


def render_keychain(
    net: Net, state: State, inputs: Inputs, workload: JsonMap, warnings: list[Warned]
) -> JsonMap:
    """Name of an entry → the entry as this execution means it; those without templates are left
    out.

    Templates see the workload, `payload`, `execution_id`, `job`, `env` and `now()`: no secrets, for
    what they yield is in the log. The `data` that an entry brings is not: `inputs.keep` takes it,
    the entry names the credential that it becomes, and its templates see other entries, too, as
    references. Raises TemplateError where one fails, and BadRequest for a value that cannot be one
    of a keychain.
    """
    request = {**request_names(state, inputs), "workload": workload}
    early = layered(request, workload)
    own = layered({**request, "keychain": inputs.keychain}, workload)
    found: dict[str, Json] = {}
    for entry in net.keychain:
        try:
            meant = {**_settled_entry(entry, early, inputs, warnings), **_keep(entry, own, inputs, warnings)}
        except TemplateError as error:
            raise TemplateError(f"{_place(entry)}: {error.message}") from error
        except BadRequest as error:
            raise BadRequest(f"{_place(entry)}: {error.message}") from error
        if meant != entry:
            found[str(entry["name"])] = meant
    return found


def _settled_entry(
    entry: JsonMap, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> dict[str, Json]:
    own = {key: value for key, value in entry.items() if key not in _FIXED}
    rendered = _render(_place(entry), own, names, inputs, warnings)
    if rendered != own:
        own = dict(_find_settled(rendered))
    return {**{key: entry[key] for key in ("name", "kind") if key in entry}, **own}


def _keep(
    entry: JsonMap, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> dict[str, Json]:
    """Hands over what the entry brings; what names it instead."""
    data = entry.get("data")
    if not isinstance(data, Mapping):
        return {}
    inputs.keep(_place(entry), _render(_place(entry), data, names, inputs, warnings))
    return {_KEPT_AS[str(entry["kind"])]: _place(entry)}


def _place(entry: JsonMap) -> str:
    """How messages call an entry, and the store what it brings."""
    return called({"keychain": entry["name"]})


def _render(
    place: str, own: JsonMap, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> JsonMap:
    rendered: JsonMap = evaluate_at(place, own, names, warnings, load=inputs.load)
    # A name may have come to the log as a reference, like any other value.
    return rendered if inputs.load is None else opened(rendered, inputs.load)


def _find_settled(rendered: JsonMap) -> Iterator[tuple[str, Json]]:
    for key, value in rendered.items():
        if holds_secret(value):
            raise BadRequest(f"`{key}` is a secret, and would stand in the log; write where it is kept.")
        if key in _NAMES and not (isinstance(value, str) and value):
            raise BadRequest(f"`{key}` comes out as {json.dumps(value)[:80]}; it has to be a name.")
        yield key, _seconds(value) if key == "ttl" else value


def _seconds(value: Json) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise BadRequest(f"`ttl`: {error}") from error
