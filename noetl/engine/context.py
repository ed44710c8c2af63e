"""What a command row carries to its worker: just the names that the step's templates use."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.names import scope_around
from noetl.engine.plan import Needs, Plan
from noetl.engine.state import Run, State
from noetl.facts.json import Json, JsonMap
from noetl.net.model import Transition


def command_context(plan: Plan, state: State, run: Run) -> JsonMap:
    """`{digest, issued, args, workload, ctx, steps, mode?, iteration?, caller?, everything?}`,
    narrowed to what the step's tasks read. `state` is the one that has just folded
    `command.issued`.

    `issued` is the version of that event. `steps` maps a name to `{result, results?}`. Where code
    names `context`, workload and ctx are whole, and `everything` is the version at which the worker
    may read the rest. `mode` is how its loop runs, where the net leaves that to its width.
    `iteration` is the scope of the one, of several steps, that the step is a part of; `caller` that
    of the one that called this playbook.
    """
    needs = plan.needs(run.step)
    context: dict[str, Json] = {
        "digest": state.digest,
        "issued": state.version,
        "args": run.args,
        "workload": _narrow(state.workload, "workload", needs),
        "ctx": _narrow(state.ctx, "ctx", needs, "vars"),
        "steps": _steps(state, needs),
    }
    step = plan.step(run.step)
    if run.loop is not None and step.loop is not None and step.loop.mode == "cursor":
        context["mode"] = run.loop.mode
    scope = scope_around(state, step)
    if scope is not None:
        context["iteration"] = scope
    if state.parent is not None and state.parent.iter is not None:
        context["caller"] = state.parent.iter
    if needs.everything:
        context["everything"] = state.version
    return context


def loop_mode(context: JsonMap, step: Transition) -> Json:
    """How the loop of `step` runs that a command with this context belongs to; None without one."""
    return context.get("mode", step.loop.mode) if step.loop is not None else None


def _narrow(store: JsonMap, name: str, needs: Needs, *aliases: str) -> JsonMap:
    heads = (name, *aliases)
    if needs.everything:
        # The pipeline lays its own patches over ctx, so it needs the whole of it to begin with.
        return store
    if any(chain in needs.chains for chain in ((head,) for head in heads)):
        return store
    inner = {chain[1] for chain in needs.chains if len(chain) > 1 and chain[0] in heads}
    return {key: value for key, value in store.items() if key in inner or key in needs.heads}


def _steps(state: State, needs: Needs) -> JsonMap:
    return {
        name: _step(state, name, needs)
        for name in needs.heads
        if name in state.steps and "done" in state.steps[name].counts
    }


def _step(state: State, name: str, needs: Needs) -> Mapping[str, Json]:
    record = state.steps[name]
    view: dict[str, Json] = {"result": record.result}
    if any(chain[:2] == (name, "results") for chain in needs.chains):
        view["results"] = record.results
    return view
