"""What the templates of a pipeline see: its own names over those of its owner.

From the top, the first that has a name answers: built-ins (`workload`, `ctx`, `args`, `iter`,
`step`, `_prev`, `_task`, `_attempt`, and what the owner gave), the iteration's bare names, plain
names that `set` assigned, results of earlier tasks, steps, bare args, ctx, workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from noetl.expressions.scope import ABSENT, bare_names, hide_names, layer_names, of_step, of_task, of_tasks
from noetl.facts.event_names import DONE, FAILED, ITERATION_DONE, ITERATION_FAILED, BoundaryName
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.net.model import Loop, Task
from noetl.pipeline.model import Completed, Ending, Failed, Items, Names, PipelineProgress, PipelineSpec
from noetl.pipeline.patches import apply_patch

#: What templates look names up in.
TemplateScope = Mapping[str, Any]

_AFTER_SUCCESS: Final = frozenset({"error"})
_AFTER_FAILURE: Final = frozenset({"result", "response"})


@dataclass(frozen=True, slots=True)
class OuterScope:
    """The names of the owner, the part of the built-ins that no task changes, and the step that all
    stands in."""

    names: Names
    builtins: JsonMap
    step: str
    iterating: bool


def outer_scope(program: PipelineSpec, names: Names) -> OuterScope:
    """What stays the same from the first task of a pipeline to its last."""
    execution = program.where.execution_id
    job = {"uuid": execution, "execution_id": execution}
    fixed = {"execution_id": execution, "job": job, "workload": names.workload}
    where = program.where
    return OuterScope(names, {**fixed, **names.builtins}, where.step, where.iteration is not None)


def before(
    around: OuterScope, progress: PipelineProgress, task: Task, args: JsonMap, item: JsonMap | None = None
) -> TemplateScope:
    """The names at an attempt of `task`, before it ran. `args` are the step's, or the task's own
    over them; `item` is the scope of the item that the task's own loop has come to (`scope_of`)."""
    names = around.names
    ctx = apply_patch(names.ctx, progress.ctx)
    iteration = apply_patch(names.iter or {}, progress.iter)
    bare = _bare(names.iter, iteration)
    if item is not None:
        iteration = item
        bare = layer_names(_bare(item, item), bare)
    # All calls of a task that repeats see the same one.
    calls = progress.calls
    last = progress.last if calls is None or task.repeat is None else calls.before
    own: dict[str, Any] = {
        "ctx": ctx,
        "vars": ctx,
        "args": args,
        "input": args,
        "step": apply_patch({}, progress.step),
        "_prev": of_task(last.result) if last is not None else None,
        "_task": task.name,
        "_attempt": progress.attempt,
    }
    if iteration or names.iter is not None:
        own["iter"] = iteration
    sight = layer_names(
        own,
        around.builtins,
        bare,
        apply_patch({}, progress.local),
        of_tasks(progress.results),
        names.steps,
        args,
        ctx,
        names.workload,
        # Where nothing else is called so: how the task before ended.
        {} if last is None or not progress.pc else _outcome_names(last),
        {ABSENT: names.absent},
    )
    return sight if progress.proper is None else _behind(sight, around, progress, progress.proper)


def _behind(
    sight: TemplateScope, around: OuterScope, progress: PipelineProgress, proper: Ending
) -> TemplateScope:
    """What tasks behind the end of the pipeline proper see besides: what the `set` of the step
    would see there."""
    meta, extras = (progress.last.meta, progress.last.extras) if progress.last is not None else ({}, {})
    own: dict[str, Any] = {}
    match proper:
        case Completed(task=task):
            result = None if task is None else progress.results[task]
            outcome = succeeded(result, meta, **extras)
            own["result"] = own["response"] = of_step(result, progress.results)
            event = ITERATION_DONE if around.iterating else DONE
        case Failed(error=error):
            outcome = failed(error, meta, **extras)
            event = ITERATION_FAILED if around.iterating else FAILED
        case _:
            assert_never(proper)
    own["event"] = {"name": BoundaryName(event), "step": around.step}
    return layer_names(own, in_policy(sight, outcome))


def scope_of(around: OuterScope, progress: PipelineProgress, loop: Loop, item: Json) -> JsonMap:
    """`iter` in the task's own loop, where its item that is due is `item`."""
    names = around.names
    outer: Json = apply_patch(names.iter or {}, progress.iter)
    if "index" not in outer:
        # No iteration, but what the caller of the playbook sees as one.
        outer = outer.get("parent")
    items = progress.items or Items(0, [])
    own = {loop.iterator: item, "index": items.index, "parent": outer}
    return apply_patch(own, items.iter)


def in_policy(sight: TemplateScope, outcome: Outcome) -> TemplateScope:
    """What rules see besides: `outcome` = `output` = the envelope, `result` = `response` = the raw
    result (undefined after a failure), `error` (undefined after a success)."""
    own = _outcome_names(outcome)
    if outcome.ok:
        return layer_names(own, hide_names(sight, _AFTER_SUCCESS))
    own["error"] = own["outcome"]["error"]
    return layer_names(own, hide_names(sight, _AFTER_FAILURE))


def _outcome_names(outcome: Outcome) -> dict[str, Any]:
    envelope = outcome.as_json()
    own: dict[str, Any] = {"outcome": envelope, "output": envelope}
    if outcome.ok:
        own["result"] = own["response"] = envelope["result"] = envelope["data"] = of_task(outcome.result)
    return own


def in_set(sight: TemplateScope, outcome: Outcome) -> TemplateScope:
    """What the task's own `set` sees besides, after a success: `output` and `result` are raw,
    `outcome` is the envelope."""
    raw = of_task(outcome.result)
    own = {"outcome": outcome.as_json(), "output": raw, "result": raw, "response": raw}
    return layer_names(own, hide_names(sight, _AFTER_SUCCESS))


def _bare(given: JsonMap | None, iteration: JsonMap) -> JsonMap:
    """The iterator under its own name, and `loop_index`; nothing outside of loops."""
    return {} if given is None else bare_names({name: iteration[name] for name in given})
