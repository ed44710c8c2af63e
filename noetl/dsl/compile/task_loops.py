"""`loop` of a task: one item after another, in the worker that runs the pipeline."""

from __future__ import annotations

from noetl.dsl.compile.context import Context, Site
from noetl.dsl.compile.entries import Entry
from noetl.dsl.compile.loops import failure_of, iterator_of
from noetl.dsl.document import LoopSpec, TaskLoop, known_keys
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path
from noetl.net.model import Failure, Loop


def task_loop(context: Context, entry: Entry, site: Site) -> Loop | None:
    """The loop of the task: the innermost one, since a call of the workbook may replace that of its task."""
    given = [(tool.loop, (*path, "loop")) for tool, path in entry.parts if tool.loop is not None]
    if not given:
        return None
    part, path = given[-1]
    _refuse_others(context, part, path)
    spec = part.spec or LoopSpec()
    iterator = iterator_of(context, part, path)
    if "in_" not in part.model_fields_set:
        hint = 'add in: "{{ ... }}" or a list'
        context.report.missing(path, "in", "the loop does not say what to loop over", hint)
    if iterator is None:
        return None
    context.use((*path, "in"), part.in_, site.step)
    return Loop(part.in_, iterator, failure=failure_of(context, spec, (*path, "spec")) or Failure())


def _refuse_others(context: Context, part: TaskLoop, path: Path) -> None:
    """What only the loop of a step can do is said to be so; the rest of what means nothing is a warning."""
    extra = part.model_extra or {}
    spec = part.spec or LoopSpec()
    at_spec = (*path, "spec")
    if "cursor" in extra:
        _refuse(
            context,
            (*path, "cursor"),
            "`cursor` claims rows for the loop of a step",
            "put the loop on a step",
        )
    for mode, at in ((extra.get("mode"), (*path, "mode")), (spec.mode, (*at_spec, "mode"))):
        if mode not in (None, "sequential"):
            _refuse(context, at, "the loop of a task runs one item after another", "loop on a step for that")
    if spec.max_in_flight is not None:
        message = "the loop of a task has one item in flight"
        _refuse(context, (*at_spec, "max_in_flight"), message, "loop on a step for more")
    warn_unknown(part, path, context.report, except_for={"cursor", "mode"})
    given = {key for key in known_keys(LoopSpec) if key in spec.model_fields_set}
    for key in sorted(given - {"mode", "max_in_flight", "policy"}):
        message = f"`{key}` means nothing to the loop of a task"
        context.report.add(
            Code.IGNORED, (*at_spec, key), message, "put it under spec: of the task", at_key=True
        )
    if spec.policy is not None and (spec.policy.rules is not None or spec.policy.admit is not None):
        message = "of a policy only `failure` means something to the loop of a task"
        hint = "put rules under spec.policy of the task"
        context.report.add(Code.IGNORED, (*at_spec, "policy"), message, hint, at_key=True)


def _refuse(context: Context, at: Path, message: str, hint: str) -> None:
    context.report.add(Code.MISPLACED, at, message, hint, at_key=True)
