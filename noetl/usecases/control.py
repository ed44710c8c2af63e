"""cancel, pause, resume, patch: T7, one event from outside each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from noetl.engine.plan import Plan
from noetl.engine.regions import is_decided, is_empty
from noetl.engine.run_state import Run
from noetl.engine.scope_state import RegionState
from noetl.engine.state import State
from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.events import (
    CancelRequested,
    CtxPatched,
    Draft,
    PauseRequested,
    RegionCancelRequested,
    Resumed,
    StepCancelRequested,
)
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Retention
from noetl.net.model import Net
from noetl.usecases import moment
from noetl.usecases.large_values import hold_draft
from noetl.usecases.lineage import call_off
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import send, wake


def cancel(rt: Runtime, execution_id: str, reason: str = "", grace_s: float | None = None) -> None:
    """Asks for the end. Nothing new starts; running work is interrupted, and waited for during the
    grace.

    Of what has failed and is to be retried by itself the retry is called off. Asking twice is fine.
    Raises NotFound, and Conflict after the end.
    """
    with rt.store.begin() as tx:
        row = _lock_open(tx, execution_id)
        if row.waits_for_retry:
            call_off(rt, tx, row, reason)
        else:
            ask_to_cancel(rt, tx, row, reason, grace_s)
    wake(rt)


def ask_to_cancel(
    rt: Runtime, tx: Transaction, row: ExecutionRow, reason: str, grace_s: float | None = None
) -> None:
    """The same in a transaction that has locked the execution, which has not ended."""
    if tx.events.recorded(row.execution_id, "cancel"):
        return
    grace = rt.limits.cancel_grace_s if grace_s is None else grace_s
    fact = CancelRequested((rt.clock() + timedelta(seconds=grace)).isoformat(), reason)
    is_closing = moment.look(tx, row).state().closing is not None
    _append(rt, tx, row, rt.ask_for(fact, "cancel"))
    if is_closing:
        # What undoes and cleans up at its end is not interrupted.
        return
    tx.executions.set_halt(row.execution_id, "cancel")
    tx.loops.close_all(row.execution_id)


def cancel_step(
    rt: Runtime, execution_id: str, step: str, iteration: int | None = None, reason: str = ""
) -> None:
    """Asks for the end of a step, all its runs that have not ended, or of one iteration of it; what
    runs of it is interrupted, and what it called is cancelled.

    `step` may be `step#k`, one run. The execution goes on: arcs that ask for `step.cancelled` are
    taken, and the branch has not failed. Asking twice is fine. Raises NotFound for a step that the
    playbook does not have, and Conflict where it does not run.
    """
    with rt.store.begin() as tx:
        row = lock_running(tx, execution_id)
        state = moment.look(tx, row).state()
        runs = _find_runs(rt.plan(tx, row.digest), state, step, iteration)
        fact = StepCancelRequested(reason or "somebody asked for it")
        asked = replace(rt.ask_for(fact), iteration=iteration)
        part = "-" if iteration is None else iteration
        drafts = [
            replace(asked, step=run.step, run_id=run.id, dedup_key=f"cancel:{run.id}/{part}") for run in runs
        ]
        new = [draft for draft in drafts if not tx.events.recorded(execution_id, draft.dedup_key or "")]
        if new:
            tx.events.append(execution_id, row.head_version, new, rt.clock())
    wake(rt)


def cancel_region(rt: Runtime, execution_id: str, region: str, reason: str = "") -> None:
    """Asks for the end of a region: all that runs or waits in it is withdrawn, and undone where it
    says so; the execution goes on.

    Asking twice is fine. Raises NotFound for a region that the playbook does not have, and Conflict
    where nothing of it runs or waits, or only what is done at its end does.
    """
    with rt.store.begin() as tx:
        row = lock_running(tx, execution_id)
        net, state = rt.plan(tx, row.digest).net, moment.look(tx, row).state()
        now = _find_cancellable(net, state, region)
        fact = RegionCancelRequested(region, reason or "somebody asked for it")
        draft = rt.ask_for(fact, f"cancel:{region}#{now.number}")
        if not tx.events.recorded(execution_id, draft.dedup_key or ""):
            _append(rt, tx, row, draft)
    wake(rt)


def _find_cancellable(net: Net, state: State, name: str) -> RegionState:
    region = next((one for one in net.regions if one.name == name), None)
    if region is None:
        hint = did_you_mean(name, [one.name for one in net.regions])
        raise NotFound(f"The playbook {state.path!r} has no region {name[:80]!r}.{hint}")
    now = state.regions.get(name)
    if now is None or not now.is_open:
        raise Conflict(f"Nothing of region {name!r} runs or waits in execution {state.execution_id}.")
    if not now.is_leaving and (is_decided(state, region, now) or is_empty(state, region, now)):
        raise Conflict(
            f"Nothing is left to be cancelled of region {name!r} in execution {state.execution_id}: its "
            "steps have ended, and only what is done at its end runs; cancel the execution to end that, too."
        )
    return now


def _find_runs(plan: Plan, state: State, asked: str, iteration: int | None) -> list[Run]:
    step, _, number = asked.partition("#")
    if step not in plan.net.steps:
        hint = did_you_mean(step, plan.net.steps)
        raise NotFound(f"The playbook {state.path!r} has no step {step[:80]!r}.{hint}")
    runs = [run for run in state.runs.values() if run.step == step and not run.ended]
    if number:
        runs = [run for run in runs if run.id == asked]
    if not runs:
        raise Conflict(f"Step {asked!r} of execution {state.execution_id} does not run now.")
    if iteration is not None:
        runs = [run for run in runs if _has_open(run, iteration)]
        if not runs:
            raise Conflict(
                f"Step {asked!r} of execution {state.execution_id} has no iteration {iteration} that has not "
                "ended."
            )
    return runs


def _has_open(run: Run, iteration: int) -> bool:
    loop = run.loop
    return loop is not None and 0 <= iteration < loop.count and not loop.ended >> iteration & 1


def pause(rt: Runtime, execution_id: str, reason: str = "") -> None:
    """Nothing new starts until `resume`; running work ends. Pausing twice is fine."""
    with rt.store.begin() as tx:
        row = lock_running(tx, execution_id)
        if not row.halt:
            _append(rt, tx, row, rt.ask_for(PauseRequested(reason, rt.clock().isoformat())))
            tx.executions.set_halt(execution_id, "pause")
    wake(rt)


def resume(rt: Runtime, execution_id: str, reason: str = "") -> None:
    """Goes on after `pause`. Raises Conflict where the execution was not paused."""
    with rt.store.begin() as tx:
        row = lock_running(tx, execution_id)
        if row.halt != "pause":
            raise Conflict(f"Execution {execution_id} is {row.status}, not paused.")
        _append(rt, tx, row, rt.ask_for(Resumed(reason, rt.clock().isoformat())))
        tx.executions.set_halt(execution_id, "")
        ready = _reopen(rt, tx, row)
    send(rt, ready)
    wake(rt)


def _reopen(rt: Runtime, tx: Transaction, row: ExecutionRow) -> list[CommandRow]:
    """What workers refused during the pause, or would have: now it counts as sent. What is due
    later, and what belongs to the shard of one process, is left to a sweeper."""
    now = rt.clock()
    waiting = [one for one in tx.commands.open_of(row.execution_id) if one.state == "open"]
    ready = [one for one in waiting if not row.shard and (one.due_at is None or one.due_at <= now)]
    tx.commands.mark_sent([one.command_id for one in waiting], None)
    tx.commands.mark_sent([one.command_id for one in ready], now)
    return ready


def adopt(rt: Runtime, execution_id: str) -> None:
    """Goes on with an execution whose process has gone: what it had sent went with its memory. What
    it held is given back by whoever knows that it has gone (`sweep.end_leases`), or when the leases
    run out."""
    with rt.store.begin() as tx:
        _lock_open(tx, execution_id)
        _send_again(tx, execution_id)
    for child in _children(rt, execution_id):
        with rt.store.begin() as tx:
            _send_again(tx, child)
    wake(rt)


def _send_again(tx: Transaction, execution_id: str) -> None:
    waiting = [one for one in tx.commands.open_of(execution_id) if one.state == "open"]
    tx.commands.mark_sent([one.command_id for one in waiting], None)


def _children(rt: Runtime, execution_id: str) -> Iterator[str]:
    with rt.store.read() as tx:
        state = moment.look(tx, moment.find(tx, execution_id)).state()
    for child in state.children.values():
        if child.id is not None:
            yield child.id
            yield from _children(rt, child.id)


def patch_ctx(rt: Runtime, execution_id: str, patch: JsonMap, expected_version: int | None = None) -> int:
    """Assigns ctx names (dotted) from outside. Returns the version of the stream after it.

    Raises VersionConflict where `expected_version` is given and is not the head.
    """
    check_patch(rt, patch)
    with rt.store.begin() as tx:
        row = lock_running(tx, execution_id)
        expected = row.head_version if expected_version is None else expected_version
        draft = hold_draft(rt, rt.ask_for(CtxPatched(patch, "client")), Retention(execution_id))
        events = tx.events.append(execution_id, expected, [draft], rt.clock())
    wake(rt)
    return events[-1].version


def check_patch(rt: Runtime, patch: JsonMap) -> None:
    """Raises BadRequest for a patch that ctx cannot take, LimitExceeded for one that is too
    large."""
    if not patch:
        raise BadRequest("The patch assigns nothing; give at least one name.")
    for name in patch:
        if not name or not all(part for part in name.split(".")):
            raise BadRequest(f"{name!r} is not a name that ctx can hold; write it as `a` or `a.b`.")
    rt.check_payload(patch, "patch")


def lock_running(tx: Transaction, execution_id: str) -> ExecutionRow:
    """The row of an execution that has not ended, locked. Raises NotFound, Conflict."""
    row = _lock_open(tx, execution_id)
    if row.status in ENDED:
        raise Conflict(f"Execution {execution_id} has ended ({row.status}), and waits to be retried.")
    return row


def _lock_open(tx: Transaction, execution_id: str) -> ExecutionRow:
    """What runs, or has failed and is to be retried by itself."""
    row = tx.executions.lock(execution_id)
    if row is None:
        raise NotFound(f"There is no execution {execution_id!r}.")
    moment.refuse_specimen(row)
    if row.status in ENDED and not row.waits_for_retry:
        raise Conflict(f"Execution {execution_id} has ended ({row.status}){_find_heir(tx, row)}.")
    return row


def _find_heir(tx: Transaction, row: ExecutionRow) -> str:
    """The execution that retries it by itself, as a message goes on with it."""
    following = moment.look(tx, row).state().next_attempt
    if following is None or following.execution_id is None:
        return ""
    return f", and execution {following.execution_id} retries it"


def _append(rt: Runtime, tx: Transaction, row: ExecutionRow, draft: Draft) -> None:
    tx.events.append(row.execution_id, row.head_version, [draft], rt.clock())
