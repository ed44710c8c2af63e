"""How fast the loop of a run goes, and how long the rest of it takes at that rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noetl.history.lines import RunLine
from noetl.net.tasks import Loop

#: Iterations that ended last, of which the rate is taken: earlier ones say little of the rest.
_RECENT: Final = 200
#: Ends of iterations that say something of the next ones.
_LEAST: Final = 2


@dataclass(frozen=True, slots=True)
class LoopPace:
    """`per_second` is how many iterations have ended in a second of late. `left_s` is how long the
    others take at that rate; None where nobody knows how many follow."""

    per_second: float
    left_s: float | None


def find_pace(run: RunLine, rules: Loop, now_ms: float) -> LoopPace | None:
    """That of a run that goes on; None where too little has ended to tell."""
    loop = run.loop
    if loop is None or run.status != "running" or len(loop.ended) < _LEAST:
        return None
    recent = loop.ended[-_RECENT:]
    earlier = len(loop.ended) - len(recent)
    since = loop.ended[earlier - 1].at_ms if earlier else _began_at(run)
    rate = len(recent) / max(now_ms - since, 1.0) * 1_000
    return LoopPace(rate, (loop.total - len(loop.ended)) / rate if _is_total_known(rules) else None)


def _began_at(run: RunLine) -> float:
    return next((one.begin_ms for one in run.segments if one.phase == "running"), run.begin_ms)


def _is_total_known(rules: Loop) -> bool:
    return rules.cursor is None and not rules.asks and rules.close is None
