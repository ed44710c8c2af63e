"""Forms of one key, told apart by what stands there: so that a fault is found in the form that was
meant.

`anyOf` says of a wrong arc no more than that `next` is neither a text nor a list nor an arc nor a
router. Here the type of what stands there decides, of mappings the keys that they have, and the
form that was meant says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_MAPPINGS: Final = "object"


def _has(*keys: str) -> Schema:
    return {"anyOf": [{"required": [key]} for key in keys]}


#: The label of a task, with the task below it.
_LABEL: Final[Schema] = {"maxProperties": 1, "minProperties": 1, "additionalProperties": {"type": "object"}}
#: Of several forms that are mappings: by which keys each is known. One may have none, and is what
#: the others are not.
_KNOWN_BY: Final[Mapping[str, Schema]] = {
    "Arc": {**_has("step", "then", "else"), "not": _has("arcs", "spec")},
    "Destination": _has("step"),
    "Target": _has("step"),
    "NamedTask": {**_has("tool"), "not": _has("kind")},
    "NamedActions": _has("actions"),
    "ElseThen": _has("then"),
    "ElseAllow": _has("then"),
}
_REF: Final = "#/$defs/"


def told_apart(node: Any, parts: Mapping[str, Schema]) -> Any:
    """`node` with every union in it as conditions. `parts` are the models by name."""
    if isinstance(node, list):
        return [told_apart(inner, parts) for inner in node]
    if not isinstance(node, dict):
        return node
    made = {key: told_apart(inner, parts) for key, inner in node.items() if key not in ("anyOf", "oneOf")}
    union = node.get("anyOf") or node.get("oneOf")
    if union is None:
        return made
    branches = [told_apart(branch, parts) for branch in _flat(union)]
    return {**made, **_conditions(branches, parts)}


def _flat(union: list[Any]) -> list[Any]:
    """Forms of forms are forms."""
    found: list[Any] = []
    for branch in union:
        inner = branch.get("anyOf") or branch.get("oneOf")
        found += [branch] if inner is None else _flat(inner)
    return found


def _conditions(branches: list[Schema], parts: Mapping[str, Schema]) -> Schema:
    """What is to hold for each type of what stands there; any of `branches` where no type tells
    them apart."""
    by_type: dict[str, list[Schema]] = {}
    for branch in branches:
        for name in _types(branch):
            by_type.setdefault(name, []).append(branch)
    if any(len(found) > 1 for name, found in by_type.items() if name != _MAPPINGS):
        # An integer is a number, too: what is said of one is said of the other.
        return {"anyOf": branches}
    rules = [rule for name, found in by_type.items() if (rule := _rule(name, found, parts))]
    types = [name for name in _TYPES if name in by_type]
    told: Schema = {} if len(types) == len(_TYPES) else {"type": types if len(types) > 1 else types[0]}
    return {**told, **({"allOf": rules} if rules else {})}


def _types(branch: Schema) -> tuple[str, ...]:
    if "$ref" in branch:
        return (_MAPPINGS,)
    found = branch.get("type")
    if found is None:
        values = branch.get("enum", [branch["const"]] if "const" in branch else None)
        return _TYPES if values is None else ("string",)
    return tuple(found) if isinstance(found, list) else (found,)


def _rule(name: str, found: list[Schema], parts: Mapping[str, Schema]) -> Schema | None:
    meant = _of_mappings(found, parts) if name == _MAPPINGS else found[0]
    more = {key: inner for key, inner in meant.items() if key != "type"}
    return {"if": {"type": name}, "then": more} if more else None


def _of_mappings(found: list[Schema], parts: Mapping[str, Schema]) -> Schema:
    """A chain of conditions that ends with the form that is not known by a key."""
    known = [(condition, one) for one in found if (condition := _known_by(one, found, parts)) is not None]
    others = [one for one in found if _known_by(one, found, parts) is None]
    if len(found) == 1 or len(others) != 1:
        return found[0] if len(found) == 1 else {"anyOf": found}
    chain = others[0]
    for condition, one in reversed(known):
        chain = {"if": condition, "then": one, "else": chain}
    return chain


def _known_by(branch: Schema, found: list[Schema], parts: Mapping[str, Schema]) -> Schema | None:
    name = branch.get("$ref", "").removeprefix(_REF)
    if name == "ResultSpec":
        return _has(*parts[name]["properties"])
    if name in _KNOWN_BY:
        return _KNOWN_BY[name]
    if isinstance(branch.get("additionalProperties"), dict) and _holds_itself(branch, found):
        # A task without a kind and with one key is a label, whatever it is called.
        tools = any(one.get("$ref") == f"{_REF}Tool" for one in found)
        return {**_LABEL, **({"not": _has("kind")} if tools else {})}
    return None


def _holds_itself(branch: Schema, found: list[Schema]) -> bool:
    return branch["additionalProperties"] in found
