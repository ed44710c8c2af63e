"""run_step: claim a pipeline's command, run it, report (T3, T4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from noetl.engine.context import loop_mode
from noetl.engine.evolve import replay
from noetl.engine.names import StepNames
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.errors import Unavailable
from noetl.expressions.results import of_step
from noetl.expressions.scope import bare_names, layered
from noetl.facts.events import (
    ChildCall,
    CtxPatched,
    Draft,
    StepDone,
    StepFailed,
    StepResumed,
    StepStarted,
    StepSuspended,
    TaskStarted,
)
from noetl.facts.ids import event_id
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import Log, Stream
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.facts.reference import Keep, loaded
from noetl.facts.secret import Keychain
from noetl.net.model import Transition
from noetl.pipeline.fold import replay as replay_pipeline
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Completed,
    Ending,
    Failed,
    Finished,
    Hands,
    Names,
    Program,
    Recorded,
    Sleep,
    Suspend,
    Suspension,
    ToolPort,
    Where,
)
from noetl.usecases.large_values import hold_draft, keep_outcome
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.turn.advance import stored_state
from noetl.usecases.work.deliveries import Delivery, End, refusal
from noetl.usecases.work.leases import Leases
from noetl.usecases.work.log_bounds import Attempt
from noetl.usecases.work.log_context import at_work, set_claim
from noetl.usecases.work.reports import LeaseLost, ask_for_turn, output_of, report, standing


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that executes commands: its name in leases, and what keeps them alive."""

    rt: Runtime
    name: str
    leases: Leases


def run_step(worker: Worker, command_id: str) -> Delivery:
    """Runs the pipeline of one command to its end or its suspension."""
    rt = worker.rt
    with rt.store.begin_async_commit() as tx:
        command = claim(rt, tx, worker.name, command_id)
        if command is None:
            return refusal(tx, command_id)
        set_claim(command)
        plan = rt.plan(tx, command.context["digest"])
        first = command.attempt == 1 and command.issue == 1
        recorded = [] if first else tx.run_events(command.execution_id, command.run_id, None)
    watched = Watched(rt, command)
    job = _Job(worker, command, plan, rt.clock(), watched)
    with worker.leases.hold(command, watched.end, job.alive):
        try:
            job.run([event.draft for event in recorded])
        except LeaseLost:
            if watched.cancelled:
                give_up(rt, command)
            return Delivery(End.CANCELLED if watched.cancelled else End.REFUSED)
    return Delivery(End.DONE, job.error)


def give_up(rt: Runtime, command: CommandRow) -> None:
    """A cancelled command ends without a report; the scheduler withdraws its step."""
    with output_of(rt, command) as printed, rt.store.begin() as tx:
        if standing(tx, command) is None:
            return
        printed.into(tx, command.execution_id)
        tx.close_commands([command.command_id])
        ask_for_turn(tx, command.execution_id, rt.clock())
    wake_after_report(rt)


class Watched(ToolPort):
    """The tools, for one command: once its lease is gone no call starts and the running one is ended. What a call
    prints is kept as that of its attempt."""

    def __init__(self, rt: Runtime, command: CommandRow) -> None:
        self._rt = rt
        self._command = command
        self._printing: Attempt | None = None
        self._tools = rt.tools
        self._lock = threading.Lock()
        self._call: Call | None = None
        self._since = rt.clock()
        self._announced = True
        self._over = False
        self.cancelled = False

    def run(self, call: Call) -> Outcome | Suspension:
        with self._lock:
            self._call, self._since, self._announced = call, self._rt.clock(), False
        self.check()
        token = at_work.set(call)
        try:
            return self._tools.run(call)
        finally:
            at_work.reset(token)
            with self._lock:
                self._call = None
            self._end_of_log()
            self.check()

    @property
    def log(self) -> Log | None:
        """Takes what the call prints that runs."""
        return None if self._rt.logs is None else self._print

    def _print(self, stream: Stream, text: str) -> None:
        logs, call = self._rt.logs, self._call
        if logs is None or call is None:
            return
        if self._printing is None:
            self._printing = logs.begin(self._command, call)
        logs.write(self._command, self._printing, stream, text)

    def _end_of_log(self) -> None:
        if self._printing is not None and self._rt.logs is not None:
            self._rt.logs.end(self._command, self._printing)
            self._printing = None

    def announce(self, tell: Callable[[Call, Draft], None]) -> None:
        """Once for each call that outlives a heartbeat: `tell` may report, because the worker's own thread
        is inside of the tool and stays there until this returns."""
        with self._lock:
            call = self._call
            age = (self._rt.clock() - self._since).total_seconds()
            if call is None or self._announced or self._over or age < self._rt.limits.heartbeat_s:
                return
            self._announced = True
            where = call.where
            draft = Draft(
                TaskStarted(call.task, self._since.isoformat()),
                source="worker",
                step=where.step,
                run_id=where.run_id,
                iteration=where.iteration,
                attempt=call.attempt,
            )
            try:
                tell(call, draft)
            except LeaseLost:
                # The worker's thread meets the same with its own report, and gives up there.
                return

    def check(self) -> None:
        """Raises LeaseLost where the command is no longer ours."""
        if self._over:
            raise LeaseLost

    def interrupt(self, call: Call) -> None:
        self._tools.interrupt(call)

    def end(self, cancelled: bool) -> None:
        """Called from the heartbeat's thread."""
        self.cancelled = cancelled
        self._over = True
        call = self._call
        if call is not None:
            self._tools.interrupt(call)


