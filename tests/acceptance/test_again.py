"""Executions that failed, or were cancelled in the middle, are run again while processes die with
SIGKILL: every effect happens once.

See `mortal` for how often they die.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from noetl.errors import Conflict
from noetl.facts.events import Event, IterationDone
from noetl.usecases import control, fork, inspect, retry
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.planning import FleetRequest
from noetl.usecases.fork import ForkRequest
from noetl.usecases.ports import ENDED
from noetl.usecases.retry import RetryRequest
from tests import services
from tests.httpd import Handler, Server, started, stopped
from tests.quantum.ionq import KEY, IonQServer, serving
from tests.waiting import GUARD_S, until

from .mortal import (
    KILLS,
    SEED,
    Barrier,
    ask,
    go_on,
    is_whole,
    kill_process,
    kill_worker,
    mortal_stack,
    processes,
)
from .playbooks import head
from .stack import Stack, kill_all

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

ITEMS = 24

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
        {passes};
        insert into paid (n) values (:n)
      params: {{n: "{{{{ n }}}}"}}
    next: total
  - step: total
    tool: {{kind: postgres, dsn: {dsn}, command: select count(*) as n from paid}}
"""


#: See `test_quantum_kills`.
LOADED = ["-I", "noetl.quantum.actions,noetl.quantum.backends.ionq,cirq_ionq"]


