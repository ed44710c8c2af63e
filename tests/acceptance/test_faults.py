"""Parts die with SIGKILL while executions run: all of them complete, and every result is
recorded once."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import requests

from noetl.usecases import catalog
from tests import services, zygote
from tests.gates import Gate
from tests.services import RedisServer
from tests.waiting import GUARD_S, until

from .playbooks import ASKING_LOOP, LOOP, counted, head, squares
from .stack import CORE, ROOT, Stack, kill_trees

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.postgres,
    pytest.mark.redis,
    # kombu leaves the sockets of a broker that died, in this process too, to the collector.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
    ),
]

EXECUTIONS = 8
ITEMS = 8
WIDTH = 3

#: Short, so that what died is missed within seconds. Queued work may be sent again: that must be
#: harmless.
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


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """What a dead broker left is collected here, and not in a test that knows nothing of it."""
    yield
    gc.collect()


def begin_all(stack: Stack, effects: Path, playbook: str = LOOP, **more: object) -> list[str]:
    payload = {"items": ITEMS, "width": WIDTH, "effects": str(effects), **more}
    return [stack.begin(playbook, payload) for _ in range(EXECUTIONS)]


@pytest.fixture
def squaring(effects: Path) -> Iterator[str]:
    """The address of a server that squares `/<execution>/<n>`, and writes down that it did."""

    class Squaring(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, execution, number = self.path.split("/")
            with effects.open("a") as lines:
                lines.write(f"{execution} {number} -\n")
            body = json.dumps({"squared": int(number) ** 2}).encode()
            with contextlib.suppress(OSError):  # whoever asked may be dead
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Squaring) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def under_way(stack: Stack, executions: list[str], count: int = 15) -> None:
    """Waits until so many iterations have ended: the fault shall meet work in every state."""
    ids = [int(one) for one in executions]
    statement = "SELECT count(*) FROM event WHERE execution_id = ANY(:ids) AND type = 'loop.iteration.done'"
    until(lambda: stack.sql(statement, ids=ids)[0][0] >= count, "work to be under way")


def check(stack: Stack, executions: list[str], effects: Path, *, once: bool = False) -> None:
    """Everything completed, with the right result, recorded once and done at least once."""
    rows = stack.wait(executions)
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


@pytest.mark.full("both are among those that die at once")
@pytest.mark.parametrize("part", ["scheduler", "code"])
def test_executions_survive_the_sudden_death_of(faulty: Stack, effects: Path, part: str) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    faulty.restart(part)
    check(faulty, executions, effects)
    faulty.check_logs()


#: Prints and goes on for ever, as long as nobody kills it.
PRINTING = (
    head("printing")
    + """
workload: {mark: ""}
workflow:
  - step: start
    tool:
      kind: python
      input: {mark: "{{ workload.mark }}"}
      code: |
        import pathlib, time
        if pathlib.Path(mark).exists():
            print("again")
        else:
            pathlib.Path(mark).touch()
            for n in range(100):
                print(n, flush=True)
            time.sleep(3600)