def claim(rt: Runtime, tx: Transaction, owner: str, command_id: str) -> CommandRow | None:
    """T3. The lease counts from here: what was waited for before, or in order to get into the transaction, is
    not taken off it. A lease that has run out when it is taken keeps nobody else away."""
    now = rt.clock()
    until = now + timedelta(seconds=rt.limits.lease_s)
    return tx.claim(command_id, owner, now, until, rt.limits.max_deliveries)


def wake_after_report(rt: Runtime) -> None:
    """What a worker does after it has reported something that the scheduler waits for."""
    if rt.limits.report_wake:
        wake(rt)


def wake(rt: Runtime) -> None:
    """Asks for a turn; where the broker is away the sweeper will."""
    try:
        rt.dispatcher.wake()
    except Unavailable:
        return


def program(plan: Plan, command: CommandRow, iteration: int | None) -> Program:
    """The pipeline of the command's step, placed."""
    step = plan.step(command.step)
    where = Where(
        command.execution_id,
        command.run_id,
        command.step,
        iteration,
        command.context["digest"],
        event=issued_by(command),
    )
    parallel = loop_mode(command.context, step) == "parallel"
    reducers = frozenset(step.loop.reduce) if step.loop else frozenset()
    iterator = step.loop.iterator if step.loop and iteration is not None else ""
    return Program(step.tasks, where, plan.net.file, parallel, iterator, reducers)


def issued_by(command: CommandRow) -> str:
    """The id of the event that issued the command; empty where an earlier version wrote the row."""
    version = command.context.get("issued")
    return "" if version is None else event_id(command.execution_id, version)


def names(rt: Runtime, plan: Plan, command: CommandRow, iteration: JsonMap | None = None) -> Names:
    """What the command's templates see, from the context in its row."""
    context = command.context
    around = spanning(rt, context)
    steps = {
        name: of_step(view.get("result"), view.get("results") or {})
        for name, view in context["steps"].items()
    }
    return Names(
        workload=context["workload"],
        ctx=context["ctx"],
        args=context["args"],
        steps=steps,
        builtins={
            **_bare_around(around, iteration),
            "execution_id": command.execution_id,
            "job": {"uuid": command.execution_id, "execution_id": command.execution_id},
            "env": rt.env,
            "keychain": Keychain(plan.net.keychain, command.execution_id, rt.seal),
        },
        iter=iteration or around or called_from(context),
    )


def called_from(context: JsonMap) -> JsonMap | None:
    """What `iter` is outside of the playbook's own loops: where an iteration called it, its `parent`."""
    return {"parent": context["caller"]} if "caller" in context else None


def spanning(rt: Runtime, context: JsonMap) -> JsonMap | None:
    """The scope of the iteration, of several steps, that the command's step is a part of."""
    if "iteration" not in context:
        return None
    scope: JsonMap = loaded(context["iteration"], rt.load)
    return scope


def _bare_around(around: JsonMap | None, iteration: JsonMap | None) -> JsonMap:
    """What an iteration of one step reads bare of the one around it: what it has no name for itself."""
    if around is None or iteration is None:
        return {}
    own = bare_names(iteration)
    return {name: value for name, value in bare_names(around).items() if name not in own}


def hands(rt: Runtime, command: CommandRow, tools: ToolPort, log: Log | None = None) -> Hands:
    """The tool, references, jitter, and the whole context for code that asks for it."""

    def everything() -> Mapping[str, Any]:
        return whole_context(rt, command)

    context = everything if "everything" in command.context else None
    return Hands(
        tool=tools,
        load=rt.load,
        random=rt.random,
        context=context,
        now=lambda: rt.clock().isoformat(),
        is_large=rt.is_large,
        log=log,
        quoting=rt.quoting,
        kept=lambda outcome, task: keep_outcome(rt, outcome, task.result, command.execution_id),
    )