@pytest.fixture(scope="module")
def mortal(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("again")
    with mortal_stack(
        home, postgres_server, postgres_template, broker_of_module, "postgres,http,quantum,default", LOADED
    ) as running:
        yield running


class Place(Protocol):
    """Where tasks stand in the midst of their work while it is closed."""

    def close(self) -> None: ...
    def open(self) -> None: ...
    def arrived(self) -> int: ...


def _struck(
    place: Place, chance: random.Random, is_over: Callable[[], bool], strike: Callable[[], object]
) -> None:
    """Strikes where a task stands in the midst of its work, or wherever it may be."""
    if chance.random() < 0.5:
        strike()
        return
    place.close()
    try:
        until(lambda: place.arrived() or is_over(), "a task to stand there")
        strike()
    finally:
        place.open()


def _kill_until(stack: Stack, chance: random.Random, execution_id: str, place: Place) -> None:
    """SIGKILL to workers, and now and then to the scheduler, until the execution has ended, or a
    loop has come near to its fifth generation, which fails if its workers are lost as well."""
    generations = (
        "SELECT coalesce(max(generation), 0) FROM loop_run JOIN execution USING (execution_id)"
        " WHERE ended_at IS NULL"
    )

    def is_over() -> bool:
        return stack.row(execution_id).status in ENDED or stack.sql(generations)[0][0] >= 4

    for number in range(KILLS):
        if not go_on(stack, chance, is_over, most=8):
            return
        if number % 4 == 3:
            stack.restart("scheduler")
        elif is_whole(number):
            kill_worker(stack, chance)
        else:
            _struck(place, chance, is_over, lambda: kill_process(stack, chance))


@pytest.fixture
def barrier(dsn: str) -> Iterator[Barrier]:
    made = Barrier(dsn)
    yield made
    made.leave()


@pytest.mark.parametrize(
    "ending", ["failed", pytest.param("cancelled", marks=pytest.mark.full("kills once more"))]
)
def test_every_payment_is_made_once(mortal: Stack, dsn: str, barrier: Barrier, ending: str) -> None:
    chance = random.Random(SEED)
    fails = ending == "failed"
    ask(
        dsn,
        f"create table paid (n int); create table switch (broken bool); insert into switch values ({fails})",
    )
    if not fails:
        barrier.close()
    first = mortal.begin(PAYMENTS.format(items=ITEMS, dsn=dsn, passes=Barrier.PASS))
    if not fails:
        until(barrier.arrived, "a first payment to be under way")
        barrier.open()
        until(lambda: ask(dsn, "select 1 from paid limit 1"), "a first payment")
        # Calls are under way, of which nobody will know whether they had an effect.
        barrier.close()
        until(barrier.arrived, "a payment to be under way")
        kill_all(processes(mortal))
        barrier.open()
        control.cancel(mortal.rt, first, grace_s=1.0)
    assert mortal.wait([first])[first].status == ending
    before = len(ask(dsn, "select n from paid"))
    ask(dsn, "update switch set broken = false")
    # It does not end before a second one is asked for.
    barrier.close()
    second = retry.retry(mortal.rt, RetryRequest(first, confirmed=True)).execution_id
    with pytest.raises(Conflict, match="is being retried by"):
        retry.retry(mortal.rt, RetryRequest(first, confirmed=True))
    barrier.open()
    _kill_until(mortal, chance, second, barrier)
    row = mortal.wait([second])[second]
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
        {passes};
        insert into paid (n) values (:n)
      params: {{n: "{{{{ workload.n }}}}"}}
"""


def _kill_meanwhile(stack: Stack, chance: random.Random, operation_id: str, place: Place) -> None:
    """SIGKILL to the sweeper, who carries the operation on, and to workers, until it has ended."""

    def is_over() -> bool:
        return operations.operation(stack.rt, operation_id).row.ended_at is not None

    for number in range(KILLS):
        if not go_on(stack, chance, is_over, most=10):
            return
        if number % 2 == 0:
            stack.restart("sweeper")
        else:
            _struck(place, chance, is_over, lambda: kill_process(stack, chance))


def test_an_operation_whose_processes_die_retries_each_once(
    mortal: Stack, dsn: str, barrier: Barrier
) -> None:
    chance = random.Random(SEED)
    ask(dsn, "create table paid (n int); create table switch (broken bool); insert into switch values (true)")
    failed = [mortal.begin(PAYMENT.format(dsn=dsn, passes=Barrier.PASS), {"n": n}) for n in range(20)]
    assert {row.status for row in mortal.wait(failed).values()} == {"failed"}
    ask(dsn, "update switch set broken = false")
    how = RetryRequest("", confirmed=True)
    request = FleetRequest("path = 'tests/payment' and status = 'failed'", how, concurrency=4)
    name = operations.begin(mortal.rt, request).row.operation_id
    _kill_meanwhile(mortal, chance, name, barrier)
    until(lambda: operations.operation(mortal.rt, name).row.ended_at, "the end of the operation")
    assert operations.operation(mortal.rt, name).counts == {"completed": 20}, f"seed {SEED}"
    assert [n for (n,) in ask(dsn, "select n from paid order by n")] == list(range(20)), f"seed {SEED}"
    with mortal.rt.store.read() as tx:
        retries = [row for one in failed for row in tx.executions.find(source=one)]
    assert {row.operation_id for row in retries} == {name}
    assert sorted(row.source_id or "" for row in retries) == sorted(failed)


# --- forks ----------------------------------------------------------------------------------------

WORKED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: worked, path: tests/worked}}
workflow:
  - step: start
    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 4}}}}
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: |
        {passes};
        insert into worked (execution, n) values (:execution, :n)
      params: {{execution: "{{{{ execution_id }}}}", n: "{{{{ n }}}}"}}
"""


def test_an_execution_and_its_forks_do_each_their_own_once(mortal: Stack, dsn: str, barrier: Barrier) -> None:
    """It is forked at a moment when it ran, while workers die, and so is a fork of it: what was
    under way at that moment is done by both, what had ended by the one that is forked alone."""
    chance = random.Random(SEED)
    ask(dsn, "create table worked (execution text, n int)")
    first = mortal.begin(WORKED.format(items=ITEMS, dsn=dsn, passes=Barrier.PASS))
    family = [first]
    for part in (ITEMS // 4, ITEMS // 2):
        source = family[-1]
        ended = until(lambda one=source, part=part: _ends(mortal, one)[part:], "some of its items")
        kill_process(mortal, chance)
        at = ended[0].version
        family.append(fork.fork(mortal.rt, ForkRequest(source, at=at)).execution_id)
    _kill_until(mortal, chance, family[-1], barrier)
    rows = mortal.wait(family)
    assert [(row.status, row.error) for row in rows.values()] == [("completed", None)] * 3, f"seed {SEED}"
    for number, one in enumerate(family):
        copied = {event.draft.iteration for event in _ends(mortal, one) if event.draft.origin is not None}
        assert copied or number == 0
        worked = [n for (n,) in ask(dsn, f"select n from worked where execution = '{one}' order by n")]
        assert worked == sorted(set(range(ITEMS)) - copied), f"fork {number}; seed {SEED}"


def _ends(stack: Stack, execution_id: str) -> list[Event]:
    """Those of its items, in the order of the log."""
    return [one for one in inspect.events(stack.rt, execution_id) if isinstance(one.fact, IterationDone)]


# --- a payment service ----------------------------------------------------------------------------

CHARGES = (
    head("charges")
    + """
workload: {service: ""}
workflow:
  - step: start
    loop:
      in: "{{ range(30) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 4, policy: {failure: {mode: best_effort, tolerate: {count: 4}}}}
    tool:
      kind: http
      method: POST
      url: "{{ workload.service }}/charges"
      json: {n: "{{ n }}"}
      spec: {timeout: 600, policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: fail}}]}}
"""
)


class PaymentService:
    """Charges once for each idempotency key, as Stripe and others do; while it is `shaky`, every
    fourth answer gets lost behind the charge. While it is closed nobody is answered."""

    def __init__(self, server: Server) -> None:
        self.charged: dict[str, int] = {}
        self.shaky = True
        self.url = server.url
        self._answers = threading.Event()
        self._answers.set()
        self._unanswered = 0
        server.routes["/charges"] = self._charge

    def _charge(self, handler: Handler) -> None:
        number = json.loads(handler.body)["n"]
        known = self.charged.setdefault(handler.headers["idempotency-key"], number)
        if self.shaky and number % 4 == 0:
            handler.close_connection = True
            return
        if not self._answers.is_set():
            self._unanswered += 1
            self._answers.wait(GUARD_S)
        handler.json({"charged": known})

    def close(self) -> None:
        self._unanswered = 0
        self._answers.clear()

    def open(self) -> None:
        self._answers.set()

    def arrived(self) -> int:
        return self._unanswered


@pytest.fixture
def payments() -> Iterator[PaymentService]:
    server = started()
    yield PaymentService(server)
    stopped(server)


def test_a_payment_service_is_paid_once_for_each_item(mortal: Stack, payments: PaymentService) -> None:
    chance = random.Random(SEED)
    first = mortal.begin(CHARGES, {"service": payments.url})
    _kill_until(mortal, chance, first, payments)
    assert mortal.wait([first])[first].status == "failed"
    lost = [number for number in payments.charged.values() if number % 4 == 0]
    assert lost, "the answer got lost, and the charge did not"
    payments.shaky = False
    second = retry.retry(mortal.rt, RetryRequest(first, confirmed=True)).execution_id
    _kill_until(mortal, chance, second, payments)
    row = mortal.wait([second])[second]
    assert (row.status, row.error) == ("completed", None), f"seed {SEED}"
    assert sorted(payments.charged.values()) == list(range(30)), f"seed {SEED}"


# --- quantum jobs ---------------------------------------------------------------------------------

JOBS = (
    head("jobs")
    + """
workload: {host: "", key: "", service: ""}
workflow:
  - step: start
    tool:
      kind: quantum
      backend:
        provider: ionq
        host: "{{ workload.host }}"
        auth: {type: bearer, token: "{{ workload.key }}"}
        options: {settle_s: 1, requests_per_minute: 100000}
      qasm: |
        OPENQASM 3.0;
        include "stdgates.inc";
        input float t;
        qubit q;
        bit c;
        rx(t) q;
        c = measure q;
      params: {list: [{t: 0}, {t: pi}]}
      repetitions: 10
      polling: {every: 0.2, max: 0.5}
    next: tell
  - step: tell
    tool:
      kind: http
      method: POST
      url: "{{ workload.service }}/charges"
      json: {n: 0}
      spec: {policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: fail}}]}}
    set: {ctx.seen: "{{ start.points | map(attribute='histogram') | list }}"}
"""
)


@pytest.fixture
def ionq() -> Iterator[IonQServer]:
    with serving() as server:
        server.queue_s, server.run_s, server.lag_s = 0.4, 0.2, 0.2
        yield server


@pytest.mark.full("a second proof, of jobs")
def test_jobs_of_a_machine_are_paid_once(mortal: Stack, payments: PaymentService, ionq: IonQServer) -> None:
    """What comes behind them fails, and is run again."""
    chance = random.Random(SEED)
    first = mortal.begin(JOBS, {"host": ionq.url, "key": KEY, "service": payments.url})
    _kill_until(mortal, chance, first, payments)
    assert mortal.wait([first])[first].status == "failed"
    payments.shaky = False
    second = retry.retry(mortal.rt, RetryRequest(first, confirmed=True)).execution_id
    _kill_until(mortal, chance, second, payments)
    row = mortal.wait([second])[second]
    assert (row.status, row.error) == ("completed", None), f"seed {SEED}"
    assert mortal.report(second).ctx["seen"] == [{"0": 10}, {"1": 10}]
    assert len(ionq.paid()) == 2, f"seed {SEED}"
    assert list(payments.charged.values()) == [0], f"seed {SEED}"


@pytest.mark.full("kills once more, of jobs")
def test_jobs_that_were_under_way_when_their_execution_was_cancelled_are_paid_once(
    mortal: Stack, payments: PaymentService, ionq: IonQServer
) -> None:
    """Nobody knows whether they were sent: the retry looks for them under the same key."""
    payments.shaky, ionq.queue_s = False, 600.0
    first = mortal.begin(JOBS, {"host": ionq.url, "key": KEY, "service": payments.url})
    until(lambda: len(ionq.jobs) == 2, "both jobs")
    kill_all(processes(mortal))
    control.cancel(mortal.rt, first, grace_s=1.0)
    assert mortal.wait([first])[first].status == "cancelled"
    ionq.queue_s = 0.4
    second = retry.retry(mortal.rt, RetryRequest(first, confirmed=True)).execution_id
    row = mortal.wait([second])[second]
    assert (row.status, row.error) == ("completed", None)
    assert len(ionq.paid()) == 2
    assert list(payments.charged.values()) == [0]


# --- rows of a cursor -----------------------------------------------------------------------------

ROWS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: rows, path: tests/rows}}
workflow:
  - step: start
    loop:
      cursor:
        kind: postgres
        dsn: {dsn}
        exactly_once: true
        claim: |
          update jobs set claims = claims + 1
          where id in (select id from jobs where claims = 0 for update skip locked limit 2)
          returning id, pg_advisory_xact_lock_shared(7)::text
      iterator: row
      spec: {{mode: parallel, max_in_flight: 3}}
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: insert into worked (id) values (:id)
      params: {{id: "{{{{ row.id }}}}"}}
