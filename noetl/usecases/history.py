"""Why an execution went as it did, and in what two of them differ. Each answer is read in one
transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from noetl.engine.evolve import replay
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.errors import NotFound
from noetl.facts.events import Event, StepScheduled
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.history import compare as history
from noetl.history.accounts import Explanation, OpenCommand, RunAccount, StepAccount
from noetl.history.attempts import attempt_view
from noetl.history.differences import Comparison
from noetl.history.evidence import CLOSE_UP, Evidence
from noetl.history.explain import explain as explain_log
from noetl.history.firings import account_of_run
from noetl.net.model import Net
from noetl.usecases import moment
from noetl.usecases.awaited import look_around
from noetl.usecases.holds import Gates
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


@dataclass(frozen=True, slots=True)
class StepLook:
    """One step from close by: why it is as it is, and what that was read from, the log up to that
    moment and what it had come to."""

    explanation: Explanation
    plan: Plan
    events: Sequence[Event]
    state: State

    @property
    def account(self) -> StepAccount:
        return self.explanation.steps[0]

    @property
    def runs(self) -> list[Event]:
        """The events with which its runs began."""
        begun = (one for one in self.events if isinstance(one.fact, StepScheduled))
        return [one for one in begun if one.draft.step == self.account.step]

    def find_run(self, scheduled: Event) -> RunAccount:
        """The account of the run that `scheduled` began, of which the explanation has the last
        ones."""
        for one in self.account.runs:
            if one.run == scheduled.draft.run_id:
                return one
        return account_of_run(Evidence(self.plan, self.events, {}, CLOSE_UP, known=self.state), scheduled)


def explain(
    rt: Runtime, execution_id: str, step: str | None = None, version: int | None = None
) -> Explanation:
    """Why each step ran, did not run or waits, or `step` alone, as of `version` or now.

    Raises NotFound, with the nearest name for a step, and BadRequest for a version beyond the head.
    """
    return _look(rt, execution_id, step, version).explanation


def look_at_step(rt: Runtime, execution_id: str, step: str, version: int | None = None) -> StepLook:
    """The same of one step, with the log that it was read from. Raises as `explain` does."""
    return _look(rt, execution_id, step, version)


def _look(rt: Runtime, execution_id: str, step: str | None, version: int | None) -> StepLook:
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        moment.check_version(row, version)
        plan = rt.plan(tx, row.digest)
        if step is not None and step not in plan.net.steps:
            raise _unknown(plan.net, execution_id, step)
        # One event more says what to call the moment before it.
        log = tx.events.read(execution_id, limit=None if version is None else version + 1)
        is_newest = version in (None, row.head_version)
        events, begin = log[:version], initial_state(execution_id)
        # What it has come to now is told by its newest snapshot, without all that led there.
        state = moment.look(tx, row).state() if is_newest else replay(begin, events)
        held = list(_held(tx, row, rt.clock())) if is_newest else []
        around = look_around(tx, state, rt.clock()) if is_newest else None
    found = replace(
        explain_log(plan, events, held, step, around, state),
        execution_id=row.execution_id,
        path=row.path,
        playbook_version=row.playbook_version,
        # What every answer calls the execution as of `version`.
        status=moment.Moment(row, begin, log).status(state),
    )
    return StepLook(found, plan, events, state)


def _unknown(net: Net, execution_id: str, step: str) -> NotFound:
    return NotFound(
        f"Execution {execution_id} of playbook {net.path!r} has no step {step[:80]!r}."
        f"{did_you_mean(step, net.steps)}"
    )


def _held(tx: Transaction, row: ExecutionRow, now: datetime) -> Iterator[OpenCommand]:
    gates = Gates.read(tx, now)
    for one in tx.commands.open_of(row.execution_id):
        owner = one.owner if one.state == "claimed" else None
        hold = None if owner else gates.find_hold(one, is_local=bool(row.shard))
        is_unserved = hold is not None and hold.cause == "unserved"
        until = one.lease_until if owner else None
        yield OpenCommand(one.command_id, one.sent_at is not None, owner, until, is_unserved)


def compare(rt: Runtime, execution_id: str, other: str, most: int = history.MOST) -> Comparison:
    """In what the execution `other` differs from `execution_id`, as both are now; at most `most`
    differences of each kind. Raises NotFound."""
    with rt.store.read() as tx:
        log, beside = (tx.events.read(moment.find(tx, one).execution_id) for one in (execution_id, other))
    return history.compare(log, beside, most)


def next_attempt(rt: Runtime, execution_id: str) -> JsonMap | None:
    """Whether an execution that has failed is retried by itself, as its report says it. Raises
    NotFound."""
    with rt.store.read() as tx:
        return attempt_view(moment.look(tx, moment.find(tx, execution_id)).state().next_attempt)
