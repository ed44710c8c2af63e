"""What a playbook takes: its declared inputs, and their JSON Schema.

An input is a key of the workload with a type. Its default stands in the net's workload like any
other value of it; here is what a value has to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from noetl.facts.json import Json, JsonMap

InputType: TypeAlias = Literal[
    "string", "integer", "number", "boolean", "date", "datetime", "list", "object", "any"
]
TYPES: Final[tuple[InputType, ...]] = get_args(InputType)
#: Types whose values may come as text, which is read: from a command line, a form, a query.
READ_FROM_TEXT: Final = frozenset({"integer", "number", "boolean"})
#: Types for which a text stays as it is written.
TEXTS: Final = frozenset({"string", "date", "datetime"})
#: Types that have an order, and so bounds.
ORDERED: Final = frozenset({"integer", "number", "date", "datetime"})
#: Types that have a length.
SIZED: Final = frozenset({"string", "list"})


@dataclass(frozen=True, slots=True)
class Input:
    """One declared key: of the workload, or of an object in it.

    `minimum` and `maximum` are numbers, or dates and instants as text; `min_length` and
    `max_length` count characters or items. `pattern` is searched for, as JSON Schema does it.
    `items` is what each item of a list is; without `properties` an object takes any keys. `secret`
    values are sealed before anything is recorded.
    """

    name: str = ""
    type: InputType = "any"
    enum: tuple[Json, ...] = ()
    pattern: str = ""
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    min_length: int | None = None
    max_length: int | None = None
    required: bool = False
    secret: bool = False
    #: Whether something is there where nothing is given.
    defaulted: bool = False
    description: str = ""
    items: Input | None = None
    properties: tuple[Input, ...] = ()


def find_inputs(inputs: Sequence[Input], names: Sequence[str]) -> list[Input]:
    """The inputs that dotted names lead through, the outermost first; as many as are declared."""
    found: list[Input] = []
    for name in names:
        one = next((one for one in inputs if one.name == name), None)
        if one is None:
            break
        found.append(one)
        inputs = one.properties
    return found


def fill_keys(inputs: Sequence[Input], values: JsonMap) -> dict[str, Json]:
    """`values` with all keys that are declared: null where nothing is known, in objects as well."""
    filled = {**dict.fromkeys(one.name for one in inputs), **values}
    for one in inputs:
        if one.properties:
            inner = filled[one.name]
            filled[one.name] = fill_keys(one.properties, inner if isinstance(inner, Mapping) else {})
    return filled


_SCHEMA_TYPES: Final[Mapping[InputType, dict[str, Json]]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "list": {"type": "array"},
    "object": {"type": "object"},
    "any": {},
}
#: What bounds are called in the schema, by what they bound.
_NUMBER_BOUNDS: Final = ("minimum", "maximum")
#: JSON Schema has none for dates; several validators read these, and others pass over them.
_DATE_BOUNDS: Final = ("formatMinimum", "formatMaximum")


def object_schema(inputs: Sequence[Input], defaults: Mapping[str, Json]) -> dict[str, Json]:
    """The JSON Schema (2020-12) of an object that has these keys and no others. `defaults` are the
    values that its keys have by themselves."""
    required = [one.name for one in inputs if one.required]
    return {
        "type": "object",
        "properties": {
            one.name: {**schema_of(one), **({"default": defaults[one.name]} if one.name in defaults else {})}
            for one in inputs
        },
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def schema_of(one: Input) -> dict[str, Json]:
    """The JSON Schema (2020-12) of one value."""
    made = dict(_SCHEMA_TYPES[one.type])
    if one.properties:
        made |= object_schema(one.properties, {})
    lower, upper = _DATE_BOUNDS if one.type in TEXTS else _NUMBER_BOUNDS
    shortest, longest = ("minItems", "maxItems") if one.type == "list" else ("minLength", "maxLength")
    said: dict[str, Json] = {
        "enum": list(one.enum) or None,
        "pattern": one.pattern or None,
        lower: one.minimum,
        upper: one.maximum,
        shortest: one.min_length,
        longest: one.max_length,
        "items": None if one.items is None else schema_of(one.items),
        "description": one.description or None,
        **({"format": "password", "writeOnly": True} if one.secret else {}),
    }
    return made | {key: value for key, value in said.items() if value is not None}