"""


@pytest.mark.full("kills once more, of a cursor")
def test_no_row_of_a_cursor_is_forgotten_and_none_worked_on_twice(
    mortal: Stack, dsn: str, barrier: Barrier
) -> None:
    """Its workers die and it is cancelled, again and again: of claims that were under way nobody
    has heard."""
    chance = random.Random(SEED)
    ask(dsn, "create table jobs (id int primary key, claims int not null default 0)")
    ask(dsn, "create table worked (id int)")
    ask(dsn, f"insert into jobs (id) select generate_series(1, {ITEMS})")
    last = mortal.begin(ROWS.format(dsn=dsn))
    for number in range(3):
        known = number * 4
        until(lambda least=known: len(ask(dsn, "select 1 from worked")) > least, "rows that are worked on")

        def is_over(one: str = last) -> bool:
            return mortal.row(one).status in ENDED

        _struck(barrier, chance, is_over, lambda: kill_all(processes(mortal)))
        if is_over():
            break
        control.cancel(mortal.rt, last, grace_s=0.5)
        assert mortal.wait([last])[last].status == "cancelled"
        last = retry.retry(mortal.rt, RetryRequest(last, confirmed=True)).execution_id
    row = mortal.wait([last])[last]
    assert (row.status, row.error) == ("completed", None), f"seed {SEED}"
    assert ask(dsn, "select count(*), count(distinct id) from worked") == [(ITEMS, ITEMS)], f"seed {SEED}"
    assert ask(dsn, "select count(*) from jobs where claims = 1") == [(ITEMS,)], f"seed {SEED}"
