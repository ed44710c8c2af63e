"""The reference of keys, made of what is declared of them: `docs/keys.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.dsl.document import Document
from noetl.dsl.document.base import Key, Part, declared, models_below, spellings_of

_HEAD: Final = """\
# Keys of the language

This page is made from the models in `noetl/dsl/document` by `make docs`: every key of every part of a
playbook, what it holds, and what it is for. [The language](reference/README.md) explains them with examples,
[Dialects](dialects.md) those marked *older*. A duration is seconds above zero or a text like `500ms`, `10s`,
`5m`, `2h` or `1d`; a count is a whole number from one; both may be templates. Any key that begins with `x-`
is the author's own.
"""
_TYPES: Final[Mapping[str, str]] = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "",
    "object": "mapping",
    "array": "list",
}
_REF: Final = "#/$defs/"


def page() -> str:
    """The text of the page."""
    schema = Document.model_json_schema(by_alias=True)
    models = {model.__name__: model for model in models_below(Part)}
    parts = {"Document": schema, **dict(sorted(schema["$defs"].items()))}
    return "\n".join([_HEAD, *(_section(models[name], part) for name, part in parts.items())])


def _section(model: type[Part], part: Mapping[str, Any]) -> str:
    keys, spelled = declared(model), spellings_of(model)
    rows = ["| key | holds | meaning |", "|---|---|---|"]
    for key, found in part["properties"].items():
        one = keys.get(key, Key())
        meant = [_older(one, found), found.get("description", "")]
        if key in spelled:
            meant = [spelled[key].meaning, *meant[1:]] if not meant[1] else meant
        holds = f"{one.unit} or template" if one.unit is not None else _holds(found)
        rows.append(f"| `{key}` | {_cell(holds)} | {_cell(' '.join(filter(None, meant)))} |")
    more = ["Other keys are those of the tool, or notes."] if model.is_open else []
    about = " ".join([" ".join(part["description"].split()), *_demanded(keys), *more])
    return "\n".join([f"## {model.__name__}", "", about, "", *rows, ""])


def _demanded(keys: Mapping[str, Key]) -> Iterator[str]:
    needed = ", ".join(f"`{key}`" for key, one in keys.items() if one.required)
    if needed:
        yield f"Needs {needed}."
    for key, one in keys.items():
        if one.required_unless:
            yield f"Without `{one.required_unless}` needs `{key}`."
        if one.required_if is not None:
            yield f"With `{one.required_if[0]}: {one.required_if[1]}` needs `{key}`."


def _older(key: Key, found: Mapping[str, Any]) -> str:
    if key.instead and found.get("deprecated"):
        return f"*Older*: write `{key.instead}`."
    if found.get("deprecated"):
        return "*Older.*"
    return f"Such as `{key.example}`." if key.example else ""


def _holds(found: Mapping[str, Any]) -> str:
    """What may stand there, in words; parts by their sections."""
    forms = found.get("anyOf") or found.get("oneOf")
    if forms is not None:
        return " or ".join(dict.fromkeys(filter(None, map(_holds, forms))))
    if "$ref" in found:
        name = found["$ref"].removeprefix(_REF)
        return f"[{name}](#{name.lower()})"
    values = found.get("enum", [found["const"]] if "const" in found else None)
    if values is not None:
        return ", ".join(f"`{value}`" for value in values)
    if found.get("type") == "array":
        return f"list of {_holds(found.get('items', {}))}"
    inner = found.get("additionalProperties")
    if isinstance(inner, dict):
        return f"mapping of {_holds(inner)}"
    return _TYPES[found["type"]] if "type" in found else "any value"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