"""
)


def test_what_was_printed_is_there_while_it_runs_and_though_its_worker_is_killed(
    faulty: Stack, tmp_path: Path
) -> None:
    execution = faulty.begin(PRINTING, {"mark": str(tmp_path / "mark")})

    def chunks() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = faulty.get(f"executions/{execution}/logs?limit=1000")["chunks"]
        return found

    def printed() -> str:
        return "".join(one["text"] for one in chunks() if one["delivery"] == 1)

    until(lambda: printed().endswith("\n99\n"), "what a task printed that has not ended")
    faulty.kill("code")
    faulty.start("code")
    faulty.wait([execution])
    assert printed() == "".join(f"{n}\n" for n in range(100))
    assert [one["text"] for one in chunks() if one["delivery"] == 2] == ["again\n"]
    faulty.check_logs()


@pytest.mark.full("it is among those that die at once")
def test_http_steps_survive_the_sudden_death_of_the_worker_that_asks(
    faulty: Stack, effects: Path, squaring: str
) -> None:
    """Requests under way are asked again by whoever comes next; what was answered and recorded is
    not."""
    executions = begin_all(faulty, effects, ASKING_LOOP, url=squaring)
    under_way(faulty, executions)
    faulty.kill("io")
    recorded = recorded_iterations(faulty, executions)
    assert 0 < len(recorded) < EXECUTIONS * ITEMS, "the worker was to die in the midst of it"
    asked = counted(effects)
    faulty.start("io")
    check(faulty, executions, effects)
    done = counted(effects)
    assert {one for one in recorded if done[one] > asked[one]} == set(), "asked again though it was recorded"
    faulty.check_logs()


def recorded_iterations(stack: Stack, executions: list[str]) -> set[tuple[str, int]]:
    """The iterations whose end is in the log: (execution, index)."""
    statement = "SELECT execution_id, iteration FROM event WHERE execution_id = ANY(:ids) AND type = :type"
    rows = stack.sql(statement, ids=[int(one) for one in executions], type="loop.iteration.done")
    return {(str(row[0]), int(row[1])) for row in rows}


@pytest.mark.full("a rarer fault")
def test_executions_survive_the_sudden_death_of_a_prefork_parent_alone(faulty: Stack, effects: Path) -> None:
    """Its children must notice: nobody would ever stop them."""
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    orphans = faulty.kill_parent("code")
    assert orphans, "the pool has no processes"
    faulty.start("code")
    check(faulty, executions, effects)
    until(lambda: not any(map(alive, orphans)), "the orphans to end")
    faulty.check_logs()


def alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.full("pauses of a healthy stack are in test_workers.py")
@pytest.mark.parametrize("how", ["api", "cli"])
def test_resuming_a_paused_loop_needs_no_sweeper(
    faulty: Stack, effects: Path, tmp_path: Path, how: str
) -> None:
    """Nothing is under way in a paused execution: the wake of the resume alone sets it going."""
    gate = Gate(tmp_path / "gate")
    faulty.kill("sweeper")
    try:
        payload = {"items": 20, "width": 2, "effects": str(effects), "gate": str(tmp_path / "gate")}
        execution = faulty.begin(LOOP, payload)
        until(lambda: gate.arrived() == 2, "both places of the loop to be taken")
        tell(faulty, how, execution, "pause")
        gate.open()
        until(lambda: faulty.row(execution).status == "paused", "the pause")
        done = counted(effects)
        assert len(done) < 20
        # Behind what was under way: somebody else's work is done.
        assert faulty.run(LOOP, {"items": 4}).result == squares(4)
        assert counted(effects) == done, "a paused loop went on"
        tell(faulty, how, execution, "resume")
        assert faulty.wait([execution])[execution].status == "completed"
    finally:
        faulty.start("sweeper")
    assert faulty.report(execution).result == squares(20)
    faulty.check_log_of(execution)
    assert set(counted(effects).values()) == {1}
    faulty.check_logs()


@pytest.mark.full("a rarer fault; garbage is in test_messages.py")
def test_garbage_that_was_taken_for_a_wake_is_as_good_as_one(faulty: Stack, effects: Path) -> None:
    """No wake is sent while something is in the scheduler's queue: whoever clears it away looks who
    owes a turn."""
    faulty.rt.dispatcher.wake()  # connects: a first wake asks nobody
    faulty.kill("sweeper")
    faulty.kill("scheduler")
    with redis.Redis.from_url(faulty.broker) as client:
        client.delete("scheduler")
        client.lpush("scheduler", b"garbage")
        execution = faulty.begin(LOOP, {"items": 4, "effects": str(effects)})
        assert client.llen("scheduler") == 1, "a wake was sent"
    try:
        faulty.start("scheduler")
        assert faulty.wait([execution])[execution].status == "completed"
    finally:
        faulty.start("sweeper")
    faulty.check_logs()


def tell(stack: Stack, how: str, execution: str, verb: str) -> None:
    if how == "api":
        stack.post(f"executions/{execution}/{verb}")
        return
    words = ["noetl", "execution", verb, execution]
    done = zygote.run(words, cwd=ROOT, env=stack.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.full("such kills are in test_exactly_once.py")
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
    payload = {"items": ITEMS, "width": WIDTH, "effects": str(effects)}
    executions: dict[int, str] = {}

    def ask(number: int) -> None:
        try:
            answer = requests.post(
                f"{faulty.api}/api/executions",
                json={"path": row.path, "payload": payload},
                headers={"Idempotency-Key": f"death-of-the-api-{number}"},
                timeout=GUARD_S,
            )
        except requests.RequestException:
            return
        assert answer.status_code == 202, answer.text
        executions[number] = answer.json()["execution_id"]

    for number in range(EXECUTIONS):
        killer = threading.Thread(target=lambda: faulty.kill("api"))
        if number == EXECUTIONS // 4:
            killer.start()  # while it is asked
        ask(number)
        if number == EXECUTIONS // 4:
            killer.join()
    assert 0 < len(executions) < EXECUTIONS, "the API was to die while it was asked"
    known = dict(executions)
    faulty.start("api")
    for number in range(EXECUTIONS):
        ask(number)
    assert known.items() <= executions.items(), "the same key was given another execution"
    assert len(set(executions.values())) == EXECUTIONS
    check(faulty, list(executions.values()), effects)


@pytest.mark.full("the broker dies with everything else, too")
def test_executions_survive_a_broker_that_forgets_everything(
    faulty: Stack, faulty_broker: RedisServer, effects: Path
) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    died_at = {name: len(faulty.running[name].said()) for name in ("scheduler", "code")}
    faulty_broker.kill()
    for name, length in died_at.items():
        until(lambda name=name, length=length: faulty.running[name].said(length), f"{name} to notice")
    faulty_broker.start()
    # Celery says so when it is disconnected, in its own words.
    faulty.expected += ["Connection", "BrokenPipe", "redis/", "kombu/", "celery/bootsteps"]
    check(faulty, executions, effects)
    # The stack is as good as new: a further execution needs no sweeper's patience.
    assert faulty.run(LOOP, {"items": 4}).result == squares(4)
    faulty.check_logs()


@pytest.mark.quick("the whole stack, PostgreSQL, Redis, and a kill of everything")
def test_everything_may_die_at_once(faulty: Stack, faulty_broker: RedisServer, effects: Path) -> None:
    executions = begin_all(faulty, effects)
    under_way(faulty, executions)
    for part in ("scheduler", "code", "io", "sweeper", "api"):
        faulty.kill(part)
    faulty_broker.kill()
    faulty_broker.start()
    faulty.start("scheduler", "code", "io", "sweeper", "api")
    check(faulty, executions, effects)


#: Starts processes for ever, and says when there are too many to be looked at between two of them.
BREEDING = """\
import itertools, subprocess

for number in itertools.count():
    subprocess.Popen(["sleep", "600"])
    if number == 200:
        print(flush=True)
"""


def test_a_kill_leaves_nothing_of_a_tree_that_grows_meanwhile() -> None:
    """Of the kills themselves: what one lets escape is nobody's, and fails a test at random."""
    with subprocess.Popen(
        [sys.executable, "-c", BREEDING], stdout=subprocess.PIPE, start_new_session=True
    ) as top:
        try:
            assert top.stdout is not None
            assert top.stdout.readline()
            kill_trees([top.pid])
        finally:
            top.kill()
    try:
        until(lambda: not has_group(top.pid), "the last of its group to be gone")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(top.pid, signal.SIGKILL)


def has_group(number: int) -> bool:
    """Whether a process of that group is there."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True
