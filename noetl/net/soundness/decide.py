"""Decides whether a net is sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from noetl.net.model import Arc, Net
from noetl.net.soundness.explore import Exploration, explore
from noetl.net.soundness.firing import Game
from noetl.net.soundness.reduce import reduce
from noetl.net.soundness.shape import FreeNet, Holds, TooWide, shape_of
from noetl.net.soundness.verdict import NotDecided, Sound, SoundnessBounds, Unsound, Unsoundness, Verdict


def is_unguarded(arc: Arc, _failed: bool) -> bool | None:
    """What is known of an arc without looking at its guard."""
    return True if arc.when is None else None


def decide(
    net: Net, holds: Holds = is_unguarded, bounds: SoundnessBounds | None = None, *, reduced: bool = True
) -> Verdict:
    """Whether every run of the guard-free net can come to an end properly: no join waits for ever,
    no step is dead to which a path leads, tokens do not pile up without a bound, and no cycle is
    without a way out.

    A run that fails, and whose failure no arc takes, is an end by itself; admission that keeps a
    token waiting lets it go some time. Without `reduced` the net is explored as it is: the answer
    is the same, later.
    """
    bounds = bounds or SoundnessBounds()
    shape = shape_of(net, holds)
    if isinstance(shape, TooWide):
        return NotDecided(shape.why, 0)
    if net.entry not in shape.nodes:
        return Sound(0)
    left_by = next((region for region in net.regions if region.on_cancel is not None), None)
    if left_by is not None:
        return NotDecided(f"region {left_by.name!r} may be cancelled, and left by another way", 0)
    if not reduced:
        return _decide_whole(net, holds, shape, bounds)
    smaller = reduce(shape)
    watches = len(smaller.nodes) < len(shape.nodes) and not smaller.is_safe
    game = Game(smaller, in_all_orders=watches)
    found = explore(game, bounds, watches=watches)
    if not found.is_unsafe:
        return _conclude(net, holds, smaller, game, found)
    return _decide_whole(net, holds, shape, bounds, found.explored)


def _decide_whole(
    net: Net, holds: Holds, shape: FreeNet, bounds: SoundnessBounds, before: int = 0
) -> Verdict:
    """Explores the net as it is; `before` markings have been looked at."""
    game = Game(shape)
    left = replace(bounds, markings=max(bounds.markings - before, 0))
    found = explore(game, left, watches=False)
    found.explored += before
    return _conclude(net, holds, shape, game, found)


def _conclude(net: Net, holds: Holds, smaller: FreeNet, game: Game, found: Exploration) -> Verdict:
    faults = list(found.faults)
    if not found.reason and not any(fault.kind in ("piles_up", "endless") for fault in faults):
        named = {fault.step for fault in faults}
        faults += [
            Unsoundness("dead", step) for step in _find_dead(net, holds, smaller, game) if step not in named
        ]
    if faults:
        return Unsound(tuple(faults), found.explored)
    if found.reason:
        return NotDecided(found.reason, found.explored)
    return Sound(found.explored)


def _find_dead(net: Net, holds: Holds, smaller: FreeNet, game: Game) -> Iterator[str]:
    """Steps that never run though an arc of one that does leads to them. What only they lead to is
    dead with them; an arc that is never to hold is meant so."""
    alive = {step.name for step in net.transitions if smaller.host(step.name) in game.fired}
    arcs = [arc for arc in net.arcs.values() if arc.source in alive]
    reached = {arc.step for arc in arcs if holds(arc, False) is not False or holds(arc, True) is not False}
    yield from (step for step in net.steps if step in reached - alive and step != net.final_step)
