"""Workers die with SIGKILL at random points of a loop of inserts, of a cursor, and of a transfer:
every row arrives once.

See `mortal` for how often they die.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Iterator

import pytest

from noetl.usecases.ports import ENDED
from tests import services
from tests.waiting import until

from .mortal import (
    KILLS,
    SEED,
    ask,
    go_on,
    is_whole,
    kept_open,
    kill_process,
    kill_worker,
    mortal_stack,
    processes,
    progress,
)
from .stack import Stack, kill_all

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

ITEMS = 20
#: Executions that run at any time while workers die.
OPEN = 4
#: What is transferred, and how many of it at a time.
ROWS, CHUNK = 20_000, 500

INSERTS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: inserts, path: tests/inserts}}
workflow:
  - step: start
    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 4}}}}
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: insert into inserted (execution, n) values (:execution, :n)
      params: {{execution: "{{{{ execution_id }}}}", n: "{{{{ n }}}}"}}
"""

CURSOR = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: drain, path: tests/drain}}
workflow:
  - step: start
    loop:
      cursor:
        kind: postgres
        dsn: {dsn}
        exactly_once: true
        claim: |
          update jobs set claims = claims + 1
          where id in (select id from jobs where claims = 0 for update skip locked limit :max_rows) returning id
      iterator: row
      spec: {{mode: parallel, max_in_flight: 4, frame: {{max_rows: 3}}}}
    tool:
      kind: postgres
      dsn: {dsn}
      exactly_once: true
      command: insert into worked (id) values (:id)
      params: {{id: "{{{{ row.id }}}}"}}
"""

TRANSFER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: transfer, path: tests/transfer}}
workflow:
  - step: start
    tool:
      kind: transfer
      source: {{kind: postgres, auth: {{dsn: "{dsn}"}}, query: "select n, 'row ' || n as name from generate_series(1, {rows}) as n"}}
      target: {{kind: postgres, auth: {{dsn: "{dsn}"}}, table: moved, create: true}}
      chunk_rows: {chunk}
"""


@pytest.fixture(scope="module")
def mortal(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_module: str,
) -> Iterator[Stack]:
    home = tmp_path_factory.mktemp("mortal")
    queues = "postgres,transfer,default"
    with mortal_stack(home, postgres_server, postgres_template, broker_of_module, queues) as running:
        yield running


def moved(dsn: str) -> int:
    """The rows that a transfer has brought so far."""
    return int(str(ask(dsn, "select count(*) from moved")[0][0]))


def kill_one(stack: Stack, chance: random.Random, begun: list[str], number: int) -> None:
    """SIGKILL at a random point to a process that runs tasks, and now and then to a worker as a
    whole."""
    go_on(stack, chance, lambda: all(stack.row(one).status in ENDED for one in begun))
    if is_whole(number):
        kill_worker(stack, chance)
    else:
        kill_process(stack, chance)


@pytest.mark.timeout(900 + 10 * KILLS)
def test_a_loop_of_inserts_whose_workers_are_killed_inserts_every_row_once(mortal: Stack, dsn: str) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    chance = random.Random(SEED)
    ask(dsn, "create table inserted (execution text, n int)")
    playbook = textwrap.dedent(INSERTS).format(items=ITEMS, dsn=dsn)
    begun: list[str] = []
    for number in range(KILLS):
        progress(number, 20)
        kept_open(mortal, begun, OPEN, lambda: mortal.begin(playbook, {}))
        kill_one(mortal, chance, begun, number)
    mortal.wait(begun)

    statuses = {mortal.row(one).status for one in begun}
    [(rows, different)] = ask(dsn, "select count(*), count(distinct (execution, n)) from inserted")
    [(deliveries,)] = ask(dsn, "select count(*) from noetl_ledger")
    print(
        f"{KILLS} kills, {len(begun)} executions: {rows} rows, {different} different, {deliveries} "
        "ledger entries"
    )
    assert statuses == {"completed"}
    assert (rows, different) == (ITEMS * len(begun), ITEMS * len(begun))


@pytest.mark.full("kills once more, of a cursor")
@pytest.mark.timeout(900 + 10 * KILLS)
def test_a_cursor_whose_workers_are_killed_forgets_no_row(mortal: Stack, dsn: str) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    chance = random.Random(SEED)
    ask(dsn, "create table jobs (id int primary key, claims int not null default 0)")
    ask(dsn, "create table worked (id int)")
    playbook = textwrap.dedent(CURSOR).format(dsn=dsn)
    begun: list[str] = []
    for number in range(KILLS):
        ask(
            dsn,
            f"insert into jobs (id) select generate_series({number * ITEMS}, {number * ITEMS + ITEMS - 1})",
        )
        if not any(mortal.row(one).status not in ENDED for one in begun):
            begun.append(mortal.begin(playbook, {}))
        kill_one(mortal, chance, begun, number)
    mortal.wait(begun)
    begun.append(mortal.begin(playbook, {}))
    mortal.wait(begun)

    statuses = {mortal.row(one).status for one in begun}
    totals = sum(mortal.report(one).as_json()["result"]["stats"]["completed"] for one in begun)
    [(rows, different)] = ask(dsn, "select count(*), count(distinct id) from worked")
    [(claimed_once,)] = ask(dsn, "select count(*) from jobs where claims = 1")
    print(f"{KILLS} kills, {len(begun)} executions: {rows} rows, {different} different")
    assert statuses == {"completed"}
    assert (rows, different, totals, claimed_once) == (ITEMS * KILLS,) * 4


#: Rows behind those that the gate lets through wait at it.
GATE = """
create table moved (n bigint, name text);
create table gate (n bigint);
insert into gate values (0);
create function wait_at_gate() returns trigger language plpgsql as $$
begin
    while new.n > (select n from gate) loop perform pg_sleep(0.01); end loop;
    return new;
end $$;
create trigger gate before insert on moved for each row execute function wait_at_gate();
"""
#: What waited for a worker that is dead.
FORSAKEN = """
select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()
"""


@pytest.mark.full("kills once more, of a transfer")
def test_a_transfer_whose_worker_is_killed_moves_every_row_once(mortal: Stack, dsn: str) -> None:
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    ask(dsn, GATE)
    execution = mortal.begin(textwrap.dedent(TRANSFER).format(dsn=dsn, chunk=CHUNK, rows=ROWS), {})
    let_through = 0
    for _ in range(3):
        let_through += chance.randint(1, 10) * CHUNK
        ask(dsn, f"update gate set n = {let_through}")
        until(lambda rows=let_through: moved(dsn) >= rows, "rows that arrive")
        kill_all(processes(mortal))
        ask(dsn, FORSAKEN)
        assert moved(dsn) == let_through < ROWS, "it was killed in the middle"
    ask(dsn, f"update gate set n = {ROWS}")
    mortal.wait([execution])

    assert mortal.row(execution).status == "completed", mortal.row(execution).error
    [(rows, total)] = ask(dsn, "select count(*), sum(n) from moved")
    assert mortal.report(execution).as_json()["result"]["rows"] == ROWS
    assert (rows, total) == (ROWS, sum(range(1, ROWS + 1)))
