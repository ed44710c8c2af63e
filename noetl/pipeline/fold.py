"""How far a pipeline has come, as a fold of what it recorded.

The interpreter computes its own progress with `evolve`, so what a pipeline does and what its events
say are one thing: a pipeline that goes on from the log goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

from noetl.facts.events import (
    AttemptFailed,
    ChildEnded,
    ChildRequested,
    CtxPatched,
    Draft,
    PolicyEvaluated,
    TaskCallDone,
    TaskCallFailed,
    TaskCheckpointed,
    TaskDone,
    TaskFailed,
    TaskItemDone,
    TaskItemFailed,
    TaskKeyKept,
    TaskLoopStarted,
    VariablesSet,
    WaitFailed,
    WaitMatched,
)
from noetl.facts.outcome import ErrorInfo, Outcome, failed, succeeded
from noetl.pipeline.model import Calls, Completed, Ending, Failed, Items, PipelineProgress, PipelineSpec
from noetl.pipeline.patches import extend


def initial(program: PipelineSpec) -> PipelineProgress:
    """Before the first event. A pipeline without tasks has already ended well."""
    return PipelineProgress() if program.length else _over(program, PipelineProgress(), Completed(None))


def begin(program: PipelineSpec, progress: PipelineProgress) -> PipelineProgress:
    """`progress`; the initial one where nothing has happened yet."""
    return initial(program) if progress == PipelineProgress() else progress


def replay(program: PipelineSpec, drafts: Iterable[Draft]) -> PipelineProgress:
    """The progress that `drafts`, in their order, add up to."""
    return reduce(lambda progress, draft: evolve(program, progress, draft), drafts, initial(program))


def evolve(program: PipelineSpec, progress: PipelineProgress, draft: Draft) -> PipelineProgress:
    """`progress` after `draft`. Facts that are not a pipeline's change nothing."""
    match draft.fact:
        case TaskDone() | TaskFailed() as fact:
            return _end(program, progress, fact, _outcome(fact))
        case AttemptFailed() | PolicyEvaluated() as fact:
            return _fold_attempt(program, progress, fact, draft.attempt)
        case VariablesSet() as fact:
            return _assign(progress, fact)
        case TaskCheckpointed() as fact:
            since = fact.since or progress.since
            number = progress.checkpoints + 1
            return replace(progress, checkpoint=fact.checkpoint, checkpoints=number, since=since)
        case TaskKeyKept() as fact:
            return replace(progress, kept_key=fact)
        case ChildRequested(detached=True) | ChildEnded() | WaitMatched(ends=True) | WaitFailed() as fact:
            return replace(progress, answer=answer(fact))
        case TaskLoopStarted() | TaskItemDone() | TaskItemFailed() as fact:
            return _fold_loop(progress, fact)
        case TaskCallDone() | TaskCallFailed() as fact:
            return _end_call(program, progress, fact)
        case CtxPatched(cause="task") as fact:
            return replace(progress, ctx=extend(progress.ctx, fact.patch))
        case _:
            return progress


def _outcome(fact: TaskDone | TaskFailed | TaskCallDone) -> Outcome:
    if isinstance(fact, TaskFailed):
        return Outcome("error", error=fact.error, meta=fact.meta, extras=fact.extras)
    return Outcome("ok", fact.result, meta=fact.meta, extras=fact.extras)


def _end(
    program: PipelineSpec, progress: PipelineProgress, fact: TaskDone | TaskFailed, outcome: Outcome
) -> PipelineProgress:
    """A task ended: the next one is due, unless a policy says otherwise or there is none."""
    error = fact.error if isinstance(fact, TaskFailed) and fact.fatal else None
    results = {**progress.results, fact.task: outcome.result}
    last = progress.last if fact.after else outcome
    ended = _pass(program, _settle(progress, items=None, results=results, last=last), fact.task)
    if fact.after:
        if error is None:
            return _on(program, ended)
        # It fails the pipeline proper, unless that had failed by then.
        return replace(ended, ending=ended.proper if isinstance(ended.proper, Failed) else Failed(error))
    if error is not None:
        return _over(program, ended, Failed(error))
    return ended if ended.pc < program.length else _over(program, ended, _well(fact.task, outcome))


