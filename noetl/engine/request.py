"""What an execution is given, held against what its playbook knows: the workload, and what
templates read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from noetl.engine.plan import Plan
from noetl.errors import BadRequest
from noetl.facts.json import Json, JsonMap, deep_merge
from noetl.facts.nearest import did_you_mean

#: What a key of `overrides` begins with that the workload is meant not to have.
ADDS: Final = "+"
#: Keys that are warned of, of one payload.
_MOST: Final = 20

_Path: TypeAlias = tuple[str, ...]


def check_overrides(plan: Plan, payload: JsonMap, overrides: JsonMap) -> JsonMap:
    """`overrides` without the marks of keys that they add. Raises BadRequest for a key that nothing
    declares or reads."""
    added = {key[len(ADDS) :]: value for key, value in overrides.items() if key.startswith(ADDS)}
    plain = {key: value for key, value in overrides.items() if not key.startswith(ADDS)}
    declared: JsonMap = deep_merge(deep_merge(plan.net.workload, payload), added)
    for path in unknown_keys(plan, plain, declared):
        name = ".".join(path)
        raise BadRequest(
            f"The workload of playbook {plan.net.path!r} has no {name!r} to set, and no template reads it."
            f"{_suggestion(plan, declared, path)} Write {ADDS + name!r} to add a new key."
        )
    merged: JsonMap = deep_merge(plain, added)
    return merged


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
    read = {chain[len(above)] for chain in plan.inputs_read or () if _is_below(chain, tuple(above))}
    return did_you_mean(key, sorted({*beside, *read}))


def _is_below(chain: _Path, above: _Path) -> bool:
    return len(chain) > len(above) and chain[: len(above)] == above


def unknown_keys(plan: Plan, given: JsonMap, declared: JsonMap) -> Iterator[_Path]:
    """The paths of keys in `given` that `declared` does not have and no template reads."""
    if plan.inputs_read is None:
        return
    for path in _undeclared_paths(given, declared, ()):
        if not any(_touches(chain, path) for chain in (*plan.inputs_read, *plan.names_read)):
            yield path


def _undeclared_paths(given: JsonMap, declared: JsonMap, above: _Path) -> Iterable[_Path]:
    for key, value in given.items():
        path = (*above, str(key))
        if key not in declared:
            yield path
        elif isinstance(value, Mapping) and isinstance(declared[key], Mapping) and declared[key]:
            yield from _undeclared_paths(value, declared[key], path)


def _touches(chain: _Path, path: _Path) -> bool:
    """Whether a template that reads `chain` reads what is at `path`, or a part of it, or something
    that holds it."""
    length = min(len(chain), len(path))
    return chain[:length] == path[:length]
