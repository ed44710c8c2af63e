"""Assignments to ctx and to the variables of a step."""

from __future__ import annotations

from noetl.facts.json import JsonMap, set_path


def assign(ctx: JsonMap, patch: JsonMap) -> JsonMap:
    """`ctx` after the assignments of `patch` (dotted name → value), in order."""
    for name, value in patch.items():
        ctx = set_path(ctx, name, value)
    return ctx
