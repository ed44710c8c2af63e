"""What templates see that the engine evaluates (guards, arc args, step sets, collections), and what
a command carries to its worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Needs, Plan
from noetl.engine.run_state import Run
from noetl.engine.state import State, StepRecord
from noetl.expressions.scope import ABSENT, bare_names, layer_names, of_step, of_task
from noetl.facts.event_names import CANCELLED, DONE, FAILED, LOOP_DONE, TIMED_OUT, BoundaryName
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, failed, succeeded
from noetl.facts.reference import load_value
from noetl.net.model import Transition

_NEVER_RUN: Final = StepRecord()
#: How runs of a step ended that left nothing.
_ENDED: Final = {"skipped": "was skipped", "failed": "failed", "cancelled": "was cancelled"}


class StepNames(Mapping[str, Any]):
    """Step name → its last result, for steps that have one."""

    def __init__(self, records: Mapping[str, StepRecord]) -> None:
        self._records = records

    def __getitem__(self, name: str) -> Any:
        record = self._records[name]
        if "done" not in record.counts:
            raise KeyError(name)
        return of_step(record.result, record.results)

    def __iter__(self) -> Iterator[str]:
        return (name for name, record in self._records.items() if "done" in record.counts)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AbsentSteps(Mapping[str, str]):
    """Step name → why it has no result, in a clause, for those of `known` that have none."""

    def __init__(self, records: Mapping[str, StepRecord], known: Collection[str]) -> None:
        self._records = records
        self._known = known

    def __getitem__(self, name: str) -> str:
        record = self._records.get(name, _NEVER_RUN)
        if name not in self._known or "done" in record.counts:
            raise KeyError(name)
        ended = next((_ENDED[status] for status in _ENDED if status in record.counts), None)
        return f"step '{name}' {ended or ('has not ended yet' if record.runs else 'did not run')}"

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._known if "done" not in self._records.get(name, _NEVER_RUN).counts)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def step_names(
    state: State,
    inputs: Inputs,
    step: Transition,
    args: JsonMap,
    extra: JsonMap | None = None,
    known: Collection[str] = (),
) -> Mapping[str, Any]:
    """Names before a step runs: built-ins, the iterator around it, steps, args, ctx, workload, in
    that order of precedence. Of the steps `known` it can be said why they have no result."""
    builtins: dict[str, Any] = {
        "workload": state.workload,
        "ctx": state.ctx,
        "vars": state.ctx,
        "args": args,
        "input": args,
        "execution_id": state.execution_id,
        "job": {"uuid": state.execution_id, "execution_id": state.execution_id},
        "env": inputs.env,
        "keychain": inputs.keychain,
    }
    bare: JsonMap = {}
    scope = scope_around(state, step)
    if scope is not None:
        builtins["iter"] = scope if inputs.load is None else load_value(scope, inputs.load)
        bare = bare_names(builtins["iter"])
    elif state.parent is not None and state.parent.iter is not None:
        builtins["iter"] = {"parent": state.parent.iter}
    if extra:
        builtins.update(extra)
    # What the engine evaluates is recorded, so it may ask for the instant; whatever else is called
    # so wins.
    late = {"now": inputs.now.isoformat, ABSENT: AbsentSteps(state.steps, known)}
    return layer_names(builtins, bare, StepNames(state.steps), args, state.ctx, state.workload, late)


def scope_around(state: State, step: Transition) -> JsonMap | None:
    """The scope of the iteration, of several steps, that `step` is a part of, or a reference to
    it."""
    scope = state.ctx.get(step.iteration) if step.iteration else None
    return scope if isinstance(scope, Mapping) else None


def boundary(run: Run, step: Transition) -> BoundaryName:
    """The event whose guards are asked when `run` of `step` ended."""
    if run.status == "failed":
        return BoundaryName(TIMED_OUT if run.timed_out else FAILED)
    if run.status == "cancelled":
        return BoundaryName(CANCELLED)
    return BoundaryName(LOOP_DONE if step.loop is not None else DONE)


def outcome_of(run: Run) -> Outcome:
    """The envelope of the whole step: its own result or error, and what its last task said
    besides."""
    last = run.last_task
    if run.error is not None:
        # An error of another origin (a worker that was lost) is not that task's.
        return failed(run.error, last.meta, **last.extras) if last and last.fatal else failed(run.error)
    if last is None or run.loop is not None:
        return succeeded(run.result)
    return succeeded(run.result, last.meta, **last.extras)


def boundary_names(
    state: State, inputs: Inputs, run: Run, step: Transition, known: Collection[str] = ()
) -> Mapping[str, Any]:
    """Names at the boundary of `run`: those of its `step`, its outcome, and the event."""
    outcome = outcome_of(run)
    envelope = outcome.as_json()
    if outcome.ok:
        envelope["result"] = envelope["data"] = of_task(outcome.result)
    extra: dict[str, Json] = {
        "outcome": envelope,
        "output": envelope,
        "step": run.variables,
        "event": {"name": boundary(run, step), "step": run.step},
    }
    if outcome.ok:
        extra["result"] = extra["response"] = of_step(run.result, run.results)
    if run.error is not None:
        extra["error"] = run.error.as_json()
    return step_names(state, inputs, step, run.args, extra, known)


def command_context(plan: Plan, state: State, run: Run) -> JsonMap:
    """`{digest, issued, args, workload, ctx, steps, absent?, mode?, iteration?, caller?,
    everything?, copied?, afresh?}`, narrowed to what the step's tasks read. `state` is the one that
    has just folded `command.issued`.

    `issued` is the version of that event. `steps` maps a name to `{result, results?}`, `absent` one
    of a step without a result to the reason. Where code
    names `context`, workload and ctx are whole, and `everything` is the version at which the worker
    may read the rest. `mode` is how its loop runs, where the net leaves that to its width.
    `iteration` is the scope of the one, of several steps, that the step is a part of; `caller` that
    of the one that called this playbook. `afresh`: no cached result stands in for its calls.
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
    if absent := dict(AbsentSteps(state.steps, needs.heads & plan.net.steps.keys() - {run.step})):
        context["absent"] = absent
    if needs.everything:
        context["everything"] = state.version
    if run.copied:
        # What stands of an earlier execution is in the log: the pipeline goes on behind it.
        context["copied"] = True
    if run.reuse is not None and run.reuse.is_refused:
        context["afresh"] = True
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
