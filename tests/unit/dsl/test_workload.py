"""Circles of workload values: told before anything runs, and only where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from noetl.dsl import Code, Compiled

Compile: TypeAlias = Callable[[str], Compiled]


def circles(result: Compiled) -> list[tuple[str, str]]:
    assert result.net is not None
    return [
        (one.path, one.message.partition("circle: ")[2]) for one in result.problems if one.code == Code.CIRCLE
    ]


@pytest.mark.parametrize(
    ("workload", "found"),
    [
        ("{a: '{{ a }}'}", []),
        ("{a: ['{{ a }}']}", [("workload.a", "a → a")]),
        ("{b: '{{ workload.a }}', a: '{{ b }}'}", [("workload.a", "a → b → a")]),
        ("{a: ['{{ b }}'], b: {c: '{{ a[0] }}'}}", [("workload.a", "a → b → b.c → a")]),
        ("{a: [{x: ['{{ b }}']}], b: '{{ a }}'}", [("workload.a", "a → b → a")]),
        ("{m: {x: '{{ m.y }}', y: '{{ workload.m.x }}'}}", [("workload.m.x", "m.x → m.y → m.x")]),
        ("{a: '{{ workload }}', b: '{{ a }}'}", [("workload.a", "a → b → a")]),
        (
            "{a: '{{ b }}', b: '{{ a }}', c: '{{ d }}', d: '{{ c }}'}",
            [("workload.a", "a → b → a"), ("workload.c", "c → d → c")],
        ),
        ("{a: '{{ b }}', b: '{{ c }}', c: 1}", []),
        ("{env: 1, a: '{{ env.A }}', payload: '{{ payload.x }}'}", []),
        ("{m: {x: 1, y: '{{ m.x }}', z: '{{ workload.m.y }}'}}", []),
        ("{m: {x: 1, y: '{{ m[k] }}'}, k: x}", []),
        ("{m: {x: '{{ m.nowhere }}'}}", []),
        ("{a: '{{ b', b: '{{ a }}'}", None),
    ],
)
def test_circles_are_warned_of_where_they_begin(
    body: Compile, workload: str, found: list[tuple[str, str]] | None
) -> None:
    result = body(f"workload: {workload}\nworkflow: [{{step: start}}]\n")
    if found is None:
        assert [one.code for one in result.problems] == [Code.TEMPLATE]
        return
    assert circles(result) == found


def test_circles_through_many_values_are_found_without_recursion(body: Compile) -> None:
    values = ", ".join(f"v{n}: '{{{{ v{n + 1} }}}}'" for n in range(3000))
    result = body(f"workload: {{{values}, v3000: '{{{{ v0 }}}}'}}\nworkflow: [{{step: start}}]\n")
    [(path, _)] = circles(result)
    assert path == "workload.v0"
