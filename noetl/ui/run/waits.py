"""What an execution waits for, with what helps: a link to the step, and commands."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from noetl.engine.awaited import who_waits
from noetl.engine.waits import join_awaited
from noetl.facts.json import JsonMap
from noetl.history.ways_on import commands_for
from noetl.ui.run.look import RunLook

#: The names of the signals that runs, and iterations of them, wait for.
Signals: TypeAlias = Mapping[tuple[str | None, int | None], Sequence[str]]
#: What waits that one page shows.
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class ShownWait:
    """Something that waits, as the page shows it: for `what`, and for the instants `ends`, all of
    them (`is_all`) or whichever comes first. `address` leads to the step, where it is one."""

    who: str
    what: str
    ends: Sequence[str]
    is_all: bool
    since: str | None
    until: str | None
    address: str
    commands: Sequence[str]

    @classmethod
    def of(cls, look: RunLook, wait: JsonMap, signals: Sequence[str] = ()) -> Self:
        """`signals` are the names of those that it waits for."""
        step = wait["step"]
        places = {"step": step, "run": wait["run_id"], "iteration": wait["iteration"]}
        address = look.to(tab=None, **places) if step is not None else ""
        commands: list[str] = []
        # Of what was waited for once nothing can be done.
        if look.at is None:
            sent = (f"noetl execution signal {look.execution_id} {shlex.quote(name)}" for name in signals)
            commands = [*commands_for(look.execution_id, wait), *sent]
        instants = [one["due_at"] for one in wait["for"] if is_instant(one)]
        others = {**wait, "for": [one for one in wait["for"] if not is_instant(one)]}
        return cls(
            who_waits(wait),
            join_awaited(others),
            instants,
            wait["mode"] == "all",
            wait["since"],
            _find_end(wait),
            address,
            commands,
        )


def is_instant(awaited: JsonMap) -> bool:
    """Whether it comes by itself; an approval only expires then."""
    return awaited["due_at"] is not None and "approval" not in awaited


def _find_end(wait: JsonMap) -> str | None:
    """When it has waited at the latest, where a time says so."""
    moments = [one["due_at"] for one in wait["for"] if one["due_at"]]
    is_all = wait["mode"] == "all"
    is_bound = not is_all or len(moments) == len(wait["for"])
    last = (max if is_all else min)(moments, default=None) if is_bound else None
    return min(filter(None, (wait["until"], last)), default=None)


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/waits.html` shows, as it is now."""
    return show_waits(look, look.report.waits)


def show_waits(look: RunLook, found: Sequence[JsonMap], signals: Signals | None = None) -> Mapping[str, Any]:
    """`waits`, and how many more there are."""
    known = signals or {}
    waits = [
        ShownWait.of(look, one, known.get((one["run_id"], one["iteration"]), ())) for one in found[:MOST]
    ]
    return {"waits": waits, "more_waits": len(found) - len(waits)}
