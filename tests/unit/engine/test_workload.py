"""The workload: templates over one another, rendered once, whatever their order."""

from __future__ import annotations

from typing import Any

import pytest
from nets import plan, step

from noetl.engine.inputs import Inputs
from noetl.facts import events as e
from noetl.testing import START, given


def evaluated(
    workload: dict[str, Any], overrides: dict[str, Any] | None = None, **payload: Any
) -> e.Evaluated:
    on = plan(step("start"), workload=workload)
    requested = e.Requested("tests/test", 1, "digest", payload=payload, overrides=overrides or {})
    inputs = Inputs(now=START, env={"STAGE": "prod"})
    fact = given(on, requested, inputs=inputs).when().facts[0]
    assert isinstance(fact, e.Evaluated)
    return fact


@pytest.mark.parametrize(
    ("template", "becomes"),
    [
        ("{{ execution_id }}", "1"),
        ("{{ job.uuid }}", "1"),
        ("{{ job.execution_id }}", "1"),
        ("{{ env.STAGE }}", "prod"),
        ("{{ env.HOME }}", None),
        ("{{ payload.n }}", 4),
        ("{{ now() }}", START.isoformat()),
        ("{{ a }}", [1]),
        ("{{ workload.a }}", [1]),
        ("{{ later + 1 }}", 3),
        ("{{ workload.m.k.d }}", 4),
        (["{{ payload.n }}", {"deep": ["{{ later }}"]}], [4, {"deep": [2]}]),
        ({"one": {"two": "{{ env.STAGE }}-{{ execution_id }}"}}, {"one": {"two": "prod-1"}}),
    ],
)
def test_a_value_may_be_a_template_over_what_is_known_at_the_start(template: Any, becomes: Any) -> None:
    fact = evaluated(
        {"a": [1], "x": template, "later": "{{ 1 + 1 }}", "m": {"k": {"d": "{{ n }}"}}, "n": 0}, n=4
    )
    assert fact.workload["x"] == becomes


def test_a_mapping_may_name_its_own_neighbours() -> None:
    base = {
        "host": "{{ env.STAGE }}.example.com",
        "port": 80,
        "deep": {
            "root": "http://{{ workload.base.host }}:{{ base.port }}",
            "more": ["{{ base.deep.root }}/x"],
        },
    }
    assert evaluated({"base": base}, base={"port": 81}).workload["base"] == {
        "host": "prod.example.com",
        "port": 81,
        "deep": {"root": "http://prod.example.com:81", "more": ["http://prod.example.com:81/x"]},
    }


@pytest.mark.parametrize(
    ("workload", "circle"),
    [
        ({"a": ["{{ a }}"]}, "a → a"),
        ({"a": "{{ b }}", "b": "{{ workload.a }}"}, "a → b → a"),
        ({"a": ["{{ b }}"], "b": {"c": "{{ a[0] }}"}}, "a → b → a"),
        ({"m": {"x": "{{ m.y }}", "y": "{{ workload.m.x }}"}}, "m.x → m.y → m.x"),
        ({"m": {"x": "{{ m }}"}}, "m.x → m.x"),
        ({"m": {"x": ["{{ workload }}"]}}, "m.x → m.x"),
    ],
)
def test_a_circle_ends_the_execution_and_is_reported(workload: dict[str, Any], circle: str) -> None:
    fact = evaluated(workload)
    assert not fact.accepted
    assert fact.error is not None
    assert fact.error.kind == "template"
    assert f"values refer to each other in a circle: {circle}." in fact.error.message


def test_what_is_named_over_and_over_is_rendered_once() -> None:
    # Each names the one before it twice: rendered at every mention the last one would take 2^40 of
    # them.
    chain = {f"x{n}": f"{{{{ m.x{n - 1} is defined and m.x{n - 1} }}}}" for n in range(1, 40)}
    assert evaluated({"m": {"x0": True, **dict(reversed(chain.items()))}}).workload["m"]["x39"] is True


def test_what_is_given_breaks_a_circle() -> None:
    workload = {"a": "{{ b }}", "b": "{{ a }}"}
    assert evaluated(workload, a=1).workload == {"a": 1, "b": 1}
    assert evaluated(workload, overrides={"b": 2}).workload == {"a": 2, "b": 2}


def test_what_is_given_is_never_rendered() -> None:
    assert evaluated({"a": 1, "b": "{{ a }}"}, a="{{ 1 + 1 }}").workload == {
        "a": "{{ 1 + 1 }}",
        "b": "{{ 1 + 1 }}",
    }


def test_a_value_that_is_undefined_is_null_with_a_warning() -> None:
    fact = evaluated({"a": "{{ nowhere }}"})
    assert fact.workload == {"a": None}
    assert len(fact.warnings) == 1
