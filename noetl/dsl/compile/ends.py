"""Keys of a step that concern more than its own runs: what it ends, and when it may begin."""

from __future__ import annotations

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Executor, ExecutorSpec, JoinSpec, Step, StepSpec
from noetl.dsl.problems import Code, Path, quote_value
from noetl.net.model import EndStatus, Join, Milestone


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


def compile_completes(context: Context, spec: StepSpec, at: Path) -> tuple[str, ...]:
    """The steps whose runs a run of the step ends as done, each once."""
    given = enumerate(spec.completes or [])
    known = (name for index, name in given if _is_step(context, name, (*at, index)))
    return tuple(dict.fromkeys(known))


def compile_milestone(context: Context, spec: StepSpec, at: Path, step: str) -> Milestone | None:
    """When the step called `step` may begin; None where it says nothing of that that holds."""
    given = spec.milestone
    if given is None:
        return None
    names = {"after": given.after, "before": given.before}
    if not any(names.values()):
        context.report.missing(
            at, "after", "the milestone names no step", "add after: <step>, before: <step> or both"
        )
        return None
    for key, name in names.items():
        if name is not None and (not _is_step(context, name, (*at, key)) or name == step):
            if name == step:
                _say_circle(context, (*at, key), step)
            return None
    if given.after == given.before:
        context.report.add(
            Code.VALUE,
            (*at, "before"),
            f"the step could only begin between the end of {quote_value(given.after)} and its beginning",
            "name two steps",
        )
    return Milestone(given.after or "", given.before or "")


def _say_circle(context: Context, at: Path, step: str) -> None:
    message = f"the milestone of {quote_value(step)} names that step itself"
    context.report.add(Code.VALUE, at, message, "name another step of this workflow")


def _is_step(context: Context, name: str, at: Path) -> bool:
    if name in context.step_names:
        return True
    context.report.add(
        Code.UNKNOWN_STEP,
        at,
        f"there is no step {quote_value(name)}",
        context.report.suggest(name, context.step_names, "name a step of this workflow"),
    )
    return False


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
