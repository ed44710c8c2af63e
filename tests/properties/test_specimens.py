"""A forged file of an execution is refused with a sentence, or what it holds can be looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.json import Json
from noetl.facts.logs import LogFilter
from noetl.history.shape import timeline_as_json
from noetl.testing import Simulation
from noetl.usecases import inspect, logs, specimens
from noetl.usecases.specimen_chain import write
from noetl.usecases.timeline import timeline
from tests.budget import examples

BOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: forged, path: tests/forged}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel}}
    tool: {kind: python, code: "result = n * 2", input: {n: "{{ i }}"}}
    set: {ctx.total: "{{ result }}"}
    next: [b, c]
  - {step: b, tool: {kind: noop}, next: end}
  - {step: c, tool: {kind: noop}, next: end}
  - {step: end, spec: {join: {mode: all}}, tool: {kind: noop, input: {total: "{{ ctx.total }}"}}}
"""
REFERENCE = {"kind": "result_ref", "ref": f"noetl://results/permanent/{'0' * 64}.json"}
VALUES = st.sampled_from(
    [None, 0, -1, 7, 1e308, 10**30, True, "", "x", "é\0", [], {}, [[]], {"a": 1}, ["x"], REFERENCE]
)


@cache
def _exported() -> str:
    sim = Simulation(BOOK)
    execution_id = sim.start()
    sim.settle()
    return json.dumps([json.loads(line) for line in specimens.export(sim.rt, execution_id)])


def _places(value: Json, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside of `value`."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*place, key)
        yield from _places(value[key], (*place, key))


@given(data=st.data())
@settings(
    max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_a_file_with_any_value_in_any_place_is_answered(data: st.DataObject) -> None:
    said = json.loads(_exported())
    part = said[data.draw(st.integers(0, len(said) - 1))]
    *way, last = data.draw(st.sampled_from(list(_places(part))))
    inner = part
    for key in way:
        inner = inner[key]
    inner[last] = data.draw(VALUES)
    for one in said:
        one.pop("hash", None)
    here = Simulation(BOOK)
    with suppress(BadRequest, Conflict):
        lines = [line.encode() for line in write(said)]
        specimen = specimens.check(here.rt, lines)
        specimens.keep(here.rt, specimen)
        _look(here, specimen.header.execution_id)


def _look(sim: Simulation, execution_id: str) -> None:
    inspect.report(sim.rt, execution_id).as_json()
    inspect.state_view(sim.rt, execution_id, 3)
    found = timeline_as_json(timeline(sim.rt, execution_id))
    assert found["version"] == len(found["at_ms"])
    json.dumps(found, allow_nan=False)
    # A reference to what the file does not hold: the answer is that it is gone.
    with suppress(NotFound):
        inspect.result(sim.rt, execution_id)
    logs.page(sim.rt, execution_id, LogFilter())
    assert list(specimens.export(sim.rt, execution_id))
