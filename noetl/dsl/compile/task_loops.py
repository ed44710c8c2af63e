"""`loop` of a task: one item after another, in the worker that runs the pipeline."""

from __future__ import annotations

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.loops import failure_of, iterator_of
from noetl.dsl.document import LoopSpec
from noetl.net.model import Failure, Loop


def task_loop(context: Context, entry: ToolEntry, site: Site) -> Loop | None:
    """The loop of the task: the innermost one, since a call of the workbook may replace that of its
    task."""
    given = [(tool.loop, (*path, "loop")) for tool, path in entry.parts if tool.loop is not None]
    if not given:
        return None
    part, path = given[-1]
    spec = part.spec or LoopSpec()
    iterator = iterator_of(context, part, path)
    if "in_" not in part.model_fields_set:
        context.report.missing(
            path, "in", "the loop does not say what to loop over", 'add in: "{{ ... }}" or a list'
        )
    if iterator is None:
        return None
    context.use((*path, "in"), part.in_, site.step)
    return Loop(part.in_, iterator, failure=failure_of(context, spec, (*path, "spec")) or Failure())
