"""The canonical dialect: document to Net."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from noetl.dsl.compile.context import Context, PipelineSite, assignments, inputs_of
from noetl.dsl.compile.ends import (
    compile_completes,
    compile_merge,
    compile_milestone,
    compile_terminate,
)
from noetl.dsl.compile.entries import workbook_entries
from noetl.dsl.compile.inputs import compile_inputs
from noetl.dsl.compile.key import compile_key
from noetl.dsl.compile.keychain import compile_keychain
from noetl.dsl.compile.labels import compile_labels
from noetl.dsl.compile.limits import compile_limits
from noetl.dsl.compile.loops import ctx_names_to_reduce, failure_of, inputs_of_iterations, loop, of_branches
from noetl.dsl.compile.policies import admission, entry_guard, execution_retry
from noetl.dsl.compile.provides import compile_provides
from noetl.dsl.compile.routes import has_targets, routes
from noetl.dsl.compile.scopes import (
    compile_compensation,
    compile_regions,
    find_step,
    try_undoing_again,
)
from noetl.dsl.compile.specs import queue_of
from noetl.dsl.compile.tools import pipeline, workbook_tasks
from noetl.dsl.document import Document, Executor, ExecutorSpec, Metadata, Policy, Step, StepSpec
from noetl.dsl.document.identifiers import usable
from noetl.dsl.problems import Code, Path, quote_value
from noetl.net.model import Admission, Failure, Join, Net, Task, Template, Transition
from noetl.net.model import Loop as NetLoop

MAX_STEPS = 1_000
#: Steps that may do nothing and lead nowhere: people write them by habit.
_BARE = frozenset({"start", "end"})
_EXECUTOR_SPEC: Path = ("executor", "spec")
_RETRY: Path = (*_EXECUTOR_SPEC, "policy", "retry")


def compile_document(context: Context) -> Net | None:
    """The net; None where there is no step to begin with. What prevents it is in the context's
    report, what the checks need to know in its notes."""
    document = context.document
    if not document.workflow:
        context.report.missing(
            (), "workflow", "the document has no steps", "add workflow: with a list of steps"
        )
    steps = list(_find_steps(context, document))
    # Steps that are left out because of their own faults are not unknown targets.
    context.step_names = frozenset(step.step for step in document.workflow or [] if step.step is not None)
    context.workbook = workbook_entries(context)
    spec = (document.executor or Executor()).spec or ExecutorSpec()
    failure = failure_of(context, spec, _EXECUTOR_SPEC)
    failure = of_branches(context, failure, _EXECUTOR_SPEC, loops=False) or Failure()
    transitions = try_undoing_again(
        tuple(_transition(context, name, step, path, failure) for name, step, path in steps)
    )
    workload = document.workload or {}
    ctx = document.ctx or {}
    for root, values in (("workload", workload), ("ctx", ctx)):
        for key, value in values.items():
            context.use((root, key), value, None)
    inputs, workload = compile_inputs(context)
    business_key = compile_key(context)
    if not transitions:
        return None
    again = (spec.policy or Policy()).retry
    entry = _special_step(context, spec.entry_step, "entry_step")
    metadata = document.metadata or Metadata()
    name = metadata.name or (metadata.path or context.report.source.file).rstrip("/").rpartition("/")[2]
    return Net(
        name=name,
        path=metadata.path or name,
        entry=entry or ("start" if "start" in context.step_names else transitions[0].name),
        transitions=transitions,
        workload=workload,
        workbook=workbook_tasks(context),
        keychain=compile_keychain(context),
        final_step=_special_step(context, spec.final_step, "final_step"),
        failure=failure,
        no_next_is_error=bool(spec.no_next_is_error),
        description=_text(metadata.description),
        file=context.report.source.file,
        ctx=ctx,
        inputs=inputs,
        retry=None if again is None else execution_retry(context, again, _RETRY),
        key=business_key,
        on_cancel=_special_step(context, spec.on_cancel, "on_cancel"),
        regions=compile_regions(context),
        limits=compile_limits(context, spec, _EXECUTOR_SPEC, None),
        labels=compile_labels(context, metadata.labels),
        provides=compile_provides(context),
    )


def _find_steps(context: Context, document: Document) -> Iterator[tuple[str, Step, Path]]:
    """Steps whose names can be used, each once, with their paths."""
    seen: dict[str, int] = {}
    workflow = document.workflow or []
    if len(workflow) > MAX_STEPS:
        context.report.add(
            Code.TOO_MANY_STEPS,
            ("workflow",),
            f"the workflow has {len(workflow):,} steps, more than {MAX_STEPS:,}",
            "move parts into other playbooks",
        )
        workflow = workflow[:MAX_STEPS]
        context.notes.is_whole = False
    for index, step in enumerate(workflow):
        path: Path = ("workflow", index)
        if _is_named_once(context, step, path, seen):
            name = step.step or ""
            seen[name] = context.report.source.mark((*path, "step")).line
            yield name, step, path
        else:
            context.notes.is_whole = False


def _is_named_once(context: Context, step: Step, path: Path, seen: Mapping[str, int]) -> bool:
    if step.step is None:
        hint = "write step: instead of name:" if "name" in (step.model_extra or {}) else "add step: <name>"
        context.report.missing(path, "step", "the step has no name", hint)
        return False
    at = (*path, "step")
    if step.step in seen:
        context.report.add(
            Code.DUPLICATE_NAME,
            at,
            f"a step {quote_value(step.step)} is already in line {seen[step.step]}",
            "give each step its own name",
        )
        return False
    return usable(context.report, step.step, at, "step")


def _transition(context: Context, name: str, step: Step, path: Path, around: Failure) -> Transition:
    _check_step(context, name, step, path)
    site = _site(name, step, path)
    spec = step.spec or StepSpec()
    own_failure = failure_of(context, spec, (*path, "spec"))
    made_loop = None
    if step.loop is not None:
        made_loop = loop(context, step.loop, (*path, "loop"), site, own_failure)
    branches = of_branches(context, own_failure, (*path, "spec"), loops=step.loop is not None)
    tasks = pipeline(context, step.tool, (*path, "tool"), site)
    onwards = routes(context, step.next, (*path, "next"), name)
    args, iterated = _inputs(context, step, path, name, made_loop)
    return Transition(
        name=name,
        tasks=tuple(_add_inputs(context, task, step, path, iterated) for task in tasks),
        arcs=onwards.arcs,
        router=onwards.mode,
        no_next_is_error=onwards.no_next_is_error,
        loop=made_loop,
        admit=_admission(context, step, path, name),
        join=_join(context, spec, (*path, "spec", "join")),
        iteration=_iteration(context, step, (*path, "iteration")),
        args=args,
        set=assignments(context, step, path, PipelineSite(name), "ctx"),
        failure=branches or around,
        deadline=_deadline(context, spec, (*path, "spec", "deadline"), name),
        compensate=compile_compensation(context, step, path),
        cleanup=find_step(context, step.finally_, (*path, "finally")),
        queue=_queue(context, step, site, tasks, made_loop, (*path, "tool")),
        limits=compile_limits(context, spec, (*path, "spec"), name),
        description=_text(step.desc),
        line=context.report.source.mark(path).line,
        terminate=compile_terminate(context, step, path),
        completes=compile_completes(context, spec, (*path, "spec", "completes"), name),
        milestone=compile_milestone(context, spec, (*path, "spec", "milestone"), name),
    )


def _check_step(context: Context, name: str, step: Step, path: Path) -> None:
    has_tool = step.tool is not None and step.tool != []
    has_way = step.terminate is not None or has_targets(step.next)
    if has_tool or has_way or name in _BARE or context.report.is_faulty((*path, "next")):
        return
    context.report.missing(
        path,
        "tool",
        f"step {quote_value(name)} has neither tool nor next",
        "add one of them, or remove the step",
    )


def _site(name: str, step: Step, path: Path) -> PipelineSite:
    specs: tuple[Path, ...] = (_EXECUTOR_SPEC, (*path, "spec"))
    if step.loop is None:
        return PipelineSite(name, specs)
    return PipelineSite(name, (*specs, (*path, "loop", "spec")), True, ctx_names_to_reduce(step.loop))


def _admission(context: Context, step: Step, path: Path, name: str) -> Admission | None:
    """Which tokens may enter: those that its `when`, or its policy, lets in."""
    policy = (step.spec or StepSpec()).policy or Policy()
    if policy.admit is not None and step.when is not None:
        message = "`when` stands beside another admission: spec.policy.admit, or pass"
        context.report.add(Code.MISPLACED, (*path, "when"), message, "write one of them", at_key=True)
    if policy.admit is not None:
        return admission(context, policy.admit, (*path, "spec", "policy", "admit"), name)
    return None if step.when is None else entry_guard(context, step.when, (*path, "when"), name)


def _deadline(context: Context, spec: StepSpec, at: Path, step: str) -> Template:
    context.use(at, spec.deadline, step)
    return spec.deadline


def _join(context: Context, spec: StepSpec, at: Path) -> Join:
    given = spec.join
    if given is None:
        return Join()
    if isinstance(given, str):
        return Join(given)
    if given.tokens is not None:
        return compile_merge(context, given, at)
    mode = given.mode or ("auto" if given.count is None else "count")
    if mode == "count" and (given.count is None or given.count < 1):
        context.report.add(
            Code.VALUE,
            (*at, "count"),
            f"the join's count is {quote_value(given.count)}",
            "write a whole number from 1",
        )
    return Join(mode, given.count or 0 if mode == "count" else 0, bool(given.cancel_rest))


def _iteration(context: Context, step: Step, at: Path) -> str:
    name = (step.iteration or "").removeprefix("ctx.")
    if name and not name.isidentifier():
        context.report.add(
            Code.VALUE,
            at,
            f"iteration is {quote_value(step.iteration)}",
            "write the name of a variable in ctx that holds {<iterator>, index, parent}",
        )
        return ""
    return name


def _inputs(
    context: Context, step: Step, path: Path, name: str, around: NetLoop | None
) -> tuple[dict[str, Template], dict[str, Template]]:
    """What the step is given when it begins, and what each of its iterations is."""
    args = inputs_of(context, step, path, name)
    if around is None:
        return args, {}
    names = inputs_of_iterations(around, args, inner=step.iteration is not None)
    return (
        {key: value for key, value in args.items() if key not in names},
        {key: value for key, value in args.items() if key in names},
    )


def _add_inputs(context: Context, task: Task, step: Step, path: Path, inputs: Mapping[str, Template]) -> Task:
    """`task` with `inputs` of its step, and where they stand, below those that it says itself."""
    if not inputs:
        return task
    keys = {name: "input" if name in (step.input or {}) else "args" for name in inputs}
    lines = {f"input.{name}": context.line((*path, key, name)) for name, key in keys.items()}
    return replace(task, given={**inputs, **task.given}, lines={**lines, **task.lines})


def _queue(
    context: Context,
    step: Step,
    site: PipelineSite,
    tasks: tuple[Task, ...],
    around: NetLoop | None,
    path: Path,
) -> str:
    if around is not None and around.cursor is not None:
        # What is called first decides, as it does among tasks.
        tasks = (around.cursor, *tasks)
    if not tasks:
        return "default"
    asked = queue_of(context, site, step.tool, path)
    if asked is not None:
        return asked
    first = next((task for task in tasks if task.kind != "noop"), tasks[0])
    return context.kinds[first.kind].queue


def _special_step(context: Context, name: str | None, key: str) -> str | None:
    return find_step(context, name, (*_EXECUTOR_SPEC, key))


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
