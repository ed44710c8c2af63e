"""Arcs: which of them are taken for certain, which never, and what the others depend on."""

from __future__ import annotations

from dataclasses import replace

from noetl.forecast.known_names import KnownNames, decide_guard, render, render_all
from noetl.forecast.model import ArcForecast
from noetl.net.model import Arc, Transition


def forecast_arcs(step: Transition, scope: KnownNames) -> tuple[ArcForecast, ...]:
    """The arcs of `step`, in order. `scope` is what their guards see."""
    found: list[ArcForecast] = []
    earlier: list[ArcForecast] = []
    for arc in step.arcs:
        if not arc.also:
            # What stands behind it may be taken with it, and not in its place.
            earlier = [one for one in found if one.step]
        one = _arc(arc, scope)
        chosen = step.router == "exclusive" or (step.router == "first" and arc.step)
        found.append(_behind(one, earlier) if chosen else one)
    return tuple(found)


def _arc(arc: Arc, scope: KnownNames) -> ArcForecast:
    guard = None if arc.when is None else decide_guard(arc.when, scope)
    return ArcForecast(
        step=arc.step,
        when=arc.when,
        taken=True if guard is None else bool(guard.value) if guard.known else None,
        guard=guard,
        on_failure=arc.boundary,
        args=render_all(arc.args, scope),
        line=arc.line,
        also=arc.also,
        sets={f"{one.scope}.{one.name}": render(one.value, scope) for one in arc.set},
    )


def _behind(arc: ArcForecast, before: list[ArcForecast]) -> ArcForecast:
    """`arc` behind others of which one alone is taken. After a failure only arcs that mention it
    are asked."""
    if any(other.taken for other in before) and not arc.on_failure:
        return replace(arc, taken=False)
    if arc.taken and any(other.taken is None for other in before):
        return replace(arc, taken=None)
    return arc
