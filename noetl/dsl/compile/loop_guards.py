"""What the loop of a step asks while it runs: `enough`, `grow`, `close`."""

from __future__ import annotations

from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Loop, LoopSpec
from noetl.dsl.problems import Code, Path
from noetl.net.tasks import EnoughRule, Template

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


def growth_of(context: Context, part: Loop, path: Path, step: str) -> Template:
    """What iterations of the loop at `path` bring; None where they bring nothing."""
    _refuse_cursor(context, part, path, "grow", part.grow)
    context.use((*path, "grow"), part.grow, step, also=frozenset({"result"}))
    return part.grow


def close_of(context: Context, part: Loop, path: Path, step: str) -> Template:
    """What closes the loop at `path`; None where it closes by itself."""
    _refuse_cursor(context, part, path, "close", part.close)
    context.use((*path, "close"), part.close, step, guard=True, also=PROGRESS)
    return part.close


def _refuse_cursor(context: Context, part: Loop, path: Path, key: str, given: Template) -> None:
    """A cursor says itself how many rows there are, and when it is over."""
    if given is not None and part.cursor is not None:
        context.report.add(
            Code.MISPLACED,
            (*path, key),
            f"`{key}` is for a loop over a collection: what a cursor finds grows by itself",
            "remove it, or write in: [...]",
            at_key=True,
        )
