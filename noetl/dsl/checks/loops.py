"""Keys of loops that have no effect beside others, or in the loop of a task."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import Loop, LoopSpec, TaskLoop, known_keys
from noetl.dsl.problems import Code, Finding, Path


def check_frames(subject: Subject) -> Iterator[Finding]:
    """`frame` of a loop that claims no rows."""
    for loop, path in subject.parts_that_are(Loop):
        if loop.cursor is None and loop.spec is not None and loop.spec.frame is not None:
            message, at = "`frame` has no effect: the loop has no cursor", (*path, "spec", "frame")
            yield Finding(Code.IGNORED, at, message, "remove it", at_key=True)


def check_reducers(subject: Subject) -> Iterator[Finding]:
    """`reduce` of a loop whose iterations run one behind the other."""
    for loop, path in subject.parts_that_are(Loop):
        if loop.spec is not None and loop.spec.reduce and loop.spec.mode in (None, "sequential"):
            message = (
                "`reduce` has no effect: the loop is sequential, and its iterations see what "
                "earlier ones wrote"
            )
            hint, at = "remove it, or write mode: parallel", (*path, "spec", "reduce")
            yield Finding(Code.IGNORED, at, message, hint, at_key=True)


def check_loops_of_tasks(subject: Subject) -> Iterator[Finding]:
    """What only the loop of a step can do, and what has no effect in that of a task."""
    for loop, path in subject.parts_that_are(TaskLoop):
        spec, at = loop.spec or LoopSpec(), (*path, "spec")
        yield from _misplaced(loop, spec, path)
        given = {key for key in known_keys(LoopSpec) if key in spec.model_fields_set}
        for key in sorted(given - {"mode", "max_in_flight", "policy"}):
            message, hint = f"`{key}` means nothing to the loop of a task", "put it under spec: of the task"
            yield Finding(Code.IGNORED, (*at, key), message, hint, at_key=True)
        if spec.policy is not None and (spec.policy.rules is not None or spec.policy.admit is not None):
            message = "of a policy only `failure` means something to the loop of a task"
            hint = "put rules under spec.policy of the task"
            yield Finding(Code.IGNORED, (*at, "policy"), message, hint, at_key=True)


def _misplaced(loop: TaskLoop, spec: LoopSpec, path: Path) -> Iterator[Finding]:
    extra = loop.model_extra or {}
    if "cursor" in extra:
        message = "`cursor` claims rows for the loop of a step"
        yield _at_key((*path, "cursor"), message, "put the loop on a step")
    for mode, at in ((extra.get("mode"), (*path, "mode")), (spec.mode, (*path, "spec", "mode"))):
        if mode not in (None, "sequential"):
            message = "the loop of a task runs one item after another"
            yield _at_key(at, message, "loop on a step for that")
    if spec.max_in_flight is not None:
        message = "the loop of a task has one item in flight"
        yield _at_key((*path, "spec", "max_in_flight"), message, "loop on a step for more")


def _at_key(path: Path, message: str, hint: str) -> Finding:
    return Finding(Code.MISPLACED, path, message, hint, at_key=True)
