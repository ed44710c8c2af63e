"""A forecast as JSON: the object that `noetl plan --json` prints (docs/plan.md lists its keys)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from noetl.facts.json import Json, JsonMap
from noetl.forecast.model import (
    AfterForecast,
    ArcForecast,
    CalledPlaybook,
    Forecast,
    LoopForecast,
    Rendered,
    RepeatForecast,
    SecretForecast,
    StepForecast,
    TaskForecast,
    errors_of,
    needs_of,
    renderings,
    warnings_of,
)
from noetl.net.model import Admission, Demand, Milestone


def as_json(forecast: Forecast) -> dict[str, Json]:
    """Every key is always there; what is not known is null."""
    return {
        "name": forecast.name,
        "path": forecast.path,
        "file": forecast.file,
        "description": forecast.description,
        "entry": forecast.entry,
        "final_step": forecast.final_step,
        "key": None if forecast.key is None else _values({"key": forecast.key})["key"],
        "workload": _values(forecast.workload),
        "ctx": _values(forecast.ctx),
        "steps": [_step(step) for step in forecast.steps],
        "unreached": list(forecast.unreached),
        "cycles": [list(cycle) for cycle in forecast.cycles],
        "queues": {queue: list(steps) for queue, steps in forecast.queues.items()},
        "secrets": [_secret(secret) for secret in forecast.secrets],
        "environment": [
            {"name": one.name, "used_by": list(one.used_by), "given": one.given} for one in forecast.variables
        ],
        "playbooks": [_playbook(called) for called in forecast.playbooks],
        "errors": _sentences(forecast, errors_of),
        "warnings": _sentences(forecast, warnings_of),
    }


def _sentences(forecast: Forecast, of: Callable[[Iterable[Rendered]], tuple[str, ...]]) -> list[Json]:
    """`{step, message}` of every step; the step is null for what is rendered before the first
    one."""
    key = () if forecast.key is None else (forecast.key,)
    early = of((*key, *forecast.workload.values(), *forecast.ctx.values(), *forecast.entries))
    found: list[Json] = [{"step": None, "message": message} for message in early]
    for step in forecast.steps:
        found += [{"step": step.name, "message": message} for message in of(renderings(step))]
    return found


def _step(step: StepForecast) -> JsonMap:
    return {
        "step": step.name,
        "description": step.description,
        "line": step.line or None,
        "queue": step.queue,
        "from": list(step.sources),
        "role": step.role or None,
        "join": {
            "mode": step.join.mode,
            "count": step.join.count or None,
            "cancel_rest": step.join.cancel_rest,
        }
        if step.joins
        else None,
        "admit": _admission(step.admit) if step.admit is not None else None,
        "milestone": _milestone(step.ends.milestone) if step.ends.milestone is not None else None,
        "loop": _loop(step.loop) if step.loop is not None else None,
        "input": _values(step.args),
        "tasks": [_task(task) for task in step.tasks],
        "router": step.router,
        "next": [_arc(arc) for arc in step.arcs],
        "terminate": step.ends.terminate,
        "completes": list(step.ends.completes),
    }


def _milestone(milestone: Milestone) -> JsonMap:
    return {"after": milestone.after or None, "before": milestone.before or None}


def _admission(admit: Admission) -> JsonMap:
    return {
        "rules": [{"when": rule.when, "allow": rule.allow} for rule in admit.rules],
        "on_deny": admit.on_deny,
    }


def _loop(loop: LoopForecast) -> JsonMap:
    return {
        "in": loop.collection.value,
        "cursor": loop.cursor,
        "iterator": loop.iterator,
        "mode": loop.mode,
        "width": loop.width.value,
        "count": loop.count,
        "sync": loop.sync,
        "enough": None if loop.enough is None else {"when": loop.enough, "rest": loop.rest},
        "grow": loop.grow,
        "close": loop.close,
        "needs": list(needs_of(renderings(loop))),
    }


def _task(task: TaskForecast) -> JsonMap:
    return {
        "task": task.name,
        "kind": task.kind,
        "line": task.line or None,
        "effects": task.effects,
        "touches": list(task.touches),
        "config": _values(task.config),
        "input": _values(task.args),
        "needs": list(task.needs),
        "tries": task.tries,
        "jumps": list(task.jumps),
        "loop": _loop(task.loop) if task.loop is not None else None,
        "repeat": _repeat(task.repeat) if task.repeat is not None and not task.behind else None,
        "behind": task.behind or None,
        "after": _after(task.after) if task.after is not None else None,
        "expects": [_demand(demand) for demand in task.expects],
        "returns": [_demand(demand) for demand in task.returns],
    }


def _repeat(repeat: RepeatForecast) -> JsonMap:
    return {
        "when": list(repeat.when),
        "pages": repeat.pages or None,
        "until": repeat.until,
        "most": repeat.most.value,
        "changes": list(repeat.changes),
        "needs": list(repeat.most.needs),
    }


def _after(after: AfterForecast) -> JsonMap:
    return {"when": after.when, "runs": after.runs, "needs": list(after.guard.needs)}


def _demand(demand: Demand) -> JsonMap:
    return {"path": demand.path, "type": demand.type, "workbook": demand.of or None}


def _arc(arc: ArcForecast) -> JsonMap:
    return {
        "step": arc.step or None,
        "when": arc.when,
        "line": arc.line or None,
        "taken": arc.taken,
        "needs": list(arc.guard.needs if arc.guard is not None else ()),
        "on_failure": arc.on_failure,
        "input": _values(arc.args),
        "also": arc.also,
        "set": _values(arc.sets),
        "times": arc.times.value,
    }


def _secret(secret: SecretForecast) -> JsonMap:
    return {
        "name": secret.name,
        "kind": secret.kind,
        "provider": secret.provider,
        "source": secret.source or None,
        "used_by": list(secret.used_by),
        "needs": list(secret.needs),
        "exists": secret.exists,
        "note": secret.note,
    }


def _playbook(called: CalledPlaybook) -> JsonMap:
    return {
        "path": called.path,
        "version": called.version,
        "used_by": list(called.used_by),
        "needs": list(called.needs),
        "found": called.found,
        "note": called.note,
    }


def _values(values: Mapping[str, Rendered]) -> dict[str, Json]:
    return {name: value.value for name, value in values.items()}
