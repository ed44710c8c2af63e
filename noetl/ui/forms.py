"""Forms of approvals and starts: their fields, and what a browser sends back, which is text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.net.forms import read_form
from noetl.net.input_values import InputFault, quote_json
from noetl.net.inputs import Input
from noetl.usecases.approvals import make_faulty
from noetl.usecases.open_approvals import OpenApproval

Widget: TypeAlias = Literal["text", "number", "date", "checkbox", "select", "area", "password"]

#: What the names of fields begin with: an input may be called as anything else in the form.
PREFIX: Final = "value."
#: What a browser sends of a checkbox that is ticked.
TICKED: Final = "true"


@dataclass(frozen=True, slots=True)
class Option:
    """One of several values: as JSON, and as people read it."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, with the text that stands in it. The bounds are those that browsers
    check; the server checks all of them."""

    name: str
    input: Input
    widget: Widget
    value: str
    options: Sequence[Option] = ()

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def step(self) -> str:
        return "1" if self.input.type == "integer" else "any"

    @property
    def hint(self) -> str:
        """What is to be written where that is not plain."""
        match self.widget:
            case "area" if self.input.type != "string":
                return "JSON"
            case "text" if self.input.type == "datetime":
                return "2026-01-31T09:00:00Z"
            case _:
                return ""


def make_fields(one: OpenApproval, typed: Mapping[str, str] | None = None) -> list[FormField]:
    """The fields of its form, with the defaults in them, or with what somebody has typed."""
    inputs, defaults = read_form(one.asked.form)
    return make_fields_of(inputs, defaults, typed)


def make_fields_of(
    inputs: Sequence[Input], defaults: JsonMap, typed: Mapping[str, str] | None = None
) -> list[FormField]:
    """The same of inputs with these defaults. What is secret is never shown again."""
    return [_make_field(each, defaults.get(each.name), typed) for each in inputs]


def _make_field(one: Input, default: Json, typed: Mapping[str, str] | None) -> FormField:
    if one.secret:
        return FormField(one.name, one, "password", "")
    widget = _widget(one, default)
    value = _as_text(default, widget) if typed is None else typed.get(f"{PREFIX}{one.name}", "")
    options = [Option(json.dumps(value), _label(value)) for value in one.enum] if widget == "select" else ()
    return FormField(one.name, one, widget, value, options)


def _label(value: Json) -> str:
    return value if isinstance(value, str) else quote_json(value)


def _widget(one: Input, default: Json) -> Widget:
    if one.enum and one.type != "list":
        return "select"
    match one.type:
        case "integer" | "number":
            return "number"
        case "boolean":
            return "checkbox"
        case "date":
            return "date"
        case "string":
            return "area" if isinstance(default, str) and "\n" in default else "text"
        case "datetime":
            return "text"
        case "list" | "object" | "any":
            return "area"
        case _:
            assert_never(one.type)


def _as_text(value: Json, widget: Widget) -> str:
    match value:
        case None:
            return ""
        case str() if widget != "select":
            return value
        case bool() if widget == "checkbox":
            return TICKED if value else ""
        case _:
            return json.dumps(value, ensure_ascii=False)


# --- what comes back ------------------------------------------------------------------------------


def read_fields(one: OpenApproval, sent: Mapping[str, str]) -> JsonMap:
    """The values of the form. Raises InputsInvalid for a text that is no JSON where that is
    needed."""
    values, faults = read_fields_of(make_fields(one), sent)
    if faults:
        raise make_faulty(one.place, faults)
    return values


def read_fields_of(
    fields: Sequence[FormField], sent: Mapping[str, str]
) -> tuple[dict[str, Json], list[InputFault]]:
    """The values of the fields, which hold their defaults, and what is wrong with texts that are no
    JSON where that is needed."""
    values: dict[str, Json] = {}
    faults: list[InputFault] = []
    for each in fields:
        text = sent.get(each.key, "").replace("\r\n", "\n")
        try:
            if (found := _read(each, text)) is not _LEFT_OUT:
                values[each.name] = found
        except ValueError as error:
            # The text of the error has a part of what was typed, which may be a secret.
            why = "is no JSON" if each.input.secret else f"is no JSON: {error}"
            faults.append(InputFault(each.name, why))
    return values, faults


class _LeftOut:
    """Nothing stands in the field."""


_LEFT_OUT: Final = _LeftOut()


def _read(one: FormField, text: str) -> Json:
    """Raises ValueError. A default that was deleted is no text, or nothing: not the default."""
    match one.widget:
        case "checkbox":
            return text == TICKED
        case _ if not text.strip():
            if one.value == "" or one.widget == "select":
                return _LEFT_OUT
            return "" if one.input.type == "string" else None
        case "select":
            return json.loads_exactly(text)
        case "area" | "password" if one.input.type in ("list", "object", "any"):
            return json.loads_exactly(text)
        case _:
            return text
