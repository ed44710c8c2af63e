"""The tabs of a playbook's page: each is a module that gathers what its template shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from noetl.errors import NotFound
from noetl.facts.nearest import did_you_mean
from noetl.ui.playbook import graph, runs, source, start, versions
from noetl.ui.playbook.look import PlaybookLook
from noetl.usecases.access import lacking

#: What a template is given, by name.
Shown: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PlaybookTab:
    """`name` stands in the address, `title` on the tab. `gather` finds what `template` shows.
    `is_there`: whether there is such a tab for who looks."""

    name: str
    title: str
    template: str
    gather: Callable[[PlaybookLook], Shown]
    is_there: Callable[[PlaybookLook], bool] = lambda _look: True


#: In the order in which they stand on the page; the first one is shown where none is asked for.
TABS: Final = (
    PlaybookTab("", "Runs", "playbook/runs.html", runs.gather),
    PlaybookTab("graph", "Graph", "playbook/graph.html", graph.gather, lambda look: look.net is not None),
    PlaybookTab("source", "Source", "playbook/source.html", source.gather),
    PlaybookTab("versions", "Versions", "playbook/versions.html", versions.gather),
    PlaybookTab("start", "Start", "playbook/start.html", start.gather, lambda look: look.may_start),
)


def find_tabs(look: PlaybookLook) -> list[PlaybookTab]:
    """Those that the visitor has."""
    return [one for one in TABS if one.is_there(look)]


def find_tab(look: PlaybookLook) -> PlaybookTab:
    """The one that is looked at. Raises NotFound where there is none of that name, and Forbidden
    for the form of who may not start the playbook."""
    for one in find_tabs(look):
        if one.name == look.tab:
            return one
    if any(one.name == look.tab and one.gather is start.gather for one in TABS):
        raise lacking(look.visitor.principal, "run", f"playbook {look.path!r}")
    names = [one.name for one in find_tabs(look) if one.name]
    raise NotFound(f"The page of a playbook has no tab {look.tab[:40]!r}.{did_you_mean(look.tab, names)}")
