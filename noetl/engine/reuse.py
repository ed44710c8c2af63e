"""What a firing takes of the execution that is run again: which run is its own, and what of that
stands.

A run is what its tasks do and what they read (`engine.digests`): where both are equal, what was
recorded stands in for the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, assert_never

from noetl.engine.digests import names_read, read_fingerprints
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.source import SourceLog, SourceRun
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.brief import brief
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.lineage import ASKED_FOR, How, Reuse
from noetl.facts.reference import references_in
from noetl.net.model import Transition

#: Why a run is made again though it went well.
UNDONE: Final = "it was undone"
#: Why a run is made again whose results were cleared away.
COLLECTED: Final = "its result was collected"


@dataclass(frozen=True, slots=True)
class Depends:
    """What a firing depends on: digests of what its tasks do, and fingerprints of what they
    read."""

    code: Mapping[str, str]
    reads: Mapping[str, str]


def depends_on(
    plan: Plan, state: State, inputs: Inputs, step: Transition, args: JsonMap, names: Mapping[str, Any]
) -> Depends:
    """What the firing of `step` with `args` depends on; `names` are what its templates see."""
    tasks, own = plan.reads(step.name), state.execution_id
    reads = read_fingerprints(plan.net, step, tasks, args, names, own, inputs.file_digest)
    return Depends(plan.code(step.name), reads)


def choose(plan: Plan, state: State, inputs: Inputs, step: Transition, now: Depends) -> Reuse:
    """What the firing takes: of the first run of the same step that no other has taken and that
    depends on the same; else of the first of which the first tasks do."""
    source = inputs.source
    if source is None:
        return Reuse("none", reason="the log of the execution that is run again is not there")
    taken = frozenset(state.taken)
    left = [run for run in source.by_step.get(step.name, ()) if run.id not in taken]
    if not left:
        known = step.name in source.plan.net.steps
        return Reuse("none", reason="it did not run so often" if known else "the step is new")
    free = [run for run in left if run.id not in source.asked_for]
    if not free:
        return _make_reuse(source, left[0], "none", ASKED_FOR)
    free = [run for run in free if run.id not in source.undone]
    if not free:
        return _make_reuse(source, left[0], "none", UNDONE)
    return _choose_equal(plan, source, inputs, step, free, now)


def _choose_equal(
    plan: Plan, source: SourceLog, inputs: Inputs, step: Transition, free: Sequence[SourceRun], now: Depends
) -> Reuse:
    """What the firing takes of the runs that are `free`, of which there is one."""
    compared: list[tuple[SourceRun, Common]] = []
    for run in free:
        common = _compare(plan, step, run, now, inputs)
        if common.whole:
            return _take(source, step, run, common, now)
        compared.append((run, common))
    run, common = next((one for one in compared if one[1].tasks), compared[0])
    if common.tasks or (step.loop is not None and source.retry.iterations == "failed"):
        return _take(source, step, run, common, now)
    return _make_reuse(source, run, "none", common.reason)


def _make_reuse(
    source: SourceLog, run: SourceRun, how: How, reason: str, tasks: tuple[str, ...] = ()
) -> Reuse:
    """What is taken of `run`, which may be one of an earlier execution."""
    if run.execution_id == source.execution_id:
        return Reuse(how, run.id, reason, tasks)
    return Reuse(how, run.id, reason or f"execution {run.execution_id} recorded it", tasks, run.execution_id)


def _is_collected(run: SourceRun, inputs: Inputs) -> bool:
    """Whether a result of the run is kept by reference, and gone."""
    events = (*run.events, *(event for each in run.iterations.values() for event in each))
    kept = (one for event in events for one in references_in(getattr(event.fact, "result", None)))
    return not all(map(inputs.holds, kept))


def _take(source: SourceLog, step: Transition, run: SourceRun, common: Common, now: Depends) -> Reuse:
    tasks, which = common.tasks, source.retry.iterations
    if step.loop is not None and not run.stands:
        if which == "all":
            return _make_reuse(source, run, "none", ASKED_FOR)
        # Those that went well stand, whatever has changed since.
        tasks = tuple(now.code) if which == "failed" else tasks
    whole = run.stands and common.whole
    reason = common.reason if run.stands else _ending(run)
    return _make_reuse(source, run, "whole" if whole else "part", reason, tasks)


def _ending(run: SourceRun) -> str:
    match run.status:
        case "failed" if run.error is not None:
            return f"it failed: {brief(run.error.message)}"
        case "running" | "waiting":
            return "it had not ended"
        case "cancelled" | "skipped" | "failed" | "done":
            return f"it was {run.status}"
        case _:
            assert_never(run.status)


# --- comparing ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Common:
    """How far a recorded run depends on the same: the first of its tasks that do, whether that is
    all there is, and what the first difference is. Where the log has no digests `reason` says
    so."""

    tasks: tuple[str, ...]
    whole: bool
    reason: str = ""


def _compare(plan: Plan, step: Transition, run: SourceRun, now: Depends, inputs: Inputs) -> Common:
    if _is_collected(run, inputs):
        return Common((), False, COLLECTED)
    recorded = run.scheduled
    before = _code(run)
    equal: list[str] = []
    for name, was in zip(now.code, before, strict=False):
        reason = _find_difference(plan, step, run, name, was, now)
        if reason:
            return Common(tuple(equal), False, reason)
        equal.append(name)
    for names, verb in ((list(before), "is gone"), (list(now.code), "is new")):
        if len(names) > len(equal):
            return Common(tuple(equal), False, f"task '{names[len(equal)]}' {verb}")
    if called := find_changed_playbook(run.events, inputs):
        return Common((), False, called)
    known = bool(recorded.code)
    return Common(tuple(equal), True, "" if known else "matched by name and order: no digests were recorded")


def _code(run: SourceRun) -> Mapping[str, str]:
    """Digests of what its tasks did, by the net that it ran."""
    return run.plan.code(run.step) if run.step in run.plan.net.steps else run.scheduled.code


def _find_difference(plan: Plan, step: Transition, run: SourceRun, name: str, was: str, now: Depends) -> str:
    """Why task `name` is another one than that of the recorded run at its place; empty where it is
    the same and read the same."""
    recorded = run.scheduled
    if name != was:
        return f"task '{name}' is new"
    if now.code[name] not in (_code(run)[name], recorded.code.get(name)):
        return "its code changed" if len(now.code) == 1 else f"the code of task '{name}' changed"
    if not recorded.code:
        return ""
    for place in names_read(plan.net, step, plan.reads(step.name)[name], {**recorded.reads, **now.reads}):
        if recorded.reads.get(place) != now.reads.get(place):
            return _change(place, recorded.reads.get(place), now.reads.get(place))
    return ""


def _change(place: str, before: str | None, after: str | None) -> str:
    """`ctx.n changed from 3 to 4`; large values are not told."""
    sides = [before or "nothing", after or "nothing"]
    if any(side.startswith("#") for side in sides):
        return f"{place} changed"
    return f"{place} changed from {sides[0]} to {sides[1]}"


def find_changed_playbook(events: Sequence[Event], inputs: Inputs) -> str:
    """Which of the playbooks that were called is another one today; empty where none is."""
    versions: dict[str, int | None] = {}
    for event in events:
        match event.fact:
            case (
                e.StepSuspended(child=e.ChildCall() as call)
                | e.IterationSuspended(child=e.ChildCall() as call)
            ):
                versions[call.path] = call.version
            case e.ChildRequested(path=path, digest=digest, detached=False):
                found = inputs.playbook(path, versions.get(path))
                if getattr(found, "digest", digest) != digest:
                    return f"playbook '{path}' changed"
    return ""
