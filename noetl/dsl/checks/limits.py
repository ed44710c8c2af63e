"""`concurrency` and `rate` where there is nothing that they could bound."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import ConcurrencySpec, Loop, Step
from noetl.dsl.problems import Code, Finding, Path, quote_value


def check_limits(subject: Subject) -> Iterator[Finding]:
    """Steps that only route, and iterations that would be skipped or fail for want of a slot."""
    for step, path in subject.parts_that_are(Step):
        yield from _check_step(step, path)
    for loop, path in subject.parts_that_are(Loop):
        yield from _check_iterations(loop, path)


def _check_step(step: Step, path: Path) -> Iterator[Finding]:
    if step.tool not in (None, []) or step.spec is None:
        return
    for key in ("concurrency", "rate"):
        if getattr(step.spec, key) is not None:
            message = f"step {quote_value(step.step)} calls nothing, so there is nothing to bound"
            yield Finding(
                Code.MISPLACED, (*path, "spec", key), message, f"remove {key}:, or add tool:", at_key=True
            )


def _check_iterations(loop: Loop, path: Path) -> Iterator[Finding]:
    given = loop.spec.concurrency if loop.spec is not None else None
    at: Path = (*path, "spec", "concurrency")
    entries = enumerate(given) if isinstance(given, list) else [(None, given)]
    for number, one in entries:
        if isinstance(one, ConcurrencySpec) and one.on_full not in (None, "wait"):
            place: Path = at if number is None else (*at, number)
            yield Finding(
                Code.VALUE,
                (*place, "on_full"),
                f"on_full is {quote_value(one.on_full)}, and iterations wait for their slots",
                "remove on_full:, or put concurrency: into the spec of the step",
            )
