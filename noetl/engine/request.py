"""What an execution is given: payload and overrides, held against the workload and what templates
read; and its keychain, whose entries may be templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.engine.workload import request_names
from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate_at
from noetl.expressions.scope import layer_names
from noetl.facts import json
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import open_references
from noetl.facts.secret import describe_secret, holds_secret
from noetl.facts.warnings import Warned
from noetl.net.model import Net

#: What a key of `overrides` begins with that the workload is meant not to have.
ADDS: Final = "+"
#: Keys that are warned of, of one payload.
_MOST: Final = 20

_Path: TypeAlias = tuple[str, ...]


def check_overrides(plan: Plan, payload: JsonMap, overrides: JsonMap) -> JsonMap:
    """`overrides` without the marks of keys that they add. Raises BadRequest for a key that nothing
    declares or reads."""
    plain, added = split_added(overrides)
    declared: JsonMap = deep_merge(deep_merge(plan.net.workload, payload), added)
    for path in unknown_keys(plan, plain, declared):
        name = ".".join(path)
        raise BadRequest(
            f"The workload of playbook {plan.net.path!r} has no {name!r} to set, and no template reads it."
            f"{_suggestion(plan, declared, path)} Write {ADDS + name!r} to add a new key."
        )
    merged: JsonMap = deep_merge(plain, added)
    return merged


def split_added(overrides: JsonMap) -> tuple[JsonMap, JsonMap]:
    """Those that change a key, and those that add one, without their mark."""
    added = {key[len(ADDS) :]: value for key, value in overrides.items() if key.startswith(ADDS)}
    return {key: value for key, value in overrides.items() if not key.startswith(ADDS)}, added


def unread_keys(plan: Plan, payload: JsonMap) -> list[JsonMap]:
    """`{message, place}` of the keys of `payload` that the workload does not declare and no
    template reads."""
    return [_warning(plan, path) for path in islice(unknown_keys(plan, payload, plan.net.workload), _MOST)]


def _warning(plan: Plan, path: _Path) -> JsonMap:
    name = ".".join(path)
    message = (
        f"The workload has no {name!r}, and no template reads it: what the payload says there is not used."
    )
    return {"message": message + _suggestion(plan, plan.net.workload, path), "place": f"payload.{name}"}


def _suggestion(plan: Plan, declared: JsonMap, path: _Path) -> str:
    *above, key = path
    beside: Json = declared
    for part in above:
        beside = beside[part]
    below = (chain for chain in plan.inputs_read or () if len(chain) > len(above))
    read = {chain[len(above)] for chain in below if chain[: len(above)] == path[:-1]}
    return did_you_mean(key, sorted({*beside, *read}))


def unknown_keys(plan: Plan, given: JsonMap, declared: JsonMap) -> Iterator[_Path]:
    """The paths of keys in `given` that `declared` does not have and no template reads."""
    if plan.inputs_read is None:
        return
    for path in _find_undeclared(given, declared, ()):
        if not any(_touches(chain, path) for chain in (*plan.inputs_read, *plan.names_read)):
            yield path


def _find_undeclared(given: JsonMap, declared: JsonMap, above: _Path) -> Iterable[_Path]:
    for key, value in given.items():
        path = (*above, str(key))
        if key not in declared:
            yield path
        elif isinstance(value, Mapping) and isinstance(declared[key], Mapping) and declared[key]:
            yield from _find_undeclared(value, declared[key], path)


def _touches(chain: _Path, path: _Path) -> bool:
    """Whether a template that reads `chain` reads what is at `path`, or a part of it, or something
    that holds it."""
    length = min(len(chain), len(path))
    return chain[:length] == path[:length]


#: Keys that are not rendered with the entry; `data` is rendered apart.
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
    early = layer_names(request, workload)
    own = layer_names({**request, "keychain": inputs.keychain}, workload)
    found: dict[str, Json] = {}
    for entry in net.keychain:
        try:
            meant = {**_settle_entry(entry, early, inputs, warnings), **_keep(entry, own, inputs, warnings)}
        except TemplateError as error:
            raise TemplateError(f"{_place(entry)}: {error.message}") from error
        except BadRequest as error:
            raise BadRequest(f"{_place(entry)}: {error.message}") from error
        if meant != entry:
            found[str(entry["name"])] = meant
    return found


def _settle_entry(
    entry: JsonMap, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> dict[str, Json]:
    own = {key: value for key, value in entry.items() if key not in _FIXED}
    rendered = _render(_place(entry), own, names, inputs, warnings)
    if rendered != own:
        own = dict(_check_rendered(rendered))
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
    return describe_secret({"keychain": entry["name"]})


def _render(
    place: str, own: JsonMap, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> JsonMap:
    rendered: JsonMap = evaluate_at(place, own, names, warnings, load=inputs.load)
    # A name may have come to the log as a reference, like any other value.
    return rendered if inputs.load is None else open_references(rendered, inputs.load)


def _check_rendered(rendered: JsonMap) -> Iterator[tuple[str, Json]]:
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
