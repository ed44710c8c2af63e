"""Keys of a step that concern more than its own runs: what it ends, and when it may begin."""

from __future__ import annotations

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Executor, ExecutorSpec, Step
from noetl.dsl.document.specs import JoinSpec
from noetl.dsl.problems import Code, Path, quote_value
from noetl.net.model import EndStatus, Join


def compile_terminate(context: Context, step: Step, path: Path) -> EndStatus | None:
    """How a run of `step`, which stands at `path`, ends the whole execution."""
    if step.terminate is None or not _is_final(context, step):
        return step.terminate
    context.report.add(
        Code.MISPLACED,
        (*path, "terminate"),
        f"step {quote_value(step.step)} is the final step, which runs once the execution ends anyway",
        "remove terminate, or put it on another step",
    )
    return None


def _is_final(context: Context, step: Step) -> bool:
    spec = (context.document.executor or Executor()).spec or ExecutorSpec()
    return step.step is not None and step.step == spec.final_step


def compile_merge(context: Context, given: JoinSpec, at: Path) -> Join:
    """The join that counts tokens, whichever arcs they come over."""
    tokens = given.tokens or 0
    if tokens < 1:
        context.report.add(
            Code.VALUE,
            (*at, "tokens"),
            f"the join's tokens are {quote_value(given.tokens)}",
            "write a whole number from 1",
        )
    for key in ("mode", "count", "cancel_rest"):
        if getattr(given, key) is not None:
            context.report.add(
                Code.MISPLACED,
                (*at, key),
                f"{key} stands beside tokens, which counts tokens whichever arcs they came over",
                f"keep tokens or {key}",
            )
    return Join("tokens", tokens)