def whole_context(rt: Runtime, command: CommandRow) -> Mapping[str, Json]:
    """All that a template could see, as of the version that the command was issued at."""
    with rt.store.read() as tx:
        state = _state_at(tx, command.execution_id, int(command.context["everything"]))
    steps = {name: result.value for name, result in StepNames(state.steps).items()}
    view = layered(
        {"workload": state.workload, "ctx": state.ctx, "vars": state.ctx, "args": command.context["args"]},
        {"execution_id": state.execution_id, "steps": steps},
        steps,
        command.context["args"],
        state.ctx,
        state.workload,
    )
    return dict(view)


def _state_at(tx: Transaction, execution_id: str, version: int) -> State:
    state = stored_state(tx, execution_id)
    if state.version > version:
        state = State(execution_id)
    events = tx.events(execution_id, after=state.version)
    return replay(state, (event for event in events if event.version <= version))


def due_at(rt: Runtime, move: Suspend) -> str | None:
    """When a suspended pipeline goes on; None where it waits for something else than time."""
    return None if move.seconds is None else (rt.clock() + timedelta(seconds=move.seconds)).isoformat()


@dataclass(slots=True)
class _Job:
    """One delivery of one pipeline."""

    worker: Worker
    command: CommandRow
    plan: Plan
    started: datetime
    watched: Watched
    begun: bool = False
    #: Why the step failed.
    error: ErrorInfo | None = None

    @property
    def rt(self) -> Runtime:
        return self.worker.rt

    @property
    def step(self) -> Transition:
        return self.plan.step(self.command.step)

    def run(self, recorded: list[Draft]) -> None:
        rt, command = self.rt, self.command
        prog = program(self.plan, command, None)
        progress = replay_pipeline(prog, recorded)
        self.begun = self._begin().dedup_key in {draft.dedup_key for draft in recorded}
        for move in run(prog, names(rt, self.plan, command), progress, self._hands()):
            match move:
                case Recorded():
                    self._report(move.drafts, close=False)
                case Sleep():
                    time.sleep(move.seconds)
                case Suspend():
                    self._report([*move.drafts, self._suspended(move)], close=True)
                case Finished():
                    self._report([*move.drafts, self._ended(move.ending)], close=True)
                case _:
                    assert_never(move)

    def _hands(self) -> Hands:
        return hands(self.rt, self.command, self.watched, self.watched.log)

    def alive(self) -> None:
        """Called from the heartbeat's thread: a long task shows in the log while it runs."""
        self.watched.announce(lambda _, draft: self._report([draft], close=False))

    def _report(self, drafts: Iterable[Draft], *, close: bool) -> None:
        keep = Keep(self.command.execution_id)
        batch = [hold_draft(self.rt, draft, keep) for draft in drafts]
        if not self.begun:
            batch.insert(0, self._begin())
            self.begun = True
        report(self.rt, self.command, batch, close=close)
        if close or any(isinstance(draft.fact, CtxPatched) for draft in batch):
            wake_after_report(self.rt)

    def _draft(
        self, fact: StepStarted | StepResumed | StepSuspended | StepDone | StepFailed, key: str
    ) -> Draft:
        spent = (self.rt.clock() - self.started).total_seconds() * 1000
        ends = isinstance(fact, StepDone | StepFailed)
        return Draft(
            fact,
            source="worker",
            step=self.command.step,
            run_id=self.command.run_id,
            duration_ms=round(spent, 3) if ends else None,
            dedup_key=key,
        )

    def _begin(self) -> Draft:
        run_id, issue = self.command.run_id, self.command.issue
        if issue > 1:
            return self._draft(StepResumed(self.worker.name), f"resumed:{run_id}/{issue}")
        fact = StepStarted(self.worker.name, self.started.isoformat())
        return self._draft(fact, f"started:{run_id}")

    def _called(self, child: ChildCall | None) -> ChildCall | None:
        """A playbook sees as its caller's iteration that of the task, or the one that the step is a part of."""
        if child is None or child.iter is not None:
            return child
        return replace(child, iter=spanning(self.rt, self.command.context))

    def _suspended(self, move: Suspend) -> Draft:
        fact = StepSuspended(move.task, move.reason, due_at(self.rt, move), self._called(move.child))
        return self._draft(fact, f"suspended:{self.command.run_id}/{self.command.issue}")

    def _ended(self, ending: Ending) -> Draft:
        key = f"end:{self.command.run_id}"
        match ending:
            case Completed():
                return self._draft(StepDone(ending.task), key)
            case Failed():
                self.error = ending.error
                return self._draft(StepFailed(ending.error), key)
            case _:
                assert_never(ending)
