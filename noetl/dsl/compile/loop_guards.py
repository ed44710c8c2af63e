"""What the loop of a step asks while it runs: `enough`."""

from __future__ import annotations

from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Loop, LoopSpec
from noetl.dsl.problems import Code, Path
from noetl.net.tasks import EnoughRule

#: What the guards of a loop see besides what its step does.
PROGRESS: Final = frozenset({"completed", "failed", "total", "results"})


def enough_of(context: Context, part: Loop, path: Path, step: str) -> EnoughRule | None:
    """When the loop at `path` has come to enough; None where it waits for all."""
    if part.enough is None:
        return None
    at = (*path, "enough")
    if (part.spec or LoopSpec()).sync is False:
        context.report.add(
            Code.MISPLACED,
            at,
            "`enough` says when the step is done, and with `sync: false` it is done at once",
            "keep one of them",
            at_key=True,
        )
    if part.enough.when is None:
        context.report.missing(at, "when", "`enough` does not say when", 'add when: "{{ ... }}"')
        return None
    context.use((*at, "when"), part.enough.when, step, guard=True, also=PROGRESS)
    return EnoughRule(part.enough.when, part.enough.rest or "cancel")
