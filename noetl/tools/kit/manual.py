"""The manual of a tool: read from its class, the same for kinds that come from elsewhere.

`noetl tool show` prints it, and the pages in `docs/tools/` are made of it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from noetl.facts.json import Json, JsonMap
from noetl.net.kinds import KindEffects, of_kind
from noetl.tools.kit.base import Tool

_TYPES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "object": "mapping",
    "null": "null",
}
#: Mappings inside of each other whose keys are shown: a model may have a field of its own type.
_DEEPEST: Final = 3
_EFFECTS: Final[Mapping[KindEffects, str]] = {
    "none": "changes nothing",
    "idempotent": "made once more changes nothing",
    "internal": "changes what belongs to its worker",
    "external": "may change what is outside of NoETL, unless its task tells otherwise",
}


@dataclass(frozen=True, slots=True)
class ManualKey:
    """One key of a configuration; of a mapping in it `name` is the way there: `timeout.connect`.
    `default` means nothing where the key is `required`, or where the keys of its mapping follow."""

    name: str
    type: str
    required: bool
    default: Json
    description: str


@dataclass(frozen=True, slots=True)
class Manual:
    """The manual of a kind. Texts are Markdown, whose links start at `docs/tools/`.

    Of each group in `one_of` one key has to be there. `example` is a list of steps.
    """

    kind: str
    queue: str
    effects: KindEffects
    description: str
    about: str
    keys: tuple[ManualKey, ...]
    one_of: tuple[tuple[str, ...], ...]
    #: Other ways to write keys → what they mean.
    spellings: Mapping[str, str]
    result: str
    errors: str
    example: str

    def as_json(self) -> JsonMap:
        """As JSON data."""
        data: JsonMap = json.loads(json.dumps(asdict(self)))
        return data


def manual_of(tool: type[Tool]) -> Manual:
    """What the class says of itself."""
    info, declared = tool.info(), tool.declaration
    needed = {group[0] for group in info.required if len(group) == 1}
    properties = info.schema.get("properties", {})
    definitions = info.schema.get("$defs", {})
    keys: list[ManualKey] = []
    for field_name, field in declared.config_model.model_fields.items():
        name = field.alias or field_name
        default = _as_data(field.get_default(call_default_factory=True, validated_data={}))
        required = name in needed or field.is_required()
        keys += _find_keys(name, properties[name], definitions, required, default)
    return Manual(
        kind=info.kind,
        queue=info.queue,
        effects=info.effects,
        description=info.description,
        about=_text(tool.__doc__) or info.description,
        keys=tuple(keys),
        one_of=tuple(group for group in info.required if len(group) > 1),
        spellings={key.replace("/", "."): one.meaning for key, one in of_kind(info).items()},
        result=_text(declared.result),
        errors=_text(declared.errors),
        example=_text(declared.example),
    )


def page(manual: Manual) -> str:
    """The page of a kind, as Markdown."""
    parts = [f"# {manual.kind}", manual.about, queue_and_effects(manual), "## Keys", _table(manual)]
    parts += [f"{_join(group)}: one of them is needed." for group in manual.one_of]
    if manual.spellings:
        rows = [f"| `{key}` | {_cell(meaning)} |" for key, meaning in manual.spellings.items()]
        head = ["Also accepted, here and under `spec`:", "", "| written | meaning |", "|---|---|"]
        parts.append("\n".join([*head, *rows]))
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
            "What all of them have in common is described with the [tools](../tools.md).",
            "",
            "| kind | queue | effects | what it does |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def queue_and_effects(manual: Manual) -> str:
    """Where its tasks are sent, and what they may do there."""
    return f"Queue `{manual.queue}`. Effects `{manual.effects}`: a call {_EFFECTS[manual.effects]}."


def default_of(key: ManualKey) -> str:
    """How the default of a key is shown."""
    if key.required:
        return "required"
    return "-" if key.default in (None, "") else json.dumps(key.default, ensure_ascii=False).strip('"')


def _find_keys(
    name: str, schema: JsonMap, definitions: JsonMap, required: bool, default: Json
) -> Iterator[ManualKey]:
    """The key `name`, and behind it those of the mapping that it takes."""
    inside = _find_inner_keys(name, schema, definitions)
    description = " ".join(schema.get("description", "").split())
    shown = None if required or inside else default
    yield ManualKey(name, _type(schema, definitions), required, shown, description)
    yield from inside


def _find_inner_keys(name: str, schema: JsonMap, definitions: JsonMap) -> list[ManualKey]:
    """The keys of the mapping that may stand at `name`. Of several, which a constant tells apart,
    each key says which ones have it."""
    kinds = _mappings(schema, definitions) if name.count(".") < _DEEPEST else []
    found: list[tuple[ManualKey, list[str]]] = []
    for kind in kinds:
        _, of = _constant(kind)
        for key in _find_mapping_keys(name, kind, definitions):
            same = next((some for known, some in found if known == key), None)
            if same is None:
                found.append((key, [of]))
            else:
                same.append(of)
    if len(kinds) < 2:
        return [key for key, _ in found]
    telling, values = _constant(kinds[0])[0], [_constant(kind)[1] for kind in kinds]
    which = ManualKey(f"{name}.{telling}", _join(values, "or"), True, None, "Which of them it is.")
    for number, (key, some) in enumerate(found):
        if len(some) < len(kinds):
            found[number] = replace(key, description=f"Of {_join(some)}: {key.description}"), some
    return [which, *(key for key, _ in found)]


def _mappings(schema: JsonMap, definitions: JsonMap) -> list[JsonMap]:
    """Each schema with keys that a value of `schema`, or one in a list, may have."""
    whole = _resolve(schema, definitions)
    found = [whole] if "properties" in whole else []
    # A list may be defined as one of such lists.
    others = {name: one for name, one in definitions.items() if one is not whole}
    parts = (*whole.get("anyOf", ()), *whole.get("oneOf", ()), whole.get("items"))
    for part in filter(None, parts):
        found += [one for one in _mappings(part, others) if one not in found]
    return found


def _find_mapping_keys(name: str, mapping: JsonMap, definitions: JsonMap) -> Iterator[ManualKey]:
    for own, schema in mapping["properties"].items():
        if "const" not in schema:
            required = own in mapping.get("required", ())
            yield from _find_keys(f"{name}.{own}", schema, definitions, required, schema.get("default"))


def _constant(mapping: JsonMap) -> tuple[str, str]:
    """The key, and its value, that tells this kind of mapping from the others."""
    constants = ((key, str(one["const"])) for key, one in mapping["properties"].items() if "const" in one)
    return next(constants, ("", ""))


def _as_data(value: Any) -> Json:
    """A default as JSON; a model by its fields, anything that is not data by its text."""
    dumped = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    data: Json = json.loads(json.dumps(dumped, default=str))
    return data


def _type(schema: JsonMap, definitions: JsonMap) -> str:
    schema = _resolve(schema, definitions)
    if "enum" in schema:
        return _join([str(one) for one in schema["enum"]], "or")
    if "const" in schema:
        return f"`{schema['const']}`"
    if some := schema.get("anyOf", schema.get("oneOf")):
        types = [_type(one, definitions) for one in some if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(types))
    return _TYPES.get(str(schema.get("type")), "any")


def _resolve(schema: JsonMap, definitions: JsonMap) -> JsonMap:
    """`schema`, or the definition that it refers to."""
    if "$ref" not in schema:
        return schema
    found: JsonMap = definitions.get(str(schema["$ref"]).rpartition("/")[2], {})
    return found


def _table(manual: Manual) -> str:
    if not manual.keys:
        return "It has none: what it works with are its inputs."
    rows = []
    for key in manual.keys:
        default = default_of(key)
        shown = default if default in ("-", "required") else f"`{default}`"
        rows.append(f"| `{key.name}` | {key.type} | {shown} | {_cell(key.description)} |")
    return "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _join(names: tuple[str, ...] | list[str], word: str = "and") -> str:
    quoted = [f"`{name}`" for name in names]
    return f" {word} ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def _text(text: str | None) -> str:
    return inspect.cleandoc(text or "").strip()
