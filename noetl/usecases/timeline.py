"""The timeline of an execution: a graph of its steps at any version, and its runs over time."""

from __future__ import annotations

from noetl.history.lines import Timeline
from noetl.usecases.kept_moments import walk_on
from noetl.usecases.runtime import Runtime


def timeline(rt: Runtime, execution_id: str) -> Timeline:
    """The timeline as of the newest version, read in one transaction. The fold is kept in this
    process: the next look reads what is new. Raises NotFound."""
    return walk_on(rt, execution_id)
