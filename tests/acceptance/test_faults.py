"""Parts die with SIGKILL while twenty executions run: all of them complete, and every result is recorded once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from noetl.usecases import catalog
from tests import services

from .playbooks import LOOP, counted, squares
from .stack import CORE, RedisServer, Stack, eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

EXECUTIONS = 20
ITEMS = 10
WIDTH = 3

#: Short, so that what died is missed within seconds. Queued work may be sent again: that must be harmless.
FAST = {"lease_s": 2, "heartbeat_s": 0.4, "resend_s": 4, "sweep_s": 0.3, "max_deliveries": 20}


@pytest.fixture(scope="module")
def faulty_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("mortal"))
    try:
        server.start()
    except services.Missing as missing:
        pytest.skip(f"a Redis that may be killed is needed: {missing}")
    yield server
    server.kill()


@pytest.fixture(scope="module")
def faulty(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    faulty_broker: RedisServer,
) -> Iterator[Stack]:
    url = postgres_server.create(postgres_template)
    home = tmp_path_factory.mktemp("faulty")
    with Stack(home, url, faulty_broker.url, (*CORE, "sweeper", "api"), FAST) as running:
        yield running
    postgres_server.drop(url)


def begin_all(stack: Stack, effects: Path) -> list[str]:
    payload = {"items": ITEMS, "width": WIDTH, "nap": 0.02, "effects": str(effects)}
    return [stack.begin(LOOP, payload) for _ in range(EXECUTIONS)]


def under_way(stack: Stack, executions: list[str], count: int = 15) -> None:
    """Waits until so many iterations have ended: the fault shall meet work in every state."""
    ids = [int(one) for one in executions]
    statement = "SELECT count(*) FROM event WHERE execution_id = ANY(:ids) AND type = 'loop.iteration.done'"
    eventually(lambda: stack.sql(statement, ids=ids)[0][0] >= count, "work to be under way")


def check(stack: Stack, executions: list[str], effects: Path, *, once: bool = False) -> None:
    """Everything completed, with the right result, recorded once and done at least once."""
    rows = stack.wait(executions, 75)
    assert {row.status for row in rows.values()} == {"completed"}
    done = counted(effects)
    for execution in executions:
        stack.check_log_of(execution)
        assert stack.report(execution).result == squares(ITEMS)
        assert all(done[execution, index] >= 1 for index in range(ITEMS))
        assert stack.ended_iterations(execution) == ITEMS
    if once:
        assert set(done.values()) == {1}
    still = "SELECT count(*) FROM command WHERE state <> 'closed' AND execution_id = ANY(:ids)"
    assert stack.sql(still, ids=[int(one) for one in executions])[0][0] == 0


def test_without_faults_every_command_is_delivered_once_and_every_iteration_done_once(
    stack: Stack, effects: Path
) -> None:
    executions = begin_all(stack, effects)
    check(stack, executions, effects, once=True)
    stack.check_nothing_was_sent_twice()


@pytest.mark.parametrize("part", ["scheduler", "code"])
def test_executions_survive_the_sudden_death_of(faulty: Stack, effects: Path, part: str) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    faulty.restart(part)
    check(faulty, executions, effects)
    faulty.check_logs()


def test_a_worker_child_that_dies_loses_nothing(faulty: Stack, effects: Path) -> None:
    """The pool replaces its child; the message comes back, and the lease decides who goes on."""
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    faulty.expected.append("WorkerLostError")
    faulty.kill_child("code")
    check(faulty, executions, effects)
    faulty.check_logs()


def test_what_the_api_acknowledged_is_completed_though_it_dies(faulty: Stack, effects: Path) -> None:
    """A client that knows nothing but its Idempotency-Key asks again until it is answered."""
    row = catalog.register(faulty.rt, LOOP)
    payload = {"items": ITEMS, "width": WIDTH, "nap": 0.02, "effects": str(effects)}
    killer = threading.Timer(0.25, lambda: faulty.kill("api"))
    killer.start()
    executions: dict[int, str] = {}

    def ask(number: int) -> None:
        try:
            answer = requests.post(
                f"{faulty.api}/api/executions",
                json={"path": row.path, "payload": payload},
                headers={"Idempotency-Key": f"death-of-the-api-{number}"},
                timeout=10,
            )
        except requests.RequestException:
            return
        assert answer.status_code == 202, answer.text
        executions[number] = answer.json()["execution_id"]

    for number in range(EXECUTIONS):
        ask(number)
        time.sleep(0.03)
    killer.join()
    assert 0 < len(executions) < EXECUTIONS, "the API was to die while it was asked"
    known = dict(executions)
    faulty.start("api")
    for number in range(EXECUTIONS):
        ask(number)
    assert known.items() <= executions.items(), "the same key was given another execution"
    assert len(set(executions.values())) == EXECUTIONS
    check(faulty, list(executions.values()), effects)


def test_executions_survive_a_broker_that_forgets_everything(
    faulty: Stack, faulty_broker: RedisServer, effects: Path
) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    faulty_broker.kill()
    time.sleep(0.5)
    faulty_broker.start()
    # Celery says so when it is disconnected, in its own words.
    faulty.expected += ["Connection", "BrokenPipe", "redis/", "kombu/", "celery/bootsteps"]
    check(faulty, executions, effects)
    # The stack is as good as new: a further execution needs no sweeper's patience.
    assert faulty.run(LOOP, {"items": 4}).result == squares(4)
    faulty.check_logs()


def test_everything_may_die_at_once(faulty: Stack, faulty_broker: RedisServer, effects: Path) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    for part in ("scheduler", "code", "io", "sweeper", "api"):
        faulty.kill(part)
    faulty_broker.kill()
    faulty_broker.start()
    faulty.start("scheduler", "code", "io", "sweeper", "api")
    check(faulty, executions, effects)
