"""Forms of approvals and starts: their fields, and what a browser sends back, which is text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.net.forms import read_form
from noetl.net.input_values import InputFault, find_faults, quote_json, read_values
from noetl.net.inputs import Input
from noetl.ui.bounds import find_bounds
from noetl.usecases.approvals import make_faulty
from noetl.usecases.open_approvals import OpenApproval

Widget: TypeAlias = Literal[
    "text", "number", "date", "datetime-local", "checkbox", "select", "area", "password"
]

#: What the names of fields begin with: an input may be called as anything else in the form.
PREFIX: Final = "value."
#: The same of a field's zone: pickers of instants know none.
ZONE_PREFIX: Final = "zone."
#: The zone where nothing says one: instants without one are of UTC as well.
UTC: Final = "Z"
#: An instant as pickers of browsers have it, and its zone.
_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d(?:\.\d{1,3})?)?(Z|[+-]\d\d:\d\d)?")
#: Seconds that a picker leaves out.
_NO_SECONDS: Final = ":00"
#: What a browser sends of a checkbox that is ticked.
TICKED: Final = "true"


@dataclass(frozen=True, slots=True)
class Option:
    """One of several values: as JSON, and as people read it."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, with the text that stands in it, and beside an instant its zone. The
    bounds are those that browsers check; the server checks all of them."""

    name: str
    input: Input
    widget: Widget
    value: str
    options: Sequence[Option] = ()
    zone: str = ""

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def zone_key(self) -> str:
        return f"{ZONE_PREFIX}{self.name}"

    @property
    def text(self) -> str:
        """What comes back of it as long as nobody changes it, with the zone."""
        return f"{self.value}{self.zone}" if self.value else ""

    @property
    def notes(self) -> Sequence[str]:
        """What is asked of the value, in words: browsers check a part of it, and say none."""
        return list(find_bounds(self.input, enum=self.widget != "select"))

    @property
    def step(self) -> str:
        return "1" if self.input.type in ("integer", "datetime") else "any"

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
    value = _as_text(default, widget) if typed is None else find_text(one, typed)
    if one.type == "datetime" and (field := _make_picker(one, value)) is not None:
        return field
    options = [Option(json.dumps(value), _label(value)) for value in one.enum] if widget == "select" else ()
    return FormField(one.name, one, widget, value, options)


def _make_picker(one: Input, text: str) -> FormField | None:
    """The field of an instant, which keeps its zone; None for a text that no picker shows."""
    if not text:
        return FormField(one.name, one, "datetime-local", "", zone=UTC)
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    seconds = "" if found[2] in (None, _NO_SECONDS) else found[2]
    return FormField(one.name, one, "datetime-local", f"{found[1]}{seconds}", zone=found[3] or "")


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


def find_text(one: Input, sent: Mapping[str, str]) -> str:
    """What was typed into its field, with the zone of its own beside an instant."""
    text = sent.get(f"{PREFIX}{one.name}", "").replace("\r\n", "\n")
    zone = sent.get(f"{ZONE_PREFIX}{one.name}", "").strip()
    return f"{text}{zone}" if zone and text.strip() else text


def read_fields(one: OpenApproval, sent: Mapping[str, str]) -> JsonMap:
    """The values of the form. Where a text is no JSON and has to be, raises InputsInvalid with all
    that is wrong with the form."""
    values, faults = read_fields_of(make_fields(one), sent)
    if faults:
        inputs, defaults = read_form(one.asked.form)
        others = find_faults(inputs, {**defaults, **read_values(inputs, values)})
        raise make_faulty(one.place, join_faults(faults, others))
    return values


def join_faults(unread: Sequence[InputFault], others: Iterable[InputFault]) -> list[InputFault]:
    """Texts that could not be read, and what else is wrong: with other fields."""
    names = {one.path for one in unread}
    return [*unread, *(one for one in others if find_field(one.path) not in names)]


def find_field(path: str) -> str:
    """The field that has what stands at the path, which reads like `address.lines[2]`."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def read_fields_of(
    fields: Sequence[FormField], sent: Mapping[str, str]
) -> tuple[dict[str, Json], list[InputFault]]:
    """The values of the fields, which hold their defaults, and what is wrong with texts that are no
    JSON where that is needed."""
    values: dict[str, Json] = {}
    faults: list[InputFault] = []
    for each in fields:
        text = find_text(each.input, sent)
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
