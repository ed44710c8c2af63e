"""The form of an approval on a command line: what is given, and what a person is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from noetl.cli.console import Assigned, assigned_of, mapping_of, read_typed
from noetl.facts import json
from noetl.facts.json import Json, JsonMap, deep_merge

#: Types whose texts the form reads by itself.
_AS_TEXT: Final = frozenset({"string", "integer", "number", "boolean"})
_FLAGS: Final[Mapping[str, bool]] = {
    "true": True,
    "yes": True,
    "y": True,
    "false": False,
    "no": False,
    "n": False,
}


def values_of(form: JsonMap | None, given: str | None, pairs: Sequence[str]) -> JsonMap:
    """The values of `--values` and over them those of `--set`, which are typed as in playbooks; of
    what the form declares as text, or as what is read from it, the text as it was written. Raises
    BadRequest."""
    values: JsonMap = {} if given is None else mapping_of(given, "--values")
    for one in assigned_of(pairs):
        value = _value_of(form, one)
        for name in reversed(one.names):
            value = {name: value}
        values = deep_merge(values, value)
    return values


def _value_of(form: JsonMap | None, one: Assigned) -> Json:
    schema: Any = form or {}
    for name in one.names:
        schema = (schema.get("properties") or {}).get(name) or {}
    return one.text if schema.get("type") in _AS_TEXT else read_typed(one.text)


# --- asking ---------------------------------------------------------------------------------------


def ask_values(form: JsonMap) -> dict[str, Json]:
    """Asks for each field, on standard error; nothing is a field that is left out."""
    required = form.get("required", ())
    values: dict[str, Json] = {}
    for name, schema in form["properties"].items():
        found = _ask(name, schema, needed=name in required)
        if found is not None:
            values[name] = found
    return values


def _ask(name: str, schema: JsonMap, *, needed: bool) -> Json:
    default = schema.get("default")
    shown = None if default is None else _as_text(default)
    found: Json = click.prompt(
        _label(name, schema, needed=needed),
        default="" if shown is None else shown,
        show_default=shown is not None,
        value_proc=partial(_read, schema, needed=needed),
        err=True,
    )
    return found


def _label(name: str, schema: JsonMap, *, needed: bool) -> str:
    """`amount (integer, from 1; in EUR)`."""
    known = [_as_text(value) for value in schema.get("enum", ())]
    what = " | ".join(known) or schema.get("format") or schema.get("type") or "JSON"
    bounds = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "from"),
            ("maximum", "to"),
            ("formatMinimum", "from"),
            ("formatMaximum", "to"),
        )
        if key in schema
    ]
    said = ", ".join([what, *bounds, *(["required"] if needed else [])])
    about = f"; {schema['description']}" if schema.get("description") else ""
    return f"{name} ({said}{about})"


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read(schema: JsonMap, text: str, *, needed: bool) -> Json:
    """The value of what was typed. Raises UsageError, upon which it is asked for again."""
    short = text.strip()
    if not short:
        if needed:
            raise click.UsageError("a value is needed")
        return None
    if "enum" in schema:
        return _choose(schema["enum"], short)
    match schema.get("type"):
        case "string":
            return text
        case "boolean":
            if short.lower() not in _FLAGS:
                raise click.UsageError(f"{short!r} is not true or false")
            return _FLAGS[short.lower()]
        case "integer" | "number" as kind:
            return _read_number(short, int if kind == "integer" else float)
        case _:
            return _read_json(short)


def _choose(known: Sequence[Json], text: str) -> Json:
    for value in known:
        if _as_text(value) == text:
            return value
    raise click.UsageError(f"{text!r} is none of {', '.join(map(_as_text, known))}")


def _read_number(text: str, kind: type[int] | type[float]) -> Json:
    try:
        return kind(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no {'whole number' if kind is int else 'number'}") from None


def _read_json(text: str) -> Json:
    try:
        return json.loads_exactly(text)
    except ValueError as error:
        raise click.UsageError(f"it is no JSON: {error}") from None