def _over(program: PipelineSpec, progress: PipelineProgress, ending: Ending) -> PipelineProgress:
    """The pipeline proper has come to `ending`: what is left stands behind it."""
    if program.length == len(program.tasks):
        return replace(progress, ending=ending)
    return replace(progress, pc=program.length, proper=ending, calls=None, wait_s=0.0)


def _on(program: PipelineSpec, progress: PipelineProgress) -> PipelineProgress:
    """`progress`, with the ending that it has behind the last task."""
    if progress.pc < len(program.tasks):
        return progress
    return replace(progress, ending=progress.proper)


def _pass(program: PipelineSpec, progress: PipelineProgress, task: str) -> PipelineProgress:
    """`progress` behind `task`, which is due no more."""
    visits = {**progress.visits, task: progress.visits.get(task, 0) + 1}
    owner, behind = program.owner(progress.pc), program.behind(progress.pc)
    calls = None if owner is None else progress.calls
    ends = progress.ends + 1
    passed = replace(progress, pc=behind, visits=visits, ends=ends, entered=False, calls=calls)
    if owner is None or calls is None or behind < program.behind(owner):
        return passed
    return _after_call(passed, owner, calls)


def _end_call(
    program: PipelineSpec, progress: PipelineProgress, fact: TaskCallDone | TaskCallFailed
) -> PipelineProgress:
    """A call of the task that is due has ended, and those that run after it are due, or what
    follows them."""
    calls = progress.calls or Calls(before=progress.last, ends=progress.ends)
    settled = _settle(progress, ends=calls.ends)
    if isinstance(fact, TaskCallFailed):
        return replace(settled, calls=replace(calls, over=True, truncated=True))
    task = program.tasks[progress.pc]
    collect = task.repeat.collect if task.repeat is not None else None
    parts = calls.parts if collect is not None and collect.strategy != "replace" else ()
    calls = replace(
        calls,
        count=fact.call,
        request=fact.request or {},
        parts=parts if collect is None else (*parts, fact.kept),
        page=fact.result,
        over=fact.request is None,
        truncated=fact.truncated,
        delay=fact.delay,
        # Whatever comes round again meets one of these, sooner or later.
        earlier=calls.earlier if fact.call & (fact.call - 1) else fact.request or {},
    )
    if program.behind(progress.pc) == progress.pc + 1:
        return _after_call(settled, progress.pc, calls)
    # Those behind the end of the pipeline proper see how that has ended.
    last = _outcome(fact) if task.after is None else settled.last
    return replace(settled, pc=progress.pc + 1, last=last, calls=calls)


def _after_call(progress: PipelineProgress, owner: int, calls: Calls) -> PipelineProgress:
    """`progress` at the next call of the task `owner`, or at its whole."""
    return replace(progress, pc=owner, calls=calls, wait_s=calls.delay, entered=True)


def _settle(progress: PipelineProgress, **changes: Any) -> PipelineProgress:
    """`progress` with other `changes`, and no attempt under way: the next one is the first."""
    return replace(
        progress,
        attempt=1,
        repeats=0,
        failures=0,
        wait_s=0.0,
        checkpoint=None,
        checkpoints=0,
        since=None,
        answer=None,
        secrets={},
        kept_key=None,
        **changes,
    )


def _fold_loop(
    progress: PipelineProgress, fact: TaskLoopStarted | TaskItemDone | TaskItemFailed
) -> PipelineProgress:
    """The loop of the task that is due has begun, or one of its items has ended and the next one is
    due."""
    if isinstance(fact, TaskLoopStarted):
        return replace(progress, items=Items(fact.count, fact.items))
    items = progress.items
    assert items is not None, "a loop begins before its items end"
    result, errors = None, items.errors
    if isinstance(fact, TaskItemDone):
        result = fact.result
    elif not fact.handled:
        errors = {**errors, fact.item: fact.error}
    items = replace(items, results=(*items.results, result), errors=errors, iter={})
    return _settle(progress, items=items)


