"""What is told of the keys of mappings is what the parts that read them take."""

from __future__ import annotations

from typing import get_args

import pytest

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.quantum.circuits import builders, compiling, params
from noetl.quantum.config import shapes
from noetl.quantum.simulation import noise
from noetl.quantum.tool import Quantum
from noetl.tools.kit.manual import manual_of


def test_all_builders_gate_sets_and_forms_of_sweeps_are_reported() -> None:
    names = [
        get_args(one.model_fields["name"].annotation)[0] for one in get_args(get_args(shapes.AnyBuilder)[0])
    ]

    assert set(names) == set(builders.BUILDERS)
    assert set(get_args(shapes.Gateset)) == set(compiling._GATESETS)
    assert set(shapes.Params.model_fields) - {"symbol"} == set(params._FORMS)


@pytest.mark.parametrize("key", shapes.Noise.model_fields)
def test_every_channel_knows_the_keys_that_are_documented_and_no_others(key: str) -> None:
    place = f"noise.{key}."
    names = [one.name.removeprefix(place) for one in manual_of(Quantum).keys if one.name.startswith(place)]
    spec: Json = {"kraus": []} if key == "custom" else {}

    with pytest.raises(ToolError, match=f"{place}q: is unknown; there are ") as caught:
        noise.parse({key: {**spec, "q": 1}})

    known = caught.value.message.partition("there are ")[2].partition(".")[0]
    assert sorted(known.split(", ")) == sorted(names)
