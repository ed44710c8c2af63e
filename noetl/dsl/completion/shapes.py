"""What the schema of playbooks says of a place: the parts of it that hold there.

Which form of a part is meant is decided by what stands there (`schema_forms`), as far as it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from noetl.dsl.completion.flow import Node
from noetl.dsl.document.schema_forms import REF, Schema
from noetl.dsl.problems import Path

_ALWAYS: Final = ("allOf", "anyOf", "oneOf")


@dataclass(frozen=True, slots=True)
class KeyShape:
    """A schema that holds, and the part of the language whose it is: `Step`, `kind.http`; empty for
    the whole document."""

    part: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes that `schema` has for the places of an outline."""

    schema: Schema

    def at(self, root: Node, path: Path, *, as_text: bool = False) -> list[KeyShape]:
        """Those of what the path leads to, the most general first; `as_text` as if a text stood
        there."""
        value: Node = "" if as_text and not path else root
        found = list(self._flatten(KeyShape("", self.schema), value))
        for depth, part in enumerate(path, 1):
            value = "" if as_text and depth == len(path) else _child(value, part)
            found = [inner for one in _below(found, part) for inner in self._flatten(one, value)]
        return found

    def describe(self, name: str) -> str:
        """What a part of the language is."""
        found = self.schema["$defs"].get(name, {})
        return str(found.get("description", ""))

    def _flatten(self, shape: KeyShape, value: Node) -> Iterator[KeyShape]:
        schema = shape.schema
        yield shape
        if (ref := schema.get("$ref")) is not None:
            name = ref.removeprefix(REF)
            yield from self._flatten(KeyShape(name, self.schema["$defs"][name]), value)
        for key in _ALWAYS:
            for inner in schema.get(key, ()):
                yield from self._flatten(KeyShape(shape.part, inner), value)
        if "if" in schema:
            meant = schema.get("then" if holds(schema["if"], value) else "else")
            if meant is not None:
                yield from self._flatten(KeyShape(shape.part, meant), value)


def _below(shapes: list[KeyShape], part: str | int) -> Iterator[KeyShape]:
    """What they say of the value of a key, or of an item."""
    return (KeyShape(one.part, inner) for one in shapes if (inner := _inner(one.schema, part)) is not None)


def _inner(schema: Schema, part: str | int) -> Schema | None:
    if isinstance(part, int):
        return _as_schema(schema.get("items"))
    found = schema.get("properties", {}).get(part)
    return _as_schema(schema.get("additionalProperties") if found is None else found)


def _as_schema(found: Any) -> Schema | None:
    return found if isinstance(found, dict) else None


def _child(value: Node, part: str | int) -> Node:
    match value, part:
        case dict(), str():
            return value.get(part)
        case list(), int():
            return value[part] if part < len(value) else None
        case _:
            return None


def holds(condition: Schema, value: Node) -> bool:
    """Whether a condition of the schema is true of an outline, of which every scalar is a text."""
    return all(_rule_holds(name, rule, condition, value) for name, rule in condition.items())


def _rule_holds(name: str, rule: Any, condition: Schema, value: Node) -> bool:
    if name == "type":
        return _type_of(value) in ([rule] if isinstance(rule, str) else rule)
    if name == "enum":
        return value in rule
    if name == "const":
        return bool(value == rule)
    if name == "not":
        return not holds(rule, value)
    if name == "anyOf":
        return any(holds(one, value) for one in rule)
    return not isinstance(value, dict) or _is_so(name, rule, condition, value)


def _is_so(name: str, rule: Any, condition: Schema, value: dict[str, Node]) -> bool:
    """The rules of mappings."""
    match name:
        case "required":
            return all(key in value for key in rule)
        case "properties":
            return all(holds(one, value[key]) for key, one in rule.items() if key in value)
        case "maxProperties":
            return bool(len(value) <= rule)
        case "minProperties":
            return bool(len(value) >= rule)
        case "additionalProperties" if isinstance(rule, dict):
            others = value.keys() - condition.get("properties", {}).keys()
            return all(holds(rule, value[key]) for key in others)
        case _:
            return True


def _type_of(value: Node) -> str:
    match value:
        case None:
            return "null"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
