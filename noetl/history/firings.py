"""The runs of a step: what fired each, what its tasks and their policies did, how it ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal, assert_never

from noetl.engine.loop_ends import ENOUGH
from noetl.engine.run_state import Run
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.lineage import Reuse
from noetl.facts.outcome import REUSED, ErrorInfo
from noetl.history.accounts import (
    Asked,
    CancelledIterations,
    FailedIteration,
    LoopAccount,
    PolicyAccount,
    RunAccount,
    Standing,
    TaskAccount,
    Way,
)
from noetl.history.admissions import rules_asked
from noetl.history.evidence import Evidence, asked, show_error
from noetl.history.milestones import milestones_asked
from noetl.history.ways import way_of, ways_from

_ENDS: Final = (e.StepDone, e.StepFailed, e.StepSkipped, e.StepCancelled)


def account_of_run(here: Evidence, scheduled: Event) -> RunAccount:
    """The run that `scheduled` began."""
    fact = scheduled.fact
    assert isinstance(fact, e.StepScheduled), "a run begins with it"
    run = scheduled.draft.run_id or ""
    events = here.of_run.get(run, [])
    end = _first(events, *_ENDS)
    routed = _first(events, e.NextEvaluated)
    children = [one.fact.child_id for one in events if isinstance(one.fact, e.ChildRequested)]
    policies = [one for event in events for one in _policy(event)]
    status, reason, error = _ending(here, run, end, routed)
    return RunAccount(
        run=run,
        version=scheduled.version,
        scheduled_at=scheduled.recorded_at,
        status=status,
        because=tuple(way_of(here, token) for token in fact.tokens if token in here.arrivals),
        admission=_asked(here, scheduled.draft.step or "", fact.tokens),
        ended_at=end.recorded_at if end else None,
        duration_ms=_between(scheduled.recorded_at, end),
        worker=next((one.fact.worker for one in events if isinstance(one.fact, e.StepStarted)), None),
        reuse=_reuse(here, fact.reuse, events),
        handled=_handled(fact.handling),
        reason=reason,
        error=show_error(error) if error else None,
        tasks=_tasks(events),
        policies=tuple(policies[: here.bounds.policies]),
        policies_more=max(0, len(policies) - here.bounds.policies),
        loop=_loop(here, run, events),
        children=tuple(children[-here.bounds.failures :]),
        child_count=len(children),
        undone=tuple(_undone(events))[-here.bounds.failures :],
        next=_next(here, routed),
    )


def _handled(handling: e.Handling | None) -> str:
    """What the run was for, where no token fired it."""
    if handling is None:
        return ""
    iteration = "" if handling.iteration is None else f"iteration {handling.iteration} of "
    of_region = f"region {handling.region!r}" if handling.region else "the execution"
    match handling.purpose:
        case "compensate":
            return f"undid {iteration}{handling.run_id}"
        case "finally":
            return f"ran after the end of {handling.run_id or of_region}"
        case "on_cancel":
            return f"ran because {of_region} was cancelled"
        case _:
            assert_never(handling.purpose)


def _undone(events: Iterable[Event]) -> Iterator[str]:
    """What became of what it had called, where that had to be undone."""
    for event in events:
        match event.fact:
            case e.ChildUndone(error=None, child_id=by, undoes=undone):
                yield f"execution {by} undid what execution {undone} had done"
            case e.ChildUndone(error=ErrorInfo(message=message), undoes=undone):
                yield f"not all that execution {undone} had done was undone: {message}"
            case _:
                pass


def _asked(here: Evidence, step: str, tokens: tuple[str, ...]) -> tuple[Asked, ...]:
    return (*milestones_asked(here, step, tokens), *rules_asked(here, step, tokens))


def _reuse(here: Evidence, reuse: Reuse | None, events: Iterable[Event]) -> str:
    """What the run takes of the execution that is run again."""
    if reuse is None or here.state.source_id is None:
        return ""
    source = reuse.execution_id or here.state.source_id
    copies = sum(isinstance(one.fact, e.TaskDone) and one.draft.origin is not None for one in events)
    kept = "1 result of a task" if copies == 1 else f"{copies} results of tasks"
    if reuse.how == "whole":
        return f"reused from run {reuse.run_id} of execution {source}: {kept}"
    if reuse.run_id is None:
        return f"no run of execution {source} is reused: {reuse.reason}"
    part = f"; {kept} reused" if copies else ""
    return f"run {reuse.run_id} of execution {source} is not reused: {reuse.reason}{part}"


def _first(events: Iterable[Event], *kinds: type) -> Event | None:
    return next((event for event in events if isinstance(event.fact, kinds)), None)


def _between(begin: datetime, end: Event | None) -> float | None:
    return None if end is None else round((end.recorded_at - begin).total_seconds() * 1000, 3)


def _next(here: Evidence, routed: Event | None) -> tuple[Way, ...]:
    return ways_from(here, routed) if routed is not None else ()


def _ending(
    here: Evidence, run: str, end: Event | None, routed: Event | None
) -> tuple[Standing, str, ErrorInfo | None]:
    """How the run ended: its status, why, and the error."""
    failure = routed.fact.failure if routed and isinstance(routed.fact, e.NextEvaluated) else None
    match end.fact if end else None:
        case e.StepDone() if routed and isinstance(routed.fact, e.NextEvaluated) and routed.fact.terminates:
            return "done", f"it ended the execution as {routed.fact.terminates}", None
        case e.StepDone(released=True) if (late := _late_failure(here, run)) is not None:
            return "failed", "its step was done, and iterations that ran on failed", late
        case e.StepDone() if failure is not None:
            return "failed", "it ended well, and its arcs could not be followed", failure
        case e.StepDone(forced_by=str() as forced_by):
            return "done", f"run {forced_by} ended it as done", None
        case e.StepDone():
            return "done", "", None
        case e.StepFailed(error=error):
            return "failed", "" if failure else "an arc took its failure", error
        case e.StepSkipped(reason=reason):
            return "skipped", reason, failure
        case e.StepCancelled(reason=reason):
            return "cancelled", reason, None
        case _ if here.state.ended:
            return "cancelled", "the execution ended first", None
        case _:
            waits = run in here.state.runs and here.state.runs[run].status == "waiting"
            return ("waiting" if waits else "running"), "", None


def _late_failure(here: Evidence, run: str) -> ErrorInfo | None:
    """Why the branch failed behind the end of the step; None where it did not."""
    ends = (one.fact for one in here.of_run.get(run, ()) if isinstance(one.fact, e.LoopDone))
    return next((fact.failure for fact in ends), None)


# --- tasks ---


def _tasks(events: Iterable[Event]) -> tuple[TaskAccount, ...]:
    """The tasks of a run in the order in which they were heard of; those of a loop's iterations are
    told of by the loop."""
    found = defaultdict[str, list[Event]](list)
    kinds = (e.TaskStarted, e.TaskDone, e.TaskFailed, e.AttemptFailed)
    for event in events:
        if isinstance(event.fact, kinds) and event.draft.iteration is None:
            found[event.fact.task].append(event)
    return tuple(_task(name, heard) for name, heard in found.items())


def _task(name: str, heard: list[Event]) -> TaskAccount:
    last = heard[-1]
    tried = [event for event in heard if not isinstance(event.fact, e.TaskStarted)]
    errors = [one.fact.error for one in heard if isinstance(one.fact, e.TaskFailed | e.AttemptFailed)]
    return TaskAccount(
        name,
        _task_status(last.fact),
        attempts=len(tried) or 1,
        went_on=isinstance(last.fact, e.TaskFailed) and not last.fact.fatal,
        duration_ms=last.draft.duration_ms,
        error=show_error(errors[-1]) if errors else None,
        reused=last.fact.meta.get(REUSED) if isinstance(last.fact, e.TaskDone) else None,
    )


def _task_status(fact: e.Fact) -> Literal["running", "done", "failed"]:
    match fact:
        case e.TaskDone():
            return "done"
        case e.TaskFailed():
            return "failed"
        case _:
            return "running"


def _policy(event: Event) -> Iterable[PolicyAccount]:
    fact = event.fact
    if isinstance(fact, e.PolicyEvaluated):
        yield PolicyAccount(
            fact.task,
            event.draft.iteration,
            fact.rule,
            asked(fact.when, fact.names, "matched"),
            fact.do,
            fact.to,
            fact.delay,
            event.version,
        )


# --- loops ---


def _loop(here: Evidence, run: str, events: list[Event]) -> LoopAccount | None:
    started = _first(events, e.LoopStarted)
    if started is None or not isinstance(started.fact, e.LoopStarted):
        return None
    later = (one.fact.count for one in events if isinstance(one.fact, e.LoopClaimed | e.LoopGrown))
    total = started.fact.count + sum(later)
    done = {one.draft.iteration for one in events if isinstance(one.fact, e.IterationDone)}
    failed = [one for one in events if isinstance(one.fact, e.IterationFailed)]
    count = len({one.draft.iteration for one in failed} - done)
    reasons = _find_cancelled(here, events, total - len(done) - count)
    live = here.state.runs.get(run)
    waiting = _waiting(here, live) if live is not None and not live.ended else 0
    shown = tuple(_failure(one.draft.iteration, one.fact) for one in failed[: here.bounds.failures])
    cancelled = sum(reasons.values())
    left = total - len(done) - count - cancelled - waiting
    told = tuple(CancelledIterations(number, reason) for reason, number in reasons.items())
    return LoopAccount(total, len(done), count, waiting, left, shown, cancelled, told)


def _find_cancelled(here: Evidence, events: list[Event], left: int) -> Counter[str]:
    """How many iterations were cancelled, by the reason: one by one, as those that a loop did not
    wait for, or with their run. `left` are those that have not ended by themselves."""
    ends = {one.draft.iteration: one.fact for one in events if isinstance(one.fact, e.IterationCancelled)}
    found = Counter(fact.reason for fact in ends.values())
    closed, withdrawn = _first(events, e.LoopDone), _first(events, e.StepCancelled)
    if closed is not None and isinstance(closed.fact, e.LoopDone):
        rest, why = closed.fact.cancelled - len(ends), _why_cut(events, list(found))
    elif withdrawn is not None and isinstance(withdrawn.fact, e.StepCancelled):
        rest, why = left - len(ends), _why_withdrawn(here, withdrawn, withdrawn.fact.reason)
    elif here.state.ended:
        rest, why = left - len(ends), "the execution ended first"
    else:
        return found
    return found + Counter({why: rest}) if rest > 0 else found


def _why_cut(events: list[Event], reasons: list[str]) -> str:
    """Why a loop ended before all of its iterations had begun: the reason of those that had."""
    forced = (one.fact.forced_by for one in events if isinstance(one.fact, e.StepDone))
    by = next(filter(None, forced), None)
    return reasons[-1] if reasons else ENOUGH if by is None else f"run {by} ended its step as done"


def _why_withdrawn(here: Evidence, withdrawn: Event, reason: str) -> str:
    """The reason, with that which was given for the cancel of the execution where it was that."""
    asked = _first(here.events, e.CancelRequested)
    if asked is None or asked.version > withdrawn.version or not isinstance(asked.fact, e.CancelRequested):
        return reason
    return f"{reason}: {asked.fact.reason}" if asked.fact.reason else reason


def _waiting(here: Evidence, run: Run) -> int:
    loop = run.loop
    return 0 if loop is None else len({*loop.suspended, *loop.calling, *here.delayed(run.id)})


def _failure(iteration: int | None, fact: Any) -> FailedIteration:
    return FailedIteration(iteration or 0, fact.error.item_text, show_error(fact.error))
