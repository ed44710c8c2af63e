"""`loop` of steps and of tasks, and what failure means for loops, steps and executions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from noetl.dsl.compile.context import Context, PipelineSite, as_number, whole_number
from noetl.dsl.compile.cursors import cursor
from noetl.dsl.compile.entries import ToolEntry
from noetl.dsl.compile.limits import compile_concurrency
from noetl.dsl.compile.loop_guards import close_of, enough_of, growth_of
from noetl.dsl.document import Loop, LoopSpec, TaskLoop, TaskSpec, Tolerate
from noetl.dsl.document.identifiers import readable
from noetl.dsl.problems import Code, Path, quote_value
from noetl.expressions import names_used
from noetl.net.model import Failure, Reducer, Template
from noetl.net.model import Loop as NetLoop

#: Names that every iteration has beside its item.
_OF_ITERATIONS = frozenset({"index", "parent"})
#: What the inputs of a step are called.
_ARGS = frozenset({"args", "input"})


def loop(
    context: Context, part: Loop, path: Path, site: PipelineSite, step_failure: Failure | None
) -> NetLoop | None:
    """The loop at `path`; None where it cannot be one."""
    iterator = iterator_of(context, part, path)
    spec = part.spec or LoopSpec()
    at = (*path, "spec")
    claim = None
    if part.cursor is not None:
        claim = cursor(context, part.cursor, (*path, "cursor"), site, spec.frame)
    _check_source(context, part, path)
    if iterator is None or (part.cursor is not None and claim is None):
        return None
    step = site.step or ""
    context.use((*path, "in"), part.in_, step)
    width: Template = None
    if spec.max_in_flight is not None:
        width = whole_number(context, as_number(spec.max_in_flight), (*at, "max_in_flight"), None)
        context.use((*at, "max_in_flight"), width, step)
    return NetLoop(
        collection=part.in_,
        iterator=iterator,
        mode=_mode(context, part, spec, (*at, "mode")),
        max_in_flight=width,
        failure=_of_iterations(failure_of(context, spec, at) or step_failure or Failure()),
        reduce=reducers(context, part, path),
        commit=spec.commit,
        cursor=claim,
        sync=spec.sync is not False,
        enough=enough_of(context, part, path, step),
        grow=growth_of(context, part, path, step),
        close=close_of(context, part, path, step),
        process=(spec.frame.process if spec.frame is not None else None) or "row",
        concurrency=compile_concurrency(context, spec.concurrency, (*at, "concurrency"), step),
    )


def _mode(
    context: Context, part: Loop, spec: LoopSpec, at: Path
) -> Literal["sequential", "parallel", "cursor"]:
    """Of a loop over a cursor `mode: cursor` is left where its width is known when it runs."""
    if spec.mode == "cursor" and part.cursor is None:
        context.report.add(
            Code.VALUE, at, "`mode` is 'cursor', and the loop has no cursor", "write sequential or parallel"
        )
        return "parallel"
    return spec.mode or "sequential"


def _check_source(context: Context, part: Loop, path: Path) -> None:
    """A loop runs over a collection or over what a cursor claims."""
    report = context.report
    given = "in_" in part.model_fields_set
    if given and part.cursor is not None:
        report.add(
            Code.MISPLACED,
            (*path, "cursor"),
            "the loop has both `in` and `cursor`",
            "keep one of them",
            at_key=True,
        )
    elif not given and part.cursor is None and not report.is_faulty((*path, "cursor")):
        report.missing(path, "in", "the loop does not say what to loop over", 'add in: "{{ ... }}" or a list')


def reducers(context: Context, part: Loop, path: Path) -> dict[str, Reducer]:
    """ctx name (without `ctx.`) → reducer."""
    made: dict[str, Reducer] = {}
    for key, reducer in ((part.spec and part.spec.reduce) or {}).items():
        head, dot, rest = key.partition(".")
        if dot and head in ("iter", "step", "workload", "args"):
            context.report.add(
                Code.SCOPE,
                (*path, "spec", "reduce", key),
                f"{quote_value(key)} cannot be reduced",
                "reducers fold ctx.<name>",
                at_key=True,
            )
            continue
        made[rest if dot and head in ("ctx", "vars") else key] = reducer
    return made


def ctx_names_to_reduce(part: Loop) -> frozenset[str] | None:
    """The ctx names that have a reducer; None where iterations do not run side by side."""
    if part.spec is None or part.spec.mode != "parallel":
        return None
    return frozenset(key.removeprefix("ctx.").removeprefix("vars.") for key in part.spec.reduce or ())


def failure_of(context: Context, spec: TaskSpec | None, path: Path) -> Failure | None:
    """`policy.failure` of the spec at `path`; None where it has none."""
    given = spec.policy.failure if spec is not None and spec.policy is not None else None
    if given is None:
        return None
    at: Path = (*path, "policy", "failure")
    tolerate = given.tolerate or Tolerate()
    if tolerate.count is not None and tolerate.count < 0:
        context.report.add(
            Code.VALUE, (*at, "tolerate", "count"), f"count is {tolerate.count}", "write 0 or more"
        )
    if tolerate.percent is not None and not 0 <= tolerate.percent <= 100:
        context.report.add(
            Code.VALUE,
            (*at, "tolerate", "percent"),
            f"percent is {quote_value(tolerate.percent)}",
            "write 0 to 100",
        )
    # Who tolerates some failures wants the rest to run.
    mode = given.mode or ("fail_fast" if given.tolerate is None else "best_effort")
    percent = None if tolerate.percent is None else float(tolerate.percent)
    return Failure(mode, tolerate.count, percent)


def _of_iterations(failure: Failure) -> Failure:
    """What a failure means for the other iterations. A bound of `best_effort` is looked at when all
    have run; one of `fail_fast` at each failure, which is what nets call best_effort."""
    if failure.tolerate_count is None and failure.tolerate_percent is None:
        return failure
    return replace(failure, mode="best_effort" if failure.mode == "fail_fast" else "run_all")


def of_branches(context: Context, failure: Failure | None, path: Path, *, loops: bool) -> Failure | None:
    """What a failure means for other branches; None where the spec at `path` says nothing of
    them."""
    if failure is None or failure.mode != "run_all":
        return failure
    if not loops:
        hint = "write it in the spec of a loop, or best_effort here"
        context.report.add(Code.VALUE, (*path, "policy", "failure", "mode"), "run_all is about loops", hint)
    return None


def iterator_of(context: Context, part: Loop | TaskLoop, path: Path) -> str | None:
    """What the items are called; None where they cannot be called so."""
    if part.iterator is None:
        context.report.missing(path, "iterator", "the loop has no iterator", "add iterator: item")
        return None
    at = (*path, "iterator")
    if part.iterator in _OF_ITERATIONS:
        context.report.add(
            Code.NAME,
            at,
            f"iter.{part.iterator} is the iteration's own: no iterator can be called {part.iterator}",
            "call it item",
        )
        return None
    return part.iterator if readable(context.report, part.iterator, at) else None


def inputs_of_iterations(loop: NetLoop, args: Mapping[str, Template], *, inner: bool) -> frozenset[str]:
    """Those of a step's `args` that read the item or its index: they are inputs of every iteration.
    Those that the loop itself reads are not among them. `inner` says that `iter` is another
    iteration where the step begins."""
    asked = names_used([loop.collection, loop.max_in_flight])
    kept = {chain[0] for chain in asked} | {
        chain[1] for chain in asked if chain[0] in _ARGS and len(chain) > 1
    }
    return frozenset(
        name
        for name, value in args.items()
        if name not in kept
        and any(_is_of_iteration(chain, loop.iterator, inner) for chain in names_used(value))
    )


def _is_of_iteration(chain: tuple[str, ...], iterator: str, inner: bool) -> bool:
    if chain[0] == iterator or chain[:2] == ("iter", iterator):
        return True
    return not inner and (chain[0] == "loop_index" or (chain[0] == "iter" and chain[1:2] != ("parent",)))


def task_loop(context: Context, entry: ToolEntry, site: PipelineSite) -> NetLoop | None:
    """The loop of the task."""
    if (given := entry.part("loop")) is None:
        return None
    part, path = given
    spec = part.spec or LoopSpec()
    iterator = iterator_of(context, part, path)
    if "in_" not in part.model_fields_set:
        context.report.missing(
            path, "in", "the loop does not say what to loop over", 'add in: "{{ ... }}" or a list'
        )
    if iterator is None:
        return None
    context.use((*path, "in"), part.in_, site.step)
    failure = failure_of(context, spec, (*path, "spec")) or Failure()
    return NetLoop(part.in_, iterator, failure=_of_iterations(failure))