def _fold_attempt(
    program: PipelineSpec,
    progress: PipelineProgress,
    fact: AttemptFailed | PolicyEvaluated,
    attempt: int | None,
) -> PipelineProgress:
    if isinstance(fact, PolicyEvaluated):
        return _fold_policy(program, progress, fact, attempt)
    return replace(
        progress,
        attempt=progress.attempt + 1,
        failures=progress.failures + 1,
        wait_s=0.0,
        since=None,
        answer=None,
        secrets={**progress.secrets, **fact.meta.get("secret_versions", {})},
    )


def _fold_policy(
    program: PipelineSpec, progress: PipelineProgress, fact: PolicyEvaluated, attempt: int | None
) -> PipelineProgress:
    match fact.do:
        case "retry":
            # An attempt that failed is counted by its own event; one that went well has none.
            repeated = int(attempt is None or attempt == progress.attempt)
            return replace(
                progress,
                attempt=progress.attempt + repeated,
                repeats=progress.repeats + repeated,
                failures=0 if repeated else progress.failures,
                wait_s=fact.delay,
                since=None,
                answer=None,
            )
        case "jump":
            target = next(i for i, task in enumerate(program.tasks) if task.name == fact.to)
            proper = None if program.tasks[target].after is None else progress.proper
            calls = progress.calls if program.owner(target) is not None else None
            return replace(progress, pc=target, proper=proper, ending=None, calls=calls, wait_s=0.0)
        case "break" if progress.items is None:
            return _break(program, progress, fact.task)
        case "break" | "continue" | "fail":
            # The event of the end of the task, or of its item, has said it already.
            return progress
        case "enter":
            return replace(progress, entered=True)
        case "skip":
            return _on(program, _pass(program, progress, fact.task))


def _break(program: PipelineSpec, progress: PipelineProgress, task: str) -> PipelineProgress:
    """The pipeline proper ends behind `task`; where it has ended already, what stands behind it
    does."""
    if any(one.name == task and one.after is not None for one in program.tasks):
        return _on(program, replace(progress, pc=len(program.tasks), calls=None, wait_s=0.0))
    last = progress.last
    return _over(program, progress, _well(task, last) if last else Completed(None))


def _assign(progress: PipelineProgress, fact: VariablesSet) -> PipelineProgress:
    items = progress.items
    if items is not None:
        # Each item has its scope.
        items = replace(items, iter=extend(items.iter, fact.iter))
    return replace(
        progress,
        local=extend(progress.local, fact.local),
        iter=extend(progress.iter, fact.iter) if items is None else progress.iter,
        items=items,
        step=extend(progress.step, fact.step),
        writes=(*progress.writes, *fact.writes),
    )


def answer(fact: ChildRequested | ChildEnded | WaitMatched | WaitFailed) -> Outcome:
    """What a task that called a playbook, or waited, has come to. Of a detached child it knows
    where it is."""
    match fact:
        case WaitMatched():
            return succeeded(fact.result)
        case WaitFailed():
            return failed(fact.error)
        case ChildRequested():
            found = {"execution_id": fact.child_id, "path": fact.path, "version": fact.playbook_version}
            return succeeded(found)
        case ChildEnded(status="completed"):
            meta = {"execution_id": fact.child_id}
            return succeeded(fact.result, {**meta, "warnings": [*fact.warnings]} if fact.warnings else meta)
        case ChildEnded():
            error = fact.error or ErrorInfo("child", f"The called execution was {fact.status}.")
            return failed(error, {"execution_id": fact.child_id} if fact.child_id else {})


def _well(task: str, outcome: Outcome) -> Ending:
    """The pipeline went well. After an error that continued there is no result: it is null."""
    return Completed(task if outcome.ok else None)
