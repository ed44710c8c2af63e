"""fork: an execution goes its own way from an earlier moment of another one.

Its log begins with the other's, up to that moment. What was on its way there is void, and issued
anew with keys of its own; late results go to the other alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, get_args

from noetl.engine.evolve import replay
from noetl.engine.moments import moment_at
from noetl.engine.state import State, initial_state
from noetl.errors import BadRequest
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Retention
from noetl.facts.secret import describe_secret
from noetl.usecases import moment
from noetl.usecases.control import check_patch
from noetl.usecases.large_values import hold_draft
from noetl.usecases.log_copies import copy_log, write_copy
from noetl.usecases.ports import ExecutionRow, LoopRow, Transaction, credential_key
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import draw_ids
from noetl.usecases.wakes import wake

#: Events of the end: a fork goes on from before them.
_END: Final = (e.WorkflowFinished, e.Processed, e.Cancelled, e.ResultDiscarded, *get_args(e.RetryFact))


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """From where: the version `at`, or the last one before it at which the other stood; or the
    moment before the run `before` (`step`, whose last run is meant, or `step#k`) was scheduled.
    `patch` is what ctx is given there."""

    execution_id: str
    at: int | None = None
    before: str = ""
    patch: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlannedFork:
    """What a fork would do: the version up to which it has the log of `source`, and what that had
    come to there. What was on its way is made anew."""

    source: ExecutionRow
    at: int
    state: State

    @property
    def done(self) -> list[str]:
        """The steps that have run by then, and do not again unless the playbook leads there."""
        return [name for name, record in self.state.steps.items() if record.status != "running"]

    @property
    def running(self) -> list[str]:
        """The runs that have begun by then, and go on in the fork."""
        return [run.id for run in self.state.runs.values() if not run.ended]


def plan(rt: Runtime, request: ForkRequest) -> PlannedFork:
    """What a fork would do; nothing is written. Raises as `fork` does, but for credentials that are
    gone."""
    if request.patch:
        check_patch(rt, request.patch)
    with rt.store.read() as tx:
        row, events, at = _find_moment(tx, request)
    return PlannedFork(row, at, replay(initial_state(row.execution_id), events[:at]))


def fork(rt: Runtime, request: ForkRequest) -> ExecutionRow:
    """Writes the fork, with forks of the executions that were called and had not ended.

    Raises NotFound, and BadRequest where there is no such moment or nothing follows it.
    """
    if request.patch:
        check_patch(rt, request.patch)
    with rt.store.begin() as tx:
        row, events, at = _find_moment(tx, request)
        forking = _Forking(rt, tx, rt.clock())
        made = forking.fork(row, events[:at], None, request.patch)
    wake(rt)
    return made


def _find_moment(tx: Transaction, request: ForkRequest) -> tuple[ExecutionRow, list[Event], int]:
    """The execution, its log, and the version at which the fork begins."""
    row = moment.find(tx, request.execution_id)
    moment.refuse_specimen(row)
    moment.refuse_undo(row)
    events = tx.events.read(row.execution_id)
    return row, events, _find_version(row, events, request)


def _find_version(row: ExecutionRow, events: Sequence[Event], request: ForkRequest) -> int:
    if (request.at is None) is not bool(request.before):
        raise BadRequest("Say where the fork begins: at a version, or before a step.")
    at = _before(row, events, request.before) if request.at is None else request.at
    if not 1 <= at <= len(events):
        raise BadRequest(f"Execution {row.execution_id} has versions 1 to {len(events)}, not {at}.")
    ended = next((event for event in events[:at] if isinstance(event.fact, e.Processed | e.Cancelled)), None)
    if ended is not None:
        raise BadRequest(
            f"Execution {row.execution_id} had ended at version {ended.version}: nothing follows it. Fork it "
            "at an earlier version, or retry it."
        )
    return max(1, moment_at(events, at))


def _before(row: ExecutionRow, events: Sequence[Event], asked: str) -> int:
    step = asked.partition("#")[0]
    runs = [event for event in events if isinstance(event.fact, e.StepScheduled) and event.draft.step == step]
    if not runs:
        known = {event.draft.step for event in events if isinstance(event.fact, e.StepScheduled)}
        hint = did_you_mean(step, [name for name in known if name])
        raise BadRequest(f"Step {step!r} did not run in execution {row.execution_id}.{hint}")
    return moment.pick_run(runs, asked).version - 1


@dataclass(frozen=True, slots=True)
class _Forking:
    """Writes forks, in one transaction."""

    rt: Runtime
    tx: Transaction
    now: datetime

    def fork(
        self, row: ExecutionRow, events: Sequence[Event], parent: e.Parent | None, patch: JsonMap
    ) -> ExecutionRow:
        """The fork of an execution whose log is `events` so far."""
        new_id = draw_ids(self.rt, self.now, 1)[0]
        state = replay(initial_state(row.execution_id), events)
        self._take_credentials(row, new_id)
        copy = copy_log(row, events, state, new_id, parent, "fork", self.now, self.rt.caller)
        children = self._fork_children(state, new_id, events[-1].recorded_at)
        drafts = [*copy.drafts, self.rt.ask_for(e.Forked(row.execution_id, len(events), children))]
        if patch:
            patched = self.rt.ask_for(e.CtxPatched(patch, "client"))
            drafts.append(hold_draft(self.rt, patched, Retention(new_id)))
        made = write_copy(self.tx, replace(copy, drafts=drafts), self.now)
        self._keep_loops(state, new_id)
        return made

    def _take_credentials(self, row: ExecutionRow, new_id: str) -> None:
        """What the keychain brought for the execution alone. Raises BadRequest where it is gone."""
        for entry in self.rt.plan(self.tx, row.digest).net.keychain:
            if "data" not in entry:
                continue
            name = describe_secret({"keychain": entry["name"]})
            found = self.tx.credentials.get(credential_key(name, "execution", row.execution_id))
            if found is None:
                raise BadRequest(
                    f"{name} of execution {row.execution_id} was removed when that ended, and the fork would "
                    "need it: retry the execution instead."
                )
            self.tx.credentials.save(replace(found, place=new_id))

    def _fork_children(self, state: State, new_id: str, at: datetime) -> dict[str, str]:
        """The called executions that are waited for, as they were then: id there → id here."""
        made: dict[str, str] = {}
        for child in state.children.values():
            if child.id is None:
                continue
            row = moment.find(self.tx, child.id)
            events = [event for event in self.tx.events.read(child.id) if event.recorded_at <= at]
            while len(events) > 1 and isinstance(events[-1].fact, _END):
                events.pop()
            events = events[: moment_at(events, len(events))]
            caller = moment.requested(self.tx, child.id).parent
            assert caller is not None, "it was called"
            parent = replace(caller, execution_id=new_id)
            made[child.id] = self.fork(row, events, parent, {}).execution_id
        return made

    def _keep_loops(self, state: State, new_id: str) -> None:
        """Rows of loops that go on: their indices are handed out as a new generation."""
        for run in state.runs.values():
            loop = run.loop
            if loop is not None and not run.ended:
                self.tx.loops.save(
                    LoopRow(
                        new_id, run.id, loop.generation, loop.count, loop.count, open=True, items=loop.items
                    )
                )
