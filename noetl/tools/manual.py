"""What is told of a tool: read off its class, the same for kinds that come from elsewhere.

`noetl tool show` prints it, and the pages in `docs/tools/` are made of it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic.fields import FieldInfo

from noetl.facts.json import Json, JsonMap
from noetl.tools.base import Effects, Tool

_TYPES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "object": "mapping",
    "null": "null",
}
_EFFECTS: Final[Mapping[Effects, str]] = {
    "none": "changes nothing",
    "internal": "changes what belongs to its worker",
    "external": "may change what is outside of NoETL",
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a configuration. `default` means nothing where the key is `required`."""

    name: str
    type: str
    required: bool
    default: Json
    description: str


@dataclass(frozen=True, slots=True)
class Manual:
    """All that is told of a kind. Texts are Markdown, whose links start at `docs/tools/`.

    Of each group in `one_of` one key has to be there. `example` is a list of steps.
    """

    kind: str
    queue: str
    effects: Effects
    description: str
    about: str
    keys: tuple[Key, ...]
    one_of: tuple[tuple[str, ...], ...]
    result: str
    errors: str
    example: str

    def as_json(self) -> JsonMap:
        """As JSON data."""
        data: JsonMap = json.loads(json.dumps(asdict(self)))
        return data


def manual_of(tool: type[Tool]) -> Manual:
    """What the class says of itself."""
    info = tool.info()
    needed = {group[0] for group in info.required if len(group) == 1}
    properties = info.schema.get("properties", {})
    definitions = info.schema.get("$defs", {})
    fields = {field.alias or name: field for name, field in tool.config_model.model_fields.items()}
    return Manual(
        kind=info.kind,
        queue=info.queue,
        effects=info.effects,
        description=info.description,
        about=_text(tool.__doc__) or info.description,
        keys=tuple(
            _key(name, field, properties.get(name, {}), definitions, name in needed)
            for name, field in fields.items()
        ),
        one_of=tuple(group for group in info.required if len(group) > 1),
        result=_text(tool.result),
        errors=_text(tool.errors),
        example=_text(tool.example),
    )


def page(manual: Manual) -> str:
    """The page of a kind, as Markdown."""
    parts = [f"# {manual.kind}", manual.about, served(manual), "## Keys", _table(manual)]
    parts += [f"{_listed(group)}: one of them is needed." for group in manual.one_of]
    for title, text in (("Result", manual.result), ("Errors", manual.errors)):
        if text:
            parts += [f"## {title}", text]
    if manual.example:
        parts += ["## Example", f"```yaml\n{manual.example}\n```"]
    return "\n\n".join(parts) + "\n"


def index(manuals: Mapping[str, Manual]) -> str:
    """The page that lists all kinds."""
    rows = [
        f"| [`{kind}`]({kind}.md) | `{one.queue}` | {one.effects} | {_cell(one.description)} |"
        for kind, one in manuals.items()
    ]
    return "\n".join(
        [
            "# Kinds of tools",
            "",
            "What all of them have in common is told with the [tools](../tools.md).",
            "",
            "| kind | queue | effects | what it does |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def served(manual: Manual) -> str:
    """Where its tasks are sent, and what they may do there."""
    return f"Queue `{manual.queue}`. Effects `{manual.effects}`: a call {_EFFECTS[manual.effects]}."


def default_of(key: Key) -> str:
    """How the default of a key is shown."""
    if key.required:
        return "required"
    return "-" if key.default in (None, "") else json.dumps(key.default, ensure_ascii=False).strip('"')


def _key(name: str, field: FieldInfo, schema: JsonMap, definitions: JsonMap, needed: bool) -> Key:
    required = needed or field.is_required()
    default = None if required else field.get_default(call_default_factory=True, validated_data={})
    return Key(
        name,
        _type(schema, definitions),
        required,
        _plain(default),
        " ".join((field.description or "").split()),
    )


def _plain(value: Any) -> Json:
    """A default as JSON; a model by its fields, what is no data by its text."""
    dumped = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    data: Json = json.loads(json.dumps(dumped, default=str))
    return data


def _type(schema: JsonMap, definitions: JsonMap) -> str:
    if "$ref" in schema:
        return _type(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions)
    if "enum" in schema:
        return _listed([str(one) for one in schema["enum"]], "or")
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        types = [_type(one, definitions) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(types))
    return _TYPES.get(str(schema.get("type")), "any")


def _table(manual: Manual) -> str:
    if not manual.keys:
        return "It has none: what it works with are its inputs."
    rows = [
        f"| `{key.name}` | {key.type} | {_code(default_of(key))} | {_cell(key.description)} |"
        for key in manual.keys
    ]
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _code(default: str) -> str:
    return default if default in ("-", "required") else f"`{default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _listed(names: tuple[str, ...] | list[str], word: str = "and") -> str:
    quoted = [f"`{name}`" for name in names]
    return f" {word} ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def _text(text: str | None) -> str:
    return inspect.cleandoc(text or "").strip()
