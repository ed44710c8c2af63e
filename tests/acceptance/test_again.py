"""Executions that failed, or were cancelled in the middle, are run again while processes die with
SIGKILL: every effect happens once.

See `mortal` for how often they die.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from noetl.errors import Conflict
from noetl.usecases import control, retry
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.planning import FleetRequest
from noetl.usecases.ports import ENDED
from noetl.usecases.retry import RetryRequest
from tests import services

from .mortal import KILLS, SEED, ask, is_whole, kill_process, kill_worker, mortal_stack, processes
from .stack import Stack, eventually, kill_all

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

ITEMS = 40

PAYMENTS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: payments, path: tests/payments}}
workflow:
  - step: start
    loop:
      in: "{{{{ range({items}) | list }}}}"
      iterator: n
      spec: {{mode: parallel, max_in_flight: 4, policy: {{failure: {{mode: best_effort, tolerate: {{count: 0}}}}}}}}
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: |
        select 1 / (case when broken and :n % 7 = 0 then 0 else 1 end) from switch;
        select pg_sleep({pause});
        insert into paid (n) values (:n)
      params: {{n: "{{{{ n }}}}"}}
    next: total
  - step: total
    tool: {{kind: postgres, dsn: {dsn}, command: select count(*) as n from paid}}
"""


@pytest.fixture(scope="module")
def mortal(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("again")
    with mortal_stack(
        home, postgres_server, postgres_template, broker_of_module, "postgres,default"
    ) as running:
        yield running


def _kill_until(stack: Stack, chance: random.Random, execution_id: str) -> None:
    """SIGKILL to workers, and now and then to the scheduler, until the execution has ended."""
    for number in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.4))
        if stack.row(execution_id).status in ENDED:
            return
        if number % 4 == 3:
            stack.kill("scheduler")
            stack.restart("scheduler")
        elif is_whole(number):
            kill_worker(stack, chance)
        else:
            kill_process(stack, chance)


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
def test_every_payment_is_made_once(mortal: Stack, dsn: str, ending: str) -> None:
    chance = random.Random(SEED)
    ask(dsn, "create table paid (n int); create table switch (broken bool); insert into switch values (true)")
    pause = 0.02 if ending == "failed" else 0.3
    first = mortal.begin(PAYMENTS.format(items=ITEMS, dsn=dsn, pause=pause))
    if ending == "cancelled":
        ask(dsn, "update switch set broken = false")
        eventually(lambda: ask(dsn, "select 1 from paid limit 1"), "a first payment")
        # Calls are under way, of which nobody will know whether they had an effect.
        kill_all(processes(mortal))
        control.cancel(mortal.rt, first, grace_s=1.0)
    assert mortal.wait([first])[first].status == ending
    before = len(ask(dsn, "select n from paid"))
    ask(dsn, "update switch set broken = false")
    second = retry.retry(mortal.rt, RetryRequest(first, confirmed=True)).execution_id
    with pytest.raises(Conflict, match="is being retried by"):
        retry.retry(mortal.rt, RetryRequest(first, confirmed=True))
    _kill_until(mortal, chance, second)
    row = mortal.wait([second], 120.0)[second]
    assert (row.status, row.error) == ("completed", None), f"seed {SEED}"
    paid = [n for (n,) in ask(dsn, "select n from paid order by n")]
    assert paid == list(range(ITEMS)), f"{before} were paid before; seed {SEED}"
    report = mortal.report(second)
    assert report.steps["start"]["result"]["stats"] == {"total": ITEMS, "completed": ITEMS, "failed": 0}


PAYMENT = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: payment, path: tests/payment}}
workload: {{n: 0}}
workflow:
  - step: start
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: |
        select 1 / (case when broken then 0 else 1 end) from switch;
        select pg_sleep(0.2);
        insert into paid (n) values (:n)
      params: {{n: "{{{{ workload.n }}}}"}}
"""


def _kill_meanwhile(stack: Stack, chance: random.Random, operation_id: str) -> None:
    """SIGKILL to the sweeper, who carries the operation on, and to workers, until it has ended."""
    for number in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.5))
        if operations.operation(stack.rt, operation_id).row.ended_at is not None:
            return
        if number % 2 == 0:
            stack.restart("sweeper")
        else:
            kill_process(stack, chance)


def test_an_operation_whose_processes_die_retries_each_once(mortal: Stack, dsn: str) -> None:
    chance = random.Random(SEED)
    ask(dsn, "create table paid (n int); create table switch (broken bool); insert into switch values (true)")
    failed = [mortal.begin(PAYMENT.format(dsn=dsn), {"n": n}) for n in range(20)]
    assert {row.status for row in mortal.wait(failed).values()} == {"failed"}
    ask(dsn, "update switch set broken = false")
    how = RetryRequest("", confirmed=True)
    request = FleetRequest("path = 'tests/payment' and status = 'failed'", how, concurrency=4)
    name = operations.begin(mortal.rt, request).row.operation_id
    _kill_meanwhile(mortal, chance, name)
    eventually(lambda: operations.operation(mortal.rt, name).row.ended_at, "the end of the operation", 120.0)
    assert operations.operation(mortal.rt, name).counts == {"completed": 20}, f"seed {SEED}"
    assert [n for (n,) in ask(dsn, "select n from paid order by n")] == list(range(20)), f"seed {SEED}"
    with mortal.rt.store.read() as tx:
        retries = [row for one in failed for row in tx.executions.find(source=one)]
    assert {row.operation_id for row in retries} == {name}
    assert sorted(row.source_id or "" for row in retries) == sorted(failed)
