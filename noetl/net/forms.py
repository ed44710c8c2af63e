"""Forms that tasks hand to people, as JSON: `{inputs, defaults}`, what they fill in and the values
to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from noetl.facts.json import Json, JsonMap
from noetl.net.input_values import find_value_faults, read_value
from noetl.net.inputs import Input

_NO_FORM: Final = "a form is declared in the playbook, and does not come out of a template."


def form_to_json(inputs: Sequence[Input], defaults: Mapping[str, Json]) -> dict[str, Json]:
    """`{inputs, defaults}`; what inputs do not say is left out."""
    said = _adapter().dump_python(tuple(inputs), mode="json", exclude_defaults=True)
    return {"inputs": said, "defaults": dict(defaults)}


def read_form(form: JsonMap) -> tuple[tuple[Input, ...], JsonMap]:
    """The inputs and the defaults of a form; none of an empty one. Raises ValueError for what is no
    form."""
    try:
        inputs = _adapter().validate_python(form.get("inputs", ()))
    except ValidationError:
        raise ValueError(_NO_FORM) from None
    defaults = form.get("defaults", {})
    return inputs, defaults if isinstance(defaults, Mapping) else {}


def settle_form(form: Any) -> JsonMap:
    """The form once its templates are rendered: each default is of the type of its input, and one
    that came to nothing is none. Raises ValueError."""
    if form is None:
        return {}
    if not isinstance(form, Mapping) or not form.keys() <= {"inputs", "defaults"}:
        raise ValueError(_NO_FORM)
    inputs, rendered = read_form(form)
    if not all(one.name for one in inputs):
        raise ValueError(_NO_FORM)
    defaults = {one.name: read_value(one, rendered[one.name]) for one in inputs if one.name in rendered}
    known = {name: value for name, value in defaults.items() if value is not None}
    for one in inputs:
        for fault in find_value_faults(one, known.get(one.name), one.name) if one.name in known else ():
            raise ValueError(f"the default of `{fault.path}` in the form {fault.message}.")
    return form_to_json([replace(one, defaulted=one.name in known) for one in inputs], known)


@cache
def _adapter() -> TypeAdapter[tuple[Input, ...]]:
    # Built at first use, as that of nets is.
    return TypeAdapter(tuple[Input, ...])
