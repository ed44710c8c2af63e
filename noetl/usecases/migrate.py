"""migrate: an open execution that waits goes on as another one, under another version of its
playbook.

The other one is a retry of it, as far as what it recorded stands in. What it holds, it has to hold
there as well: the runs that wait have to be what they were. Where they are not, it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from noetl.engine.decide import decide
from noetl.engine.evolve import evolve
from noetl.engine.source import SourceLog, SourceRun
from noetl.engine.state import State
from noetl.errors import Conflict
from noetl.facts.events import (
    CancelRequested,
    IterationSuspended,
    PauseRequested,
    StepSuspended,
)
from noetl.facts.json import JsonMap
from noetl.facts.lineage import RetryOf, Reuse
from noetl.facts.reference import Retention
from noetl.forecast.again import UNDRAWN
from noetl.net.model import Net
from noetl.usecases import catalog, moment
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.lineage import read_source
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.retry import (
    NEWEST,
    PlannedRetry,
    RetryRequest,
    begin,
    check_confirmed,
    find_missing_again,
    plan_taking,
    playbook_of,
    take_key,
)
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import draw_ids
from noetl.usecases.turn.writing import Turn, write_turn
from noetl.usecases.wakes import wake


@dataclass(frozen=True, slots=True)
class MigrateRequest:
    """Which execution goes on under which version: the newest one unless told otherwise. With
    `confirmed`, calls with effects outside of NoETL that had gone well may be made again."""

    execution_id: str
    version: int = NEWEST
    path: str | None = None
    directories: tuple[str, ...] = ()
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class PlannedMigration:
    """What the other execution would take and do, and why there cannot be one: in clauses, none
    where there can."""

    again: PlannedRetry
    obstacles: Sequence[str]

    def as_json(self) -> JsonMap:
        """`{migration_of, path, version, runs, error, obstacles}`, as of a retry."""
        plan = dict(self.again.as_json())
        return {"migration_of": plan.pop("retry_of"), **plan, "obstacles": list(self.obstacles)}


def version_of(rt: Runtime, request: MigrateRequest) -> int:
    """The version that the execution would go on under. Raises NotFound, BadRequest."""
    return playbook_of(rt, _as_retry(request)).version


def _as_retry(request: MigrateRequest) -> RetryRequest:
    return RetryRequest(
        request.execution_id, version=request.version, path=request.path, directories=request.directories
    )


def plan(rt: Runtime, request: MigrateRequest) -> PlannedMigration:
    """What a migration would do; nothing is written. Raises NotFound, BadRequest, and Conflict
    where the execution has ended."""
    with catalog.keeping_nets(rt) as tx:
        row = moment.find(tx, request.execution_id)
        return _plan(rt, tx, request, row, moment.look(tx, row).state(), UNDRAWN)


def migrate(rt: Runtime, request: MigrateRequest) -> ExecutionRow:
    """Ends the execution, which is cancelled for that reason, and begins the other one, in one
    transaction. What it had begun elsewhere is not called off. Its row as it is then.

    Raises what `plan` raises, and Conflict where there is an obstacle, or effects have to be
    confirmed.
    """
    now = rt.clock()
    new_id = draw_ids(rt, now, 1)[0]
    with catalog.keeping_nets(rt) as tx:
        row = tx.executions.lock(request.execution_id) or moment.find(tx, request.execution_id)
        state = moment.look(tx, row).state()
        planned = _plan(rt, tx, request, row, state, new_id)
        if planned.obstacles:
            raise Conflict(
                f"Execution {row.execution_id} cannot be migrated now: {'; '.join(planned.obstacles)}. It "
                "stays as it is."
            )
        check_confirmed(planned.again, confirmed=request.confirmed)
        _end(rt, tx, row, state, new_id, now)
        take_key(rt, tx, planned.again, new_id)
        made = begin(tx, planned.again, new_id, rt.ask_for(planned.again.request), now)
        if state.pause_requested:
            made = _pause(rt, tx, made, now)
    wake(rt)
    return made


def _plan(
    rt: Runtime, tx: Transaction, request: MigrateRequest, row: ExecutionRow, state: State, new_id: str
) -> PlannedMigration:
    moment.refuse_specimen(row)
    moment.refuse_undo(row)
    if row.status in ENDED:
        raise Conflict(
            f"Execution {row.execution_id} is {row.status}: nothing of it is left to migrate; retry it."
        )
    own = RetryOf(row.execution_id, migrates=True)
    source = read_source(rt, tx, row, own)
    again = plan_taking(rt, tx, _as_retry(request), row, source, new_id)
    missing = find_missing_again(rt, tx, again)
    found = [*_at_work(tx, row, state), *_find_unheld(source, state, again.net, again)]
    found += [str(one["message"]).rstrip(".") for one in (() if missing is None else missing.faults)]
    return PlannedMigration(again, found)


# --- obstacles ------------------------------------------------------------------------------------


def _at_work(tx: Transaction, row: ExecutionRow, state: State) -> Iterator[str]:
    """Why it does not just wait for time, or for people."""
    if row.parent_id is not None and state.parent is not None and not state.parent.detached:
        yield f"execution {row.parent_id} called it and waits for it"
    for child in state.children.values():
        if child.id is not None:
            yield f"step '{child.step}' waits for execution {child.id}, which it called"
    if state.cancelling or state.stopping:
        yield "it is about to end"
    held = {one.step for one in tx.commands.open_of(row.execution_id) if one.state == "claimed"}
    for step in sorted(held):
        yield f"a worker is at work on step '{step}'; pause the execution, or try again"
    if row.decided_version < row.head_version and not held:
        yield "it is just going on; try again"


def _find_unheld(source: SourceLog, state: State, net: Net, again: PlannedRetry) -> Iterator[str]:
    """What it holds that the version has no place for."""
    version = f"version {again.request.playbook_version}"
    for waiting in state.tokens.values():
        if waiting.token.step not in net.steps:
            yield f"it waits before step '{waiting.token.step}', which {version} does not have"
    for run in source.runs.values():
        if run.status == "running" and run.execution_id == source.execution_id:
            yield from _find_unheld_run(run, net, version, again.plan.taken.get(run.id))


def _find_unheld_run(run: SourceRun, net: Net, version: str, taken: Reuse | None) -> Iterator[str]:
    tasks = list(dict.fromkeys(_waiting_tasks(run)))
    if not tasks:
        return
    if run.step not in net.steps:
        yield f"step '{run.step}' waits, and {version} does not have it"
    elif taken is None:
        yield f"step '{run.step}' waits, and in {version} nothing has led to it"
    elif lost := [task for task in tasks if task not in taken.tasks]:
        # Of a part that stands the reason only says that it had not ended.
        why = taken.reason if taken.how == "none" else f"in {version} that is another task"
        yield f"step '{run.step}' waits in task '{lost[0]}', and {why}"


def _waiting_tasks(run: SourceRun) -> Iterator[str]:
    """The tasks in which the run, or an iteration of it, has left its worker last."""
    for events in (run.events, *run.iterations.values()):
        left = (one.fact for one in reversed(events))
        suspended = (fact for fact in left if isinstance(fact, StepSuspended | IterationSuspended))
        yield from (fact.task for fact in islice(suspended, 1))


# --- writing --------------------------------------------------------------------------------------


def _end(rt: Runtime, tx: Transaction, row: ExecutionRow, state: State, new_id: str, now: datetime) -> None:
    """The execution ends as one that is cancelled, at once, but what it has begun elsewhere goes
    on: the other one goes on with it."""
    plan = rt.plan(tx, row.digest)
    reason = f"it was migrated to execution {new_id}"
    asked = rt.ask_for(CancelRequested(now.isoformat(), reason), "cancel")
    tx.events.append(row.execution_id, row.head_version, [asked], now)
    before = evolve(state, asked)
    inputs = inputs_of(rt, tx, plan, row.execution_id, now, Retention(row.execution_id))
    open_commands = {one.command_id: False for one in tx.commands.open_of(row.execution_id)}
    decision = decide(plan, before, replace(inputs, status=row.status, commands=open_commands))
    # Without the commands that would call off what it has begun.
    write_turn(rt, tx, Turn(row, before, decision), now)


def _pause(rt: Runtime, tx: Transaction, row: ExecutionRow, now: datetime) -> ExecutionRow:
    draft = rt.ask_for(PauseRequested("the execution that it was migrated from was paused"))
    tx.events.append(row.execution_id, row.head_version, [draft], now)
    tx.executions.set_halt(row.execution_id, "pause")
    return replace(row, head_version=row.head_version + 1, halt="pause")
