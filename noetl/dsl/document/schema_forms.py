"""Forms of one key, told apart by what stands there: so that a fault is found in the form that was
meant.

`anyOf` says of a wrong arc no more than that `next` is neither a text nor a list nor an arc nor a
router. Here the type of what stands there decides, of mappings the keys that they have, and the
form that was meant says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from noetl.dsl.document.retries import CLASSIC_KEYS

Schema: TypeAlias = dict[str, Any]

_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_MAPPINGS: Final = "object"
REF: Final = "#/$defs/"
#: Of a mapping that has no other keys than its properties and those that are the author's.
CLOSED: Final[Schema] = {"patternProperties": {"^x-": {}}, "additionalProperties": False}


def has_any(*keys: str) -> Schema:
    """A mapping with any of `keys`."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def if_then(condition: Schema, then: Schema, other: Schema | None = None) -> Schema:
    """`then` where `condition` holds, else `other`."""
    return {"if": condition, "then": then, **({"else": other} if other is not None else {})}


def branches_of(node: Schema) -> list[Schema]:
    """The forms of `node`, those of its forms among them; `node` itself where it has one."""
    inner = node.get("anyOf") or node.get("oneOf")
    return [node] if inner is None else [branch for one in inner for branch in branches_of(one)]


#: The label of a task, with the task below it.
_LABEL: Final[Schema] = {"maxProperties": 1, "minProperties": 1, "additionalProperties": {"type": "object"}}
#: Of several forms that are mappings: by which keys each is known. One may have none, and is what
#: the others are not.
_KNOWN_BY: Final[Mapping[str, Schema]] = {
    "Arc": {**has_any("step", "then", "else"), "not": has_any("arcs", "spec")},
    "Destination": has_any("step"),
    "Target": has_any("step"),
    "NamedTask": {**has_any("tool"), "not": has_any("kind")},
    "NamedActions": has_any("actions"),
    "Retry": {
        "anyOf": [
            has_any(*sorted(CLASSIC_KEYS)),
            {"required": ["backoff"], "properties": {"backoff": {"type": "number"}}},
        ]
    },
    "ElseThen": has_any("then"),
    "ElseAllow": has_any("then"),
}


def tell_apart(node: Any, parts: Mapping[str, Schema]) -> Any:
    """`node` with every union in it as conditions. `parts` are the models by name."""
    if isinstance(node, list):
        return [tell_apart(inner, parts) for inner in node]
    if not isinstance(node, dict):
        return node
    made = {key: tell_apart(inner, parts) for key, inner in node.items() if key not in ("anyOf", "oneOf")}
    forms = branches_of(node)
    if forms == [node]:
        return made
    return {**made, **_conditions([tell_apart(form, parts) for form in forms], parts)}


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
    allowed: Schema = {} if len(types) == len(_TYPES) else {"type": types if len(types) > 1 else types[0]}
    return {**allowed, **({"allOf": rules} if rules else {})}


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
    return if_then({"type": name}, more) if more else None


def _of_mappings(found: list[Schema], parts: Mapping[str, Schema]) -> Schema:
    """A chain of conditions that ends with the form that is not known by a key."""
    known = [(condition, one) for one in found if (condition := _condition_of(one, found, parts)) is not None]
    others = [one for one in found if _condition_of(one, found, parts) is None]
    if len(found) == 1 or len(others) != 1:
        return found[0] if len(found) == 1 else {"anyOf": found}
    chain = others[0]
    for condition, one in reversed(known):
        chain = if_then(condition, one, chain)
    return chain


def _condition_of(branch: Schema, found: list[Schema], parts: Mapping[str, Schema]) -> Schema | None:
    name = branch.get("$ref", "").removeprefix(REF)
    if name == "ResultSpec":
        return has_any(*parts[name]["properties"])
    if name in _KNOWN_BY:
        return _KNOWN_BY[name]
    values = branch.get("additionalProperties")
    if isinstance(values, dict) and values in found:
        # A task without a kind and with one key is a label, whatever it is called.
        tools = any(one.get("$ref") == f"{REF}Tool" for one in found)
        return {**_LABEL, **({"not": has_any("kind")} if tools else {})}
    return None
