"""What a step waits for: a token before it, and a run that has not ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from noetl.engine.awaited import who_waits
from noetl.engine.regions import regions_around
from noetl.engine.run_state import LoopState, Run
from noetl.engine.state import Waiting
from noetl.engine.wait_state import Child
from noetl.engine.waits import join_awaited
from noetl.facts import events as e
from noetl.facts.brief import brief
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.waits import find_lock
from noetl.history.accounts import WaitAccount
from noetl.history.admissions import ADMITTED, rules_asked
from noetl.history.evidence import Evidence, listed
from noetl.history.milestones import wait_for_milestone
from noetl.history.ways_on import commands_for
from noetl.net.model import Join, Transition

_NEXT_TURN = WaitAccount("scheduler", "the scheduler starts it with its next turn")


def waits_of(here: Evidence, step: str) -> Iterator[WaitAccount]:
    """What `step` waits for now, if it does: its tokens first, then its runs."""
    if here.state.ended:
        return
    waiting = [one for one in here.state.tokens.values() if one.token.step == step]
    if waiting:
        yield _of_tokens(here, here.plan.step(step), waiting)
    for run in here.state.runs.values():
        if run.step == step and not run.ended:
            yield from _of_run(here, run)


def waits_of_execution(here: Evidence) -> Iterator[WaitAccount]:
    """What the execution as a whole, or a region of it, waits for."""
    for wait in here.awaited:
        if wait["step"] is None:
            yield _of_whole(here, wait)


# --- tokens before the step ---


def _of_tokens(here: Evidence, step: Transition, waiting: list[Waiting]) -> WaitAccount:
    denied = [one for one in waiting if one.denied_at is not None]
    if (halt := _halt(here) or _hindrance(here, step.name)) is not None:
        return halt
    if step.milestone is not None and waiting[0].early:
        return wait_for_milestone(step.milestone)
    if denied:
        return _admission(here, denied[-1])
    if step.name == here.plan.net.final_step:
        return WaitAccount("others", "it is the final step, which runs once everything else has ended")
    return _join(here, step, waiting) or _NEXT_TURN


def _halt(here: Evidence) -> WaitAccount | None:
    state = here.state
    if state.cancelling and state.closing is None:
        return WaitAccount("halt", "the execution is being cancelled: nothing new starts")
    if state.stopping:
        failed = state.failures[-1].step if state.failures else None
        whose = f"step {failed!r}" if failed else "a branch"
        return WaitAccount("halt", f"{whose} failed, and with it the execution: nothing new starts")
    if state.pause_requested:
        return WaitAccount("halt", "the execution is paused; `noetl execution resume` lets it go on")
    return None


def _hindrance(here: Evidence, step: str) -> WaitAccount | None:
    """What keeps a step from beginning: it is paused, or a region that it is in has no slot yet."""
    around = regions_around(here.plan, step)
    for wait in here.awaited:
        if wait["kind"] == "pause" and wait["step"] == step and wait["run_id"] is None:
            return _awaited(here, wait)
        if wait["kind"] == "slot" and wait["region"] in around:
            return _of_whole(here, wait)
    return None


def _of_whole(here: Evidence, wait: JsonMap) -> WaitAccount:
    """What the execution waits for, or a region of it."""
    found = _awaited(here, wait)
    return replace(found, text=f"{who_waits(wait)} waits for {found.text}")


def _awaited(here: Evidence, wait: JsonMap) -> WaitAccount:
    """Slots, a pause or an end, and what to type where somebody can do something."""
    place = "" if wait["iteration"] is None else f"iteration {wait['iteration']}: "
    since = "" if wait["since"] is None else f", since {wait['since']}"
    commands = "; ".join(f"`{command}`" for command in commands_for(here.state.execution_id, wait))
    text = f"{place}{join_awaited(wait)}{since}{': ' if commands else ''}{commands}"
    return WaitAccount(wait["kind"], text, wait["run_id"], wait["until"])


def _admission(here: Evidence, one: Waiting) -> WaitAccount:
    rules = rules_asked(here, one.token.step, (one.token.id,))
    if rules and rules[-1].said == ADMITTED:
        return replace(_NEXT_TURN, rules=rules)
    if one.denied_at is not None and one.denied_at < here.state.ctx_version:
        text = "ctx has changed since its admission was denied: the scheduler's next turn asks again"
        return WaitAccount("scheduler", text, rules=rules)
    text = "its admission was denied; it is asked again when ctx changes (`noetl execution patch`)"
    return WaitAccount("admission", text, rules=rules)


def _join(here: Evidence, step: Transition, waiting: list[Waiting]) -> WaitAccount | None:
    """What a join still waits for; None where it can fire."""
    incoming = here.plan.net.incoming[step.name]
    come = {one.token.arc for one in waiting}
    match step.join.mode:
        case "all":
            missing = [arc for arc in incoming if arc not in come]
            return _missing(here, missing, f"all of its {len(incoming)} ways in") if missing else None
        case "tokens":
            return _merged(step.join, len(waiting))
        case "first" | "count":
            return _counted(here, step.join, [arc for arc in incoming if arc not in come], len(come))
        case "auto" if here.plan.is_or_join(step):
            return _still_coming(here, step.name)
        case _:
            return None


def _merged(join: Join, came: int) -> WaitAccount | None:
    if came >= join.count:
        return None
    return WaitAccount("join", f"its join takes {join.count} tokens, and {came} came")


def _missing(here: Evidence, arcs: list[str], what: str) -> WaitAccount:
    sources = listed(_source(here, arc) for arc in arcs)
    return WaitAccount("join", f"its join takes {what}: nothing has come from {sources}", arcs=tuple(arcs))


def _source(here: Evidence, arc: str) -> str:
    found = here.plan.net.arcs.get(arc)
    return found.source if found else "the entry"


def _counted(here: Evidence, join: Join, missing: list[str], came: int) -> WaitAccount | None:
    needed = 1 if join.mode == "first" else join.count
    if came < needed:
        return _missing(here, missing, f"{needed} of its ways in, and {came} came")
    text = "its join has fired, and branches of that round can still come"
    return WaitAccount("join", text, arcs=tuple(missing))


def _still_coming(here: Evidence, join: str) -> WaitAccount | None:
    reach, state = here.plan.reach[join], here.state
    alive = [run for run in state.runs.values() if run.puts_tokens and not run.final]
    runs = [run.id for run in alive if run.step in reach.runs]
    steps = [one.token.step for one in state.tokens.values() if one.token.step in reach.tokens]
    parts = [f"run {listed(runs)}"] if runs else []
    parts += [f"what waits before {listed(steps)}"] if steps else []
    if not parts:
        return None
    return WaitAccount("join", f"its join waits for what can still come: from {' and from '.join(parts)}")


# --- a run that has not ended ---


def _of_run(here: Evidence, run: Run) -> Iterator[WaitAccount]:
    children = [child for child in here.state.children.values() if child.run_id == run.id]
    if run.loop is not None:
        yield _loop(run, run.loop)
    yield from (_child(child) for child in children[: here.bounds.failures])
    waits = [wait for wait in here.awaited if _is_of(here, wait, run)]
    yield from (_wait(here, wait) for wait in waits[: here.bounds.failures])
    if run.loop is not None:
        yield from _suspended(here, run, run.loop)
    elif not children and not waits:
        yield _pipeline(here, run)


def _is_of(here: Evidence, wait: JsonMap, run: Run) -> bool:
    """Whether it keeps the run; the pause of a step keeps all its runs but those that a worker is
    at."""
    if wait["kind"] == "ending":
        return False
    if wait["kind"] == "pause" and wait["run_id"] is None:
        held = (here.held.get(name) for name in run.commands.values())
        return bool(wait["step"] == run.step) and not any(one and one.owner for one in held)
    return bool(wait["run_id"] == run.id)


def _loop(run: Run, loop: LoopState) -> WaitAccount:
    ended = loop.ended.bit_count()
    failed = f", {loop.failed_count} of them failed" if loop.failed else ""
    width = f"; at most {loop.max_in_flight} run at once"
    more = "; more rows may be claimed" if loop.cursor is not None else ""
    more += "; it stays open until `close` holds" if loop.stays_open else ""
    on = "" if run.puts_tokens else "; its step is done, and they run on"
    text = f"{ended} of {loop.count} iterations have ended{failed}{width}{more}{on}"
    return WaitAccount("loop", text, run.id)


def _suspended(here: Evidence, run: Run, loop: LoopState) -> Iterator[WaitAccount]:
    waiting = {**loop.suspended, **here.delayed(run.id)}
    for index in sorted(waiting)[: here.bounds.failures]:
        due = waiting[index]
        text = f"iteration {index} goes on at {due}" if due else f"iteration {index} is about to go on"
        yield WaitAccount("delay", text, run.id, due)


def _child(child: Child) -> WaitAccount:
    path = brief(child.call.path)
    place = "" if child.iteration is None else f"iteration {child.iteration}: "
    if child.id is None:
        return WaitAccount("child", f"{place}playbook {path} is about to be called", child.run_id)
    outside = ", which waits for somebody outside" if child.waits else ""
    text = f"{place}execution {child.id} of playbook {path}, which it called{outside}"
    return WaitAccount("child", text, child.run_id, child.due_at, child.id)


def _wait(here: Evidence, wait: JsonMap) -> WaitAccount:
    if wait["kind"] != "task":
        return _awaited(here, wait)
    place = "" if wait["iteration"] is None else f"iteration {wait['iteration']}: "
    what = join_awaited(wait)
    since = "" if wait["since"] is None else f", since {wait['since']}"
    due = [wait["until"], *(one["due_at"] for one in wait["for"])]
    first = min((one for one in due if one is not None), default=None)
    return WaitAccount("wait", f"{place}task {wait['task']!r} waits for {what}{since}", wait["run_id"], first)


def _pipeline(here: Evidence, run: Run) -> WaitAccount:
    """A pipeline is delayed, with a worker, on its way to one, or about to leave."""
    events = here.of_run.get(run.id, [])
    issued = _last(events, e.CommandIssued)
    command = issued.fact if issued is not None and isinstance(issued.fact, e.CommandIssued) else None
    if run.resume_at is not None or command is None or issued is None:
        halt = _halt(here) if here.state.is_halted else None
        return halt or WaitAccount("scheduler", "the scheduler's next turn lets it go on", run.id)
    reported = [event for event in events if event.version > issued.version]
    if command.due_at is not None and not reported:
        return WaitAccount("delay", _delay(events, command.due_at), run.id, command.due_at)
    return WaitAccount("worker", _where(here, command, reported), run.id)


def _last(events: list[Event], kind: type) -> Event | None:
    return next((event for event in reversed(events) if isinstance(event.fact, kind)), None)


def _delay(events: list[Event], due_at: str) -> str:
    left = _last(events, e.StepSuspended)
    if left is None or not isinstance(left.fact, e.StepSuspended):
        return f"it goes on at {due_at}"
    why = "an equal call was being made" if find_lock(left.fact.reason) else left.fact.reason
    return f"task {left.fact.task!r} goes on at {due_at} ({why})"


def _where(here: Evidence, command: e.CommandIssued, reported: list[Event]) -> str:
    held = here.held.get(command.command_id)
    if held is not None and held.owner is not None:
        until = f" until {held.lease_until:%Y-%m-%d %H:%M:%S} UTC" if held.lease_until else ""
        return f"worker {held.owner} has its command, with a lease{until}"
    worker = next((event.fact.worker for event in reported if isinstance(event.fact, e.StepStarted)), None)
    if worker is not None:
        return f"worker {worker} took its command and has not reported its end"
    if held is not None and not held.sent:
        return f"its command for queue {command.queue!r} has not been sent yet"
    if held is not None and held.unserved:
        return f"its command is in queue {command.queue!r}, which no worker serves"
    return f"its command is in queue {command.queue!r}: no worker of that queue has reported on it"
