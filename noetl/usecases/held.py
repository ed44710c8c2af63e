"""Values that are too large for the log leave it before they enter it."""

from __future__ import annotations

from dataclasses import replace

from noetl.facts.events import (
    ChildCall,
    CtxPatched,
    Draft,
    IterationSuspended,
    StepSuspended,
    TaskCheckpointed,
    TaskDone,
    VariablesSet,
)
from noetl.facts.json import JsonMap
from noetl.facts.reference import Keep
from noetl.usecases.runtime import Runtime


def hold_draft(rt: Runtime, draft: Draft, keep: Keep) -> Draft:
    """The draft with every value above the inline limit replaced by its reference."""
    match draft.fact:
        case TaskCheckpointed() as fact:
            return replace(draft, fact=replace(fact, checkpoint=rt.hold(fact.checkpoint, keep)))
        case TaskDone(result=result) as fact:
            held = rt.hold(result, keep)
            return draft if held is result else replace(draft, fact=replace(fact, result=held))
        case CtxPatched(patch=patch) as fact:
            return replace(draft, fact=replace(fact, patch=_each(rt, patch, keep)))
        case VariablesSet() as fact:
            local, iteration, step = (_each(rt, part, keep) for part in (fact.local, fact.iter, fact.step))
            writes = tuple((name, rt.hold(value, keep)) for name, value in fact.writes)
            return replace(draft, fact=replace(fact, local=local, iter=iteration, step=step, writes=writes))
        case StepSuspended(child=ChildCall() as call) | IterationSuspended(child=ChildCall() as call) as fact:
            scope = None if call.iter is None else _each(rt, call.iter, keep)
            held = replace(call, payload=_each(rt, call.payload, keep), iter=scope)
            return replace(draft, fact=replace(fact, child=held))
        case _:
            return draft


def _each(rt: Runtime, values: JsonMap, keep: Keep) -> JsonMap:
    return {key: rt.hold(value, keep) for key, value in values.items()}
