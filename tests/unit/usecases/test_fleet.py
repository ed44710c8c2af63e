"""Many executions at once: what they failed of, the plan for all of them, and the operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from noetl.errors import BadRequest, Conflict, NotFound, Unavailable
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo, failed
from noetl.net.model import KindInfo
from noetl.pipeline.model import Call
from noetl.store import open_store
from noetl.testing import KINDS, Simulation
from noetl.usecases import catalog, control, inspect, retry
from noetl.usecases.fleet import operations, planning
from noetl.usecases.fleet.failures import failures
from noetl.usecases.fleet.operations import Operation
from noetl.usecases.fleet.planning import FleetPlan, FleetRequest
from noetl.usecases.fleet.progress import carry_on
from noetl.usecases.retry import RetryRequest
from noetl.usecases.start import StartRequest, start
from noetl.usecases.sweep import sweep

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: orders, path: tests/orders}
workload: {order: 1}
workflow:
  - step: start
    tool: {kind: http, url: prepare}
    next: load
  - step: load
    tool: {kind: http, url: load, input: {order: "{{ workload.order }}"}}
    next: end
  - step: end
    tool: {kind: noop}
"""
FAILED = "status = 'failed'"


class Fleet:
    """Executions whose calls of `load` fail as `broken` says of their orders."""

    def __init__(self, book: str = BOOK, **more: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.broken: dict[int, ErrorInfo] = {}
        self.sim = Simulation(book, {"http": self._call}, **more)
        self.rt = self.sim.rt

    def _call(self, call: Call) -> Any:
        url = str(call.config["url"])
        self.calls[url] += 1
        order = call.args.get("order")
        return failed(self.broken[order]) if order in self.broken else {"order": order}

    def fail(self, count: int, message: str = "order {} is refused", first: int = 1) -> list[str]:
        """Executions that failed, one for each order."""
        orders = range(first, first + count)
        self.broken |= {order: ErrorInfo("client_error", message.format(order)) for order in orders}
        ids = [start(self.rt, StartRequest(self.sim.path, payload={"order": order})) for order in orders]
        self.sim.settle()
        return [one.execution_id for one in ids]

    def plan(self, where: str = FAILED, **how: Any) -> FleetPlan:
        return planning.plan(self.rt, _request(where, **how))

    def begin(self, where: str = FAILED, concurrency: int = 10, limit: int = 1000, **how: Any) -> str:
        request = replace(_request(where, **how), concurrency=concurrency, limit=limit)
        return operations.begin(self.rt, request).row.operation_id

    def look(self, operation_id: str) -> Operation:
        return operations.operation(self.rt, operation_id)

    def sweep(self) -> int:
        """One sweep, and all that follows from it."""
        self.sim.now = self.sim.now.replace(second=(self.sim.now.second + 1) % 60)
        begun = sweep(self.rt).begun
        self.sim.settle()
        return begun

    def finish(self, operation_id: str) -> Mapping[str, int]:
        for _ in range(1000):
            if self.look(operation_id).row.ended_at is not None:
                return self.look(operation_id).counts
            self.sweep()
        raise AssertionError("the operation does not end")


def _request(where: str, **how: Any) -> FleetRequest:
    return FleetRequest(where, RetryRequest("", **how))


def _rows(fleet: Fleet, **which: Any) -> list[Any]:
    return inspect.executions(fleet.rt, limit=1000, **which)


# --- what they failed of --------------------------------------------------------------------------


def test_failures_of_one_fault_are_one_group_whatever_their_numbers() -> None:
    fleet = Fleet()
    first = fleet.fail(3)
    fleet.fail(1, "the warehouse is away", first=10)
    found = failures(fleet.rt)
    assert [(group.count, group.failure.shape) for group in found.groups] == [
        (3, "order <number> is refused"),
        (1, "the warehouse is away"),
    ]
    group = found.groups[0].as_json()
    assert group["newest"] == list(reversed(first))
    assert (group["kind"], group["step"], group["task"]) == ("client_error", "load", "task_0")
    assert (group["sample"], group["paths"]) == ("order 3 is refused", ["tests/orders"])
    assert group["first_at"] <= group["last_at"]
    assert (found.count, found.more) == (4, False)
    (by_fingerprint,) = failures(fleet.rt, f"fingerprint = '{group['fingerprint']}'").groups
    assert by_fingerprint.count == 3
    assert failures(fleet.rt, "error ~ 'warehouse'").count == 1
    assert failures(fleet.rt, "status = 'completed'").groups == ()


def test_a_failure_that_was_run_again_is_counted_as_such() -> None:
    fleet = Fleet()
    first, _ = fleet.fail(2)
    fleet.broken.clear()
    retry.retry(fleet.rt, RetryRequest(first))
    fleet.sim.settle()
    (group,) = failures(fleet.rt).groups
    assert (group.count, group.retried) == (2, 1)


def test_what_others_called_counts_with_its_callers_unless_it_is_asked_for() -> None:
    fleet = Fleet(
        BOOK.replace("tests/orders", "tests/caller").replace(
            '{kind: http, url: load, input: {order: "{{ workload.order }}"}}',
            '{kind: playbook, path: tests/orders, input: {order: "{{ workload.order }}"}}',
        )
    )
    catalog.register(fleet.rt, BOOK)
    fleet.fail(1)
    assert [group.paths for group in failures(fleet.rt).groups] == [["tests/caller"]]
    assert [group.paths for group in failures(fleet.rt, "parent is not null").groups] == [["tests/orders"]]
    assert (fleet.plan().executions, fleet.plan("parent is not null").executions) == (1, 1)


# --- the plan -------------------------------------------------------------------------------------


def test_the_plans_of_all_are_summed_up_by_fingerprint() -> None:
    fleet = Fleet()
    fleet.fail(3)
    fleet.fail(1, "the warehouse is away", first=10)
    planned = fleet.plan()
    assert (
        planned.executions,
        planned.retries,
        planned.confirm,
        planned.chosen.retried,
        planned.chosen.more,
    ) == (
        4,
        4,
        0,
        0,
        False,
    )
    assert [(group.executions, group.runs) for group in planned.groups] == [
        (3, {"reuse": 3, "rerun": 3, "new": 3}),
        (1, {"reuse": 1, "rerun": 1, "new": 1}),
    ]
    assert len(_rows(fleet)) == 4


def test_what_cannot_be_retried_is_counted_by_its_reason() -> None:
    fleet = Fleet()
    ids = fleet.fail(2)
    running = fleet.sim.start()
    control.pause(fleet.rt, running)
    catalog.register(fleet.rt, BOOK.replace("tests/orders", "tests/others"))
    (group, others) = fleet.plan("status != 'completed'", path="tests/others", version=1).groups
    assert (group.executions, group.retries, others.retries) == (2, 0, 0)
    assert sum(group.refused.values()) == 2
    (reason,) = group.refused
    assert reason.startswith("Execution <number> ran playbook <quoted>, and <quoted> is another one")
    assert next(iter(others.refused)).startswith("Execution <number> is")
    assert group.newest == list(reversed(ids))


def test_one_that_was_run_again_is_left_out_and_its_retry_stands_for_it() -> None:
    fleet = Fleet()
    first, second, third = fleet.fail(3)
    again = retry.retry(fleet.rt, RetryRequest(first)).execution_id
    fleet.sim.settle()
    cancelled = retry.retry(fleet.rt, RetryRequest(second)).execution_id
    control.cancel(fleet.rt, cancelled)
    fleet.sim.settle()
    planned = fleet.plan()
    assert planned.chosen.retried == 1
    assert sorted(planned.groups[0].newest) == sorted([second, third, again])


def test_the_newest_are_chosen_and_the_plan_says_that_there_are_more() -> None:
    fleet = Fleet()
    ids = fleet.fail(4)
    planned = planning.plan(fleet.rt, replace(_request(FAILED), limit=3))
    assert (planned.executions, planned.chosen.more) == (3, True)
    assert planned.groups[0].newest == list(reversed(ids[1:]))


def test_a_retry_that_would_come_to_nothing_is_refused_in_the_plan_and_in_the_operation() -> None:
    fleet = Fleet()
    fleet.fail(1)
    catalog.register(fleet.rt, BOOK.replace("order: 1", "order: 1, share: '{{ 1 / 0 }}'"))
    (group,) = fleet.plan(version=0).groups
    ((reason, count),) = group.refused.items()
    assert (group.retries, count) == (0, 1)
    assert reason.startswith("The retry would end before its first step: workload")
    operation = fleet.begin(version=0)
    assert fleet.finish(operation) == {"refused": 1}
    assert operations.items(fleet.rt, operation)[0].reason.startswith("The retry would end")


# --- the operation --------------------------------------------------------------------------------


def test_an_operation_retries_all_with_at_most_so_many_at_once() -> None:
    fleet = Fleet()
    ids = fleet.fail(7)
    fleet.broken.clear()
    fleet.calls.clear()
    operation = fleet.begin(concurrency=3)
    assert fleet.look(operation).counts == {"pending": 7}
    assert sweep(fleet.rt).begun == 3
    assert fleet.look(operation).counts == {"pending": 4, "started": 3}
    # None has ended, so none is begun.
    assert sweep(fleet.rt).begun == 0
    fleet.sim.settle()
    assert fleet.finish(operation) == {"completed": 7}
    assert fleet.calls == {"load": 7}
    found = fleet.look(operation).row
    assert (found.status, found.chosen_by) == ("completed", FAILED)
    items = operations.items(fleet.rt, operation)
    assert [item.execution_id for item in items] == ids
    retries = _rows(fleet, where=f"operation = {operation}")
    assert sorted(row.execution_id for row in retries) == sorted(item.begun_id for item in items)
    assert {row.operation_id for row in retries} == {operation}
    assert {row.source_id for row in retries} == set(ids)


def test_its_executions_are_fixed_when_it_begins() -> None:
    fleet = Fleet()
    ids = fleet.fail(2)
    operation = fleet.begin(concurrency=1)
    later = fleet.fail(1, first=9)
    fleet.broken.clear()
    fleet.finish(operation)
    assert [item.execution_id for item in operations.items(fleet.rt, operation)] == ids
    assert fleet.plan().groups[0].newest == later


def test_what_fails_again_is_counted_and_is_what_the_next_operation_retries() -> None:
    fleet = Fleet()
    fleet.fail(3)
    del fleet.broken[1]
    first = fleet.begin()
    assert fleet.finish(first) == {"completed": 1, "failed": 2}
    fleet.broken.clear()
    assert fleet.finish(fleet.begin()) == {"completed": 2}
    with pytest.raises(BadRequest, match=r"No execution is to be retried where .*5 were run again already"):
        fleet.begin()


def test_a_fixed_version_is_run_by_all() -> None:
    fleet = Fleet()
    fleet.fail(2)
    version = catalog.register(fleet.rt, BOOK.replace("url: load", "url: other")).version
    fleet.broken.clear()
    fleet.calls.clear()
    assert fleet.finish(fleet.begin(version=version, path="tests/orders")) == {"completed": 2}
    assert fleet.calls == {"other": 2}
    assert {row.playbook_version for row in _rows(fleet, status="completed")} == {version}


def test_what_each_is_given_lies_over_what_it_had() -> None:
    fleet = Fleet()
    fleet.fail(2)
    fleet.finish(fleet.begin(overrides={"order": 50}))
    assert [inspect.report(fleet.rt, row.execution_id).steps["load"]["result"] for row in _rows(fleet)][
        :2
    ] == [{"order": 50}] * 2


def test_a_cancelled_operation_begins_nothing_more_and_what_it_began_goes_on() -> None:
    fleet = Fleet()
    fleet.fail(4)
    fleet.broken.clear()
    operation = fleet.begin(concurrency=1)
    assert sweep(fleet.rt).begun == 1
    cancelled = operations.cancel(fleet.rt, operation, "enough")
    assert (cancelled.row.status, cancelled.counts) == ("cancelling", {"started": 1, "dropped": 3})
    fleet.sim.settle()
    assert fleet.finish(operation) == {"completed": 1, "dropped": 3}
    found = fleet.look(operation).row
    assert (found.status, found.reason) == ("cancelled", "enough")
    with pytest.raises(Conflict, match="nothing left to steer"):
        operations.cancel(fleet.rt, operation)
    # What was dropped is there for another one.
    assert fleet.finish(fleet.begin()) == {"completed": 3}


def test_a_paused_operation_begins_nothing_until_it_is_resumed() -> None:
    fleet = Fleet()
    fleet.fail(3)
    fleet.broken.clear()
    operation = fleet.begin(concurrency=1)
    assert fleet.sweep() == 1
    paused = operations.pause(fleet.rt, operation, "lunch")
    assert (paused.row.status, paused.row.reason) == ("paused", "lunch")
    assert [fleet.sweep(), fleet.sweep()] == [0, 0]
    assert fleet.look(operation).counts == {"completed": 1, "pending": 2}
    assert operations.resume(fleet.rt, operation).row.status == "running"
    assert fleet.finish(operation) == {"completed": 3}
    for change in (operations.pause, operations.resume):
        with pytest.raises(Conflict, match="is completed: there is nothing left to steer"):
            change(fleet.rt, operation)


def test_two_operations_on_the_same_executions_retry_each_once() -> None:
    fleet = Fleet()
    fleet.fail(4)
    fleet.broken.clear()
    fleet.calls.clear()
    one, other = fleet.begin(concurrency=2), fleet.begin(concurrency=2)
    counts = [fleet.finish(one), fleet.finish(other)]
    assert counts[0] == {"completed": 2, "refused": 2}
    assert counts[1] == {"completed": 2, "refused": 2}
    assert fleet.calls["load"] == 4
    reasons = [item.reason for item in operations.items(fleet.rt, one, state="refused")]
    assert all("was retried by" in reason and "meanwhile" in reason for reason in reasons)


def test_another_process_goes_on_where_one_was_killed() -> None:
    class Killed(BaseException):
        pass

    store = open_store("memory://")
    fleet = Fleet(store=store)
    fleet.fail(6)
    fleet.broken.clear()
    operation = fleet.begin(concurrency=4)
    drawn = fleet.rt.entropy
    left = iter(range(2))

    def die() -> int:
        if next(left, None) is None:
            raise Killed
        return drawn()

    dying = replace(fleet.rt, entropy=die)
    with pytest.raises(Killed):
        carry_on(dying, [operation])
    # What it had begun is known, and what it was about to begin is not.
    assert fleet.look(operation).counts == {"pending": 4, "started": 2}
    assert len(_rows(fleet, where=f"operation = {operation}")) == 2
    # Nobody woke the scheduler; the sweeper of another process does.
    fleet.sim.mailbox.messages.clear()
    assert fleet.finish(operation) == {"completed": 6}
    assert len(_rows(fleet, where=f"operation = {operation}")) == 6


def test_an_operation_waits_while_the_broker_is_away() -> None:
    fleet = Fleet()
    fleet.fail(1)
    fleet.broken.clear()
    operation = fleet.begin()
    fleet.sim.mailbox.away = True
    assert sweep(fleet.rt).begun == 1
    fleet.sim.mailbox.away = False
    assert fleet.finish(operation) == {"completed": 1}


def test_a_database_that_is_away_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    fleet.fail(1)
    operation = fleet.begin()

    def gone(*_: Any) -> Any:
        raise Unavailable("gone")

    monkeypatch.setattr("noetl.usecases.fleet.progress.write_retry", gone)
    with pytest.raises(Unavailable):
        carry_on(fleet.rt, [operation])
    assert fleet.look(operation).counts == {"pending": 1}


def test_a_retry_of_many_has_the_business_key_of_what_it_retries() -> None:
    fleet = Fleet(BOOK.replace("workflow:", "key: order-{{ workload.order }}\nworkflow:", 1))
    first, second = fleet.fail(2)
    # Another execution is open under the key of the second one.
    fleet.broken.clear()
    taken = fleet.sim.start({"order": 2})
    operation = fleet.begin()
    sweep(fleet.rt)
    fleet.sim.settle()
    counts = fleet.finish(operation)
    assert counts == {"completed": 1, "refused": 1}
    (refused,) = operations.items(fleet.rt, operation, state="refused")
    assert (refused.execution_id, taken in refused.reason) == (second, True)
    (retried,) = _rows(fleet, where=f"operation = {operation}")
    assert (retried.source_id, retried.key) == (first, "order-1")


def test_a_retry_of_many_calls_off_the_next_attempt_of_the_policy() -> None:
    policy = "executor: {spec: {policy: {retry: {attempts: 3, delay: 10m}}}}\nworkflow:"
    fleet = Fleet(BOOK.replace("workflow:", policy, 1))
    (first,) = fleet.fail(1)
    fleet.broken.clear()
    assert fleet.finish(fleet.begin()) == {"completed": 1}
    fleet.sim.pass_time(3600)
    fleet.sim.settle()
    assert len(_rows(fleet, source=first)) == 1


def test_a_defect_with_one_execution_keeps_no_other_from_being_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = Fleet()
    first, _ = fleet.fail(2)
    planned_well = retry.plan_within

    def plan(rt: Any, tx: Any, request: RetryRequest, new_id: str) -> Any:
        if request.execution_id == first:
            raise KeyError("start")
        return planned_well(rt, tx, request, new_id)

    monkeypatch.setattr("noetl.usecases.retry.plan_within", plan)
    (group,) = fleet.plan().groups
    assert (group.retries, sum(group.refused.values())) == (1, 1)
    fleet.broken.clear()
    operation = fleet.begin()
    assert fleet.finish(operation) == {"completed": 1, "refused": 1}
    (refused,) = operations.items(fleet.rt, operation, state="refused")
    assert refused.reason.startswith("NoETL has a defect here: KeyError: 'start'")
    assert f"Execution {first} cannot be retried" in caplog.text


# --- effects and secrets --------------------------------------------------------------------------

EXTERNAL = {**KINDS, "http": KindInfo("http", queue="http", effects="external")}


def test_effects_that_would_be_had_again_are_planned_and_have_to_be_confirmed() -> None:
    fleet = Fleet(kinds=EXTERNAL)
    fleet.fail(2)
    (group,) = fleet.plan(from_step="start").groups
    assert (group.confirm, group.repeats) == (2, {"task_0 of start": 2})
    with pytest.raises(Conflict, match=r"Retries of 2 executions make calls again .* task_0 of start"):
        fleet.begin(from_step="start")
    assert operations.operations(fleet.rt) == []
    fleet.broken.clear()
    assert fleet.finish(fleet.begin(from_step="start", confirmed=True)) == {"completed": 2}


def test_a_net_of_a_refused_retry_is_stored_with_the_next_one() -> None:
    fleet = Fleet(kinds=EXTERNAL)
    fleet.fail(1)
    with fleet.rt.store.begin() as tx:
        known = tx.playbooks.get("tests/orders")
        assert known is not None
        # As another release registered it, whose compiler made another net of it.
        content = BOOK.replace("url: load", "url: other")
        sha256 = catalog.sha256_of(content)
        tx.playbooks.add(replace(known, version=2, content=content, content_sha256=sha256, digest="other"))
    (failed_one,) = _rows(fleet)
    with pytest.raises(Conflict, match="may have had effects"):
        retry.retry(fleet.rt, RetryRequest(failed_one.execution_id, "start", version=2))
    fleet.broken.clear()
    operation = fleet.begin(from_step="start", version=2, confirmed=True)
    sweep(fleet.rt)
    # Another process has nothing in memory.
    fleet.rt.plans.clear()
    assert fleet.finish(operation) == {"completed": 1}


def test_a_secret_is_not_kept_with_an_operation() -> None:
    book = BOOK.replace("workload: {order: 1}", "inputs: {order: {type: integer}, pin: {secret: true}}")
    fleet = Fleet(book.replace("order: {type: integer}", "order: {type: integer, default: 1}"))
    fleet.broken = {1: ErrorInfo("client_error", "no")}
    fleet.sim.start({"pin": "1234"})
    fleet.sim.settle()
    given: dict[str, Json] = {"pin": "9999"}
    for how in ({"payload": given}, {"overrides": given}):
        for ask in (fleet.plan, fleet.begin):
            with pytest.raises(BadRequest, match="pin is a secret of playbook 'tests/orders'"):
                ask(**how)
    assert fleet.plan().retries == 1


def test_what_is_not_there_is_answered() -> None:
    fleet = Fleet()
    for ask in (operations.operation, operations.cancel, operations.items):
        for name in ("12", "x", "9" * 30):
            with pytest.raises(NotFound, match=f"There is no operation '{name}'"):
                ask(fleet.rt, name)
    with pytest.raises(BadRequest, match="no operation id"):
        operations.operations(fleet.rt, before="x")
    with pytest.raises(BadRequest, match="No execution is to be retried where"):
        fleet.begin()
    with pytest.raises(BadRequest, match="there is no field"):
        fleet.begin("statsu = 'x'")
