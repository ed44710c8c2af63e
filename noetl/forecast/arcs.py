"""Arcs: which of them are taken for certain, which never, and what the others depend on."""

from __future__ import annotations

from dataclasses import replace

from noetl.forecast.model import ArcAhead
from noetl.forecast.sight import Sight, rendered, rendered_all, verdict
from noetl.net.model import Arc, Transition


def arcs_ahead(step: Transition, sight: Sight) -> tuple[ArcAhead, ...]:
    """The arcs of `step`, in order. `sight` is what their guards see."""
    found: list[ArcAhead] = []
    earlier: list[ArcAhead] = []
    for arc in step.arcs:
        if not arc.also:
            # What stands behind it may be taken with it, and not in its place.
            earlier = [one for one in found if one.step]
        one = _arc(arc, sight)
        chosen = step.router == "exclusive" or (step.router == "first" and arc.step)
        found.append(_behind(one, earlier) if chosen else one)
    return tuple(found)


def _arc(arc: Arc, sight: Sight) -> ArcAhead:
    guard = None if arc.when is None else verdict(arc.when, sight)
    return ArcAhead(
        step=arc.step,
        when=arc.when,
        taken=True if guard is None else bool(guard.value) if guard.known else None,
        guard=guard,
        on_failure=arc.boundary,
        args=rendered_all(arc.args, sight),
        line=arc.line,
        also=arc.also,
        sets={f"{one.scope}.{one.name}": rendered(one.value, sight) for one in arc.set},
    )


def _behind(arc: ArcAhead, before: list[ArcAhead]) -> ArcAhead:
    """`arc` behind others of which one alone is taken. After a failure only arcs that mention it are asked."""
    if any(other.taken for other in before) and not arc.on_failure:
        return replace(arc, taken=False)
    if arc.taken and any(other.taken is None for other in before):
        return replace(arc, taken=None)
    return arc
