"""What a retry of many executions would do: the plans of all of them, summed up by fingerprint."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.errors import BadRequest, NoetlError, NotFound, Unavailable, tell_cause
from noetl.facts.failures import FailurePattern, failure_of, shape_of
from noetl.facts.json import Json
from noetl.net.secret_inputs import find_open_secrets
from noetl.usecases import catalog, retry
from noetl.usecases.fleet.choosing import Chosen, choose
from noetl.usecases.fleet.failures import SHOWN, describe
from noetl.usecases.ports import Condition, ExecutionRow, PlaybookRow
from noetl.usecases.ports.conditions import AllOf
from noetl.usecases.retry import PlannedRetry, RetryRequest
from noetl.usecases.runtime import Runtime
from noetl.usecases.where import parse_where

log = logging.getLogger(__name__)

#: How many are under way at once, and chosen, unless it is said, and at most.
CONCURRENCY: Final = 10
MOST_AT_ONCE: Final = 100
LIMIT: Final = 1_000
MOST_CHOSEN: Final = 10_000
#: What stands for executions that did not fail.
_NO_FAILURE: Final = FailurePattern("", "", "", "", "no failure")


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """Which executions to run again, and how: `how` is the request for each, without its id. At
    most `concurrency` are open at once, and at most `limit` are chosen, the newest ones. `among`
    means those that the caller may run again; None: all. `reason` is why, in words for people."""

    where: str
    how: RetryRequest
    concurrency: int = CONCURRENCY
    limit: int = LIMIT
    among: Condition | None = None
    reason: str = ""


@dataclass(slots=True)
class PlannedGroup:
    """The executions that failed of the same. Of those that can be retried: `runs` counts step runs
    by what becomes of them, `iterations` those of loops, `repeats` by the call in how many
    executions it may have its effects again, `confirm` the executions of which that has to be said.
    `refused` counts the others by the reason."""

    failure: FailurePattern
    sample: str = ""
    executions: int = 0
    retries: int = 0
    runs: Counter[str] = field(default_factory=Counter)
    iterations: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    confirm: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    newest: list[str] = field(default_factory=list)

    def add(self, row: ExecutionRow, planned: PlannedRetry | str) -> None:
        """Adds what a retry would do, or why there cannot be one."""
        self.executions += 1
        self.newest = [row.execution_id, *self.newest][:SHOWN]
        if isinstance(planned, str):
            self.refused[shape_of(planned)] += 1
            return
        self.retries += 1
        self.confirm += bool(planned.plan.repeats)
        for run in planned.plan.runs:
            self.runs[run.verdict] += 1
            self.iterations.update(run.iterations or {})
        self.repeats.update({f"{name} of {run.step}" for run in planned.plan.repeats for name in run.repeats})

    def as_json(self) -> dict[str, Json]:
        return {
            **describe(self.failure),
            "sample": self.sample,
            "executions": self.executions,
            "retries": self.retries,
            "runs": dict(self.runs),
            "iterations": dict(self.iterations),
            "repeats": dict(self.repeats),
            "confirm": self.confirm,
            "refused": dict(self.refused),
            "newest": list(self.newest),
        }


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """All groups, the largest first, of what was chosen."""

    groups: tuple[PlannedGroup, ...]
    chosen: Chosen

    @property
    def executions(self) -> int:
        return sum(group.executions for group in self.groups)

    @property
    def retries(self) -> int:
        return sum(group.retries for group in self.groups)

    @property
    def confirm(self) -> int:
        return sum(group.confirm for group in self.groups)

    def as_json(self) -> dict[str, Json]:
        """`{executions, retries, confirm, retried, more, groups: [{fingerprint, kind, type, step,
        task, shape, sample, executions, retries, runs, iterations, repeats, confirm, refused,
        newest}]}`."""
        return {
            "executions": self.executions,
            "retries": self.retries,
            "confirm": self.confirm,
            "retried": self.chosen.retried,
            "more": self.chosen.more,
            "groups": [group.as_json() for group in self.groups],
        }


def plan(rt: Runtime, request: FleetRequest) -> FleetPlan:
    """What the retries would do; nothing is started. Raises BadRequest."""
    return plan_chosen(rt, request, choose_for(rt, request))


def choose_for(rt: Runtime, request: FleetRequest) -> Chosen:
    """The executions that the request means. Raises BadRequest, also where what they would be given
    has secrets in it, which an operation does not keep."""
    condition = parse_where(request.where, rt.clock())
    if request.among is not None:
        condition = AllOf((condition, request.among))
    with rt.store.read() as tx:
        chosen = choose(tx, condition, request.limit)
    if request.how.payload or request.how.overrides:
        _refuse_secrets(rt, request.how, chosen)
    return chosen


def plan_chosen(rt: Runtime, request: FleetRequest, chosen: Chosen) -> FleetPlan:
    """The same for executions that are chosen."""
    groups: dict[FailurePattern, PlannedGroup] = {}
    for row in chosen.rows:
        failure = _NO_FAILURE if row.error is None else failure_of(row.error)
        group = groups.setdefault(failure, PlannedGroup(failure))
        group.sample = "" if row.error is None else str(row.error.get("message") or "")
        group.add(row, _plan_one(rt, replace(request.how, execution_id=row.execution_id)))
    largest = sorted(groups.values(), key=lambda group: (-group.executions, group.failure.fingerprint))
    return FleetPlan(tuple(largest), chosen)


def playbooks_of(rt: Runtime, how: RetryRequest, chosen: Chosen) -> list[PlaybookRow]:
    """The versions that they would run; those that cannot be found are left out."""
    one_of_each = {(row.path, row.playbook_version): row.execution_id for row in chosen.rows}
    found: dict[tuple[str, int], PlaybookRow] = {}
    for execution_id in one_of_each.values():
        try:
            row = retry.playbook_of(rt, replace(how, execution_id=execution_id))
        except (BadRequest, NotFound):
            continue
        found[row.path, row.version] = row
    return list(found.values())


def _plan_one(rt: Runtime, wanted: RetryRequest) -> PlannedRetry | str:
    try:
        planned = retry.plan(rt, wanted)
    except Unavailable:
        raise
    except NoetlError as error:
        return error.message
    except Exception as error:
        # One execution that cannot be read is no reason to plan none.
        log.exception("Execution %s cannot be retried", wanted.execution_id)
        return tell_cause(error)
    failure = planned.plan.error
    return planned if failure is None else f"The retry would end before its first step: {failure.message}"


def _refuse_secrets(rt: Runtime, how: RetryRequest, chosen: Chosen) -> None:
    for playbook in playbooks_of(rt, how, chosen):
        inputs = catalog.inputs_of(rt, playbook)
        for given in (how.payload, how.overrides):
            if found := find_open_secrets(inputs, given):
                raise BadRequest(
                    f"{found[0]} is a secret of playbook {playbook.path!r}, which an operation does not "
                    "keep: retry the executions that need another one by themselves."
                )
