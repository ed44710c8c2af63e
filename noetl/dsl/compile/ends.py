"""Keys of a step that concern more than its own runs: what it ends, and when it may begin."""

from __future__ import annotations

from noetl.dsl.compile.context import Context
from noetl.dsl.document import Executor, ExecutorSpec, JoinSpec, Step, StepSpec
from noetl.dsl.problems import Code, Path, quote_value
from noetl.net.model import EndStatus, Join, Milestone


def compile_terminate(context: Context, step: Step, path: Path) -> EndStatus | None:
    """How a run of `step`, which stands at `path`, ends the whole execution."""
    if step.terminate is None or _is_misplaced(context, step.step, (*path, "terminate")):
        return None
    return step.terminate


def _is_misplaced(context: Context, step: str | None, at: Path) -> bool:
    """Whether the key at `at` stands on the final step; adds a problem where it does."""
    if step is None or step != _final_step(context):
        return False
    context.report.add(
        Code.MISPLACED,
        at,
        f"step {quote_value(step)} is the final step, which runs alone once all else has ended",
        f"remove {at[-1]}, or put it on another step",
    )
    return True


def _final_step(context: Context) -> str | None:
    return ((context.document.executor or Executor()).spec or ExecutorSpec()).final_step


def compile_completes(context: Context, spec: StepSpec, at: Path, step: str) -> tuple[str, ...]:
    """The steps whose runs a run of the step called `step` ends as done, each once."""
    if not spec.completes or _is_misplaced(context, step, at):
        return ()
    given = enumerate(spec.completes or [])
    known = (name for index, name in given if _is_other_step(context, name, (*at, index)))
    return tuple(dict.fromkeys(known))


def compile_milestone(context: Context, spec: StepSpec, at: Path, step: str) -> Milestone | None:
    """When the step called `step` may begin; None where it says nothing of that that holds."""
    given = spec.milestone
    if given is None or _is_misplaced(context, step, at):
        return None
    names = {"after": given.after, "before": given.before}
    if not any(names.values()):
        context.report.missing(
            at, "after", "the milestone names no step", "add after: <step>, before: <step> or both"
        )
        return None
    for key, name in names.items():
        if name == step:
            _say_circle(context, (*at, key), step)
            return None
        if name is not None and not _is_other_step(context, name, (*at, key)):
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


def _is_other_step(context: Context, name: str, at: Path) -> bool:
    """Whether `name` is a step that runs before all else has ended; adds a problem where not."""
    if name == _final_step(context):
        message = f"step {quote_value(name)} is the final step, which runs once all else has ended"
        context.report.add(Code.VALUE, at, message, "name another step of this workflow")
        return False
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
