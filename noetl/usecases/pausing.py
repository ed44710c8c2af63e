"""Pause and resume of parts: a step of an execution, a queue, a key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from noetl.engine.state import State
from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.events import Draft, StepPauseEnded, StepPauseRequested
from noetl.facts.nearest import did_you_mean
from noetl.usecases import moment
from noetl.usecases.control import lock_running
from noetl.usecases.health import SEEN
from noetl.usecases.ports import ExecutionRow, Pause, PausedKind, Transaction, paused_step
from noetl.usecases.purposes import SCHEDULER
from noetl.usecases.runtime import Runtime
from noetl.usecases.slots import wake_waiters
from noetl.usecases.wakes import wake

#: Characters of the name of a queue, and of a key.
LONGEST: Final = 200


# --- steps ----------------------------------------------------------------------------------------


def pause_step(rt: Runtime, execution_id: str, step: str, reason: str = "") -> None:
    """Nothing of the step begins until `resume_step`: it is not fired, and workers take nothing of
    it; what they are at ends. Of a loop the iterations that run end, and no other begins. Pausing
    twice is fine. Raises NotFound for a step that the playbook does not have."""
    with rt.store.begin() as tx:
        row, state = _look(rt, tx, execution_id, step)
        if step not in state.paused_steps:
            name, now = paused_step(execution_id, step), rt.clock()
            _append(rt, tx, row, StepPauseRequested(reason), step)
            tx.slots.pause(Pause("step", name, now, rt.principal, reason))
    wake(rt)


def resume_step(rt: Runtime, execution_id: str, step: str, reason: str = "") -> None:
    """Goes on after `pause_step`. Raises Conflict where the step was not paused."""
    with rt.store.begin() as tx:
        row, state = _look(rt, tx, execution_id, step)
        if step not in state.paused_steps:
            raise Conflict(f"Step {step!r} of execution {execution_id} is not paused.")
        _append(rt, tx, row, StepPauseEnded(reason), step)
        tx.slots.resume("step", paused_step(execution_id, step))
        # What workers refused meanwhile, or would have: the sweeper sends it.
        mine = [one for one in tx.commands.open_of(execution_id) if one.step == step and one.state == "open"]
        tx.commands.mark_sent([one.command_id for one in mine], None)
    wake(rt)


def _look(rt: Runtime, tx: Transaction, execution_id: str, step: str) -> tuple[ExecutionRow, State]:
    row = lock_running(tx, execution_id)
    steps = rt.plan(tx, row.digest).net.steps
    if step not in steps:
        hint = did_you_mean(step, steps)
        raise NotFound(f"The playbook {row.path!r} has no step {step[:80]!r}.{hint}")
    return row, moment.look(tx, row).state()


def _append(
    rt: Runtime, tx: Transaction, row: ExecutionRow, fact: StepPauseRequested | StepPauseEnded, step: str
) -> None:
    draft: Draft = replace(rt.ask_for(fact), step=step)
    tx.events.append(row.execution_id, row.head_version, [draft], rt.clock())


# --- queues and keys ------------------------------------------------------------------------------


def pause_queue(rt: Runtime, queue: str, reason: str = "") -> None:
    """Workers take nothing of the queue until `resume_queue`; what they are at ends. Pausing twice
    is fine. Raises BadRequest for the scheduler's own."""
    _check(queue, "queue")
    if queue == SCHEDULER:
        raise BadRequest(f"The queue {SCHEDULER!r} carries no work of steps: pause executions instead.")
    _pause(rt, "queue", queue, reason)


def resume_queue(rt: Runtime, queue: str) -> None:
    """Goes on after `pause_queue`: the sweeper sends what waits. Raises Conflict where the queue
    was not paused."""
    with rt.store.begin() as tx:
        _resume(rt, tx, "queue", queue)
        tx.commands.unsend(queue)
    wake(rt)


def pause_key(rt: Runtime, key: str, reason: str = "") -> None:
    """Nobody gets a slot of the key until `resume_key`; who has one keeps it. Pausing twice is
    fine."""
    _check(key, "key")
    _pause(rt, "key", key, reason)


def resume_key(rt: Runtime, key: str) -> None:
    """Goes on after `pause_key`. Raises Conflict where the key was not paused."""
    with rt.store.begin() as tx:
        _resume(rt, tx, "key", key)
    wake_waiters(rt, [key])


def find_doubt(rt: Runtime, kind: Literal["queue", "key"], name: str) -> str | None:
    """Why it may be another one that was meant, in a sentence; None where the name is in use. Keys
    are known while somebody has a slot or waits for one, and queues by the tools and workers."""
    with rt.store.read() as tx:
        if kind == "key":
            known = {row.key for row in tx.slots.of_key()}
        else:
            alive = tx.workers.alive(rt.clock() - SEEN)
            known = {info.queue for info in rt.kinds.values()} | {one for row in alive for one in row.queues}
        others = known | {one.name for one in tx.slots.paused(kind) if one.name != name}
    if name in known:
        return None
    hint = did_you_mean(name, others)
    if kind == "key":
        return f"Nobody has a slot of {name!r} or waits for one now.{hint}"
    return f"No tool and no worker has a queue {name!r} now.{hint}"


def _check(name: str, what: str) -> None:
    if not 0 < len(name) <= LONGEST or not name.isprintable():
        raise BadRequest(f"{name[:60]!r} is no {what}: up to {LONGEST} printable characters are.")


def _pause(rt: Runtime, kind: PausedKind, name: str, reason: str) -> None:
    with rt.store.begin() as tx:
        if tx.slots.pause(Pause(kind, name, rt.clock(), rt.principal, reason)):
            rt.record(tx, f"{kind}.paused", name, {"reason": reason})


def _resume(rt: Runtime, tx: Transaction, kind: PausedKind, name: str) -> None:
    if not tx.slots.resume(kind, name):
        known: Sequence[str] = [one.name for one in tx.slots.paused(kind)]
        raise Conflict(f"The {kind} {name[:LONGEST]!r} is not paused.{did_you_mean(name, known)}")
    rt.record(tx, f"{kind}.resumed", name)
