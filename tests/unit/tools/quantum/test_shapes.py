"""What is told of the keys of mappings is what the parts that read them take."""

from __future__ import annotations

from typing import get_args

import pytest
from pydantic.fields import FieldInfo

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.manual import manual_of
from noetl.tools.quantum import builders, gatesets, noise, params, shapes
from noetl.tools.quantum.tool import Quantum


def told(model: type[object]) -> dict[str, object]:
    """The keys of a model and their defaults."""
    fields: dict[str, FieldInfo] = model.model_fields  # type: ignore[attr-defined]
    return {name: field.get_default() for name, field in fields.items() if name != "name"}


@pytest.mark.parametrize("shape", get_args(get_args(shapes.Builder)[0]))
def test_a_builder_takes_the_keys_that_are_told(shape: type[object]) -> None:
    (name,) = get_args(shape.model_fields["name"].annotation)  # type: ignore[attr-defined]

    assert told(shape) == told(builders.BUILDERS[name].keys)


def test_all_builders_gate_sets_and_forms_of_sweeps_are_told() -> None:
    names = [
        get_args(one.model_fields["name"].annotation)[0] for one in get_args(get_args(shapes.Builder)[0])
    ]

    assert set(names) == set(builders.BUILDERS)
    assert set(get_args(shapes.Gateset)) == set(gatesets._GATESETS)
    assert set(shapes.Params.model_fields) - {"symbol"} == set(params._FORMS)


@pytest.mark.parametrize("key", shapes.Noise.model_fields)
def test_every_channel_knows_the_keys_that_are_told_and_no_others(key: str) -> None:
    place = f"noise.{key}."
    names = [one.name.removeprefix(place) for one in manual_of(Quantum).keys if one.name.startswith(place)]
    spec: Json = {"kraus": []} if key == "custom" else {}

    with pytest.raises(ToolError, match=f"{place}q: is unknown; there are ") as caught:
        noise.parse({key: {**spec, "q": 1}})

    known = caught.value.message.partition("there are ")[2].partition(".")[0]
    assert sorted(known.split(", ")) == sorted(names)
