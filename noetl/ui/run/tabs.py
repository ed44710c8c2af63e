"""The tabs of an execution's page: each is a module that gathers what its template shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl.errors import NotFound
from noetl.facts.nearest import did_you_mean
from noetl.ui.run import artifacts, called, console, events, logs, quantum, source, steps, waiting
from noetl.ui.run.look import RunLook

#: What a template is given, by name.
Shown: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunTab:
    """`name` stands in the address, `title` on the tab. `gather` finds what `template` shows.
    `is_there`: whether there is such a tab for that execution. `count`: how much there is in it;
    empty: that is not said."""

    name: str
    title: str
    template: str
    gather: Callable[[RunLook], Shown]
    is_there: Callable[[RunLook], bool] = lambda _look: True
    count: Callable[[RunLook], str] = lambda _look: ""


#: In the order in which they stand on the page; the first one is shown where none is asked for.
TABS: Final = (
    RunTab("", "Steps", "run/steps.html", steps.gather),
    RunTab("events", "Events", "run/events.html", events.gather, count=events.count),
    RunTab("logs", "Logs", "run/logs.html", logs.gather),
    RunTab("variables", "Variables", "run/variables.html", console.gather),
    RunTab("waits", "Waits", "run/waiting.html", waiting.gather, count=waiting.count),
    RunTab("called", "Called", "run/called.html", called.gather, count=called.count),
    RunTab("artifacts", "Artifacts", "run/artifacts.html", artifacts.gather),
    RunTab("quantum", "Quantum", "run/quantum.html", quantum.gather, quantum.is_there),
    RunTab("source", "Source", "run/source.html", source.gather),
)


def find_tabs(look: RunLook) -> list[RunTab]:
    """Those of the execution."""
    return [one for one in TABS if one.is_there(look)]


def find_tab(look: RunLook) -> RunTab:
    """The one that is looked at. Raises NotFound where there is none of that name."""
    for one in TABS:
        if one.name == look.tab and one.is_there(look):
            return one
    names = [one.name for one in find_tabs(look) if one.name]
    raise NotFound(f"The page of an execution has no tab {look.tab[:40]!r}.{did_you_mean(look.tab, names)}")
