"""Workers as people start them, and what they must survive: dead children, cancellation."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
import requests

from noetl.facts.logs import LogFilter
from noetl.usecases import control, logs
from tests import services
from tests.gates import Gate
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .playbooks import LOOP, TWO_STEPS, counted, head, squares
from .stack import ROOT, Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]


# --- commands typed by hand ----------------------------------------------------------------------


def procfile(name: str, **environment: object) -> list[str]:
    """The words of a line of the Procfile, as a shell makes them."""
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines() if ": " in line)
    given = {"PATH": os.environ["PATH"], **{key: str(value) for key, value in environment.items()}}
    return subprocess.check_output(["sh", "-c", f"echo {lines[name]}"], env=given, text=True).split()


@pytest.fixture(scope="module")
def by_hand(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    redis_server: str,
) -> Iterator[Stack]:
    """What the README tells to type, letter by letter."""
    url = postgres_server.create(postgres_template)
    broker = f"{redis_server}/13"
    with redis.Redis.from_url(broker) as client:
        client.flushdb()
    port = free_port()
    with Stack(tmp_path_factory.mktemp("hand"), url, broker, ()) as running:
        # `-l` is honoured whatever the settings say: without it nobody would see the line that says
        # `ready`.
        scheduler = ["celery", "-A", "noetl", "worker", "-Q", "scheduler", "-c", "1", "-l", "INFO"]
        running.launch("scheduler", scheduler, NOETL_LOG_LEVEL="ERROR")
        worker = ["celery", "-A", "noetl", "worker", "-Q", "http,python,shell,quantum", "-c", "2"]
        running.launch("worker", worker, NOETL_LOG_JSON="1")
        flower = procfile("flower", NOETL_FLOWER_PORT=port)
        running.launch("flower", flower, FLOWER_UNAUTHENTICATED_API="true", NOETL_LOG_JSON="1")
        running.flower = f"http://127.0.0.1:{port}/flower"
        running.await_ready("scheduler")
        running.await_ready("worker")
        yield running
    postgres_server.drop(url)


def test_the_documented_commands_run_a_playbook_and_flower_names_its_steps(by_hand: Stack) -> None:
    until(lambda: asked(by_hand, "/api/workers?refresh=1"), "Flower to know the workers")
    report = by_hand.run(LOOP, {"items": 6, "width": 2, "secret": "tr0ub4dor"})
    assert report.result == squares(6)

    def tasks() -> dict[str, Any] | None:
        found: dict[str, Any] = asked(by_hand, "/api/tasks?limit=1000")
        names = {task["name"] for task in found.values()}
        wanted = {"acceptance/loop:start", "acceptance/loop:work[lane 0]", "acceptance/loop:end"}
        return found if names >= wanted else None

    shown = until(tasks, "Flower to show the steps by name")
    assert {task["state"] for task in shown.values()} <= {"SUCCESS", "IGNORED", "RECEIVED", "STARTED"}
    assert "tr0ub4dor" not in json.dumps(shown), "Flower shows payloads"
    assert all(len(task["args"] or "") < 100 for task in shown.values())
    by_hand.check_logs()
    by_hand.check_nothing_was_sent_twice()


#: Each iteration needs a second attempt, which it waits for without a worker.
AGAIN = (
    head("again")
    + """
workflow:
  - step: start
    loop: {in: [7, 8], iterator: n, spec: {mode: parallel}}
    tool:
      kind: python
      input: {attempt: "{{ _attempt }}", n: "{{ iter.n }}"}
      code: |
        if attempt < 2:
            raise ValueError("not yet")
        result = n
      spec:
        policy: {rules: [{when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 1.2}}]}
    next: end
  - step: end
"""
)


def test_flower_names_the_iteration_that_a_message_is_about(by_hand: Stack) -> None:
    until(lambda: asked(by_hand, "/api/workers?refresh=1"), "Flower to know the workers")
    by_hand.start("sweeper")
    assert by_hand.run(AGAIN).steps["start"]["result"]["results"] == [7, 8]

    def names() -> set[str] | None:
        found = {task["name"] for task in asked(by_hand, "/api/tasks?limit=1000").values()}
        wanted = {"acceptance/again:start[lane 0]", "acceptance/again:start[0]", "acceptance/again:start[1]"}
        return found if found >= wanted else None

    until(names, "Flower to show the iterations by name")
    by_hand.kill("sweeper")
    by_hand.check_logs()


#: One of three iterations fails, as does the step behind them; whatever prints names the iteration.
#: The first one comes to a gate.
FAILING = (
    head("failing")
    + """
workload: {gate: ""}
workflow:
  - step: start
    loop: {in: [0, 1, 2], iterator: n, spec: {mode: parallel, max_in_flight: 1, policy: {failure: {mode: best_effort}}}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}"}
      code: |
        print("printed by", n)
        if n == 0:
            GATE
            raise ValueError("not this one")
    next: fails
  - step: fails
    tool: {kind: shell, command: "echo gone wrong >&2; exit 3"}
"""
)


def test_flower_and_the_logs_tell_how_work_ended(by_hand: Stack, tmp_path: Path) -> None:
    until(lambda: asked(by_hand, "/api/workers?refresh=1"), "Flower to know the workers")
    gate = Gate(tmp_path / "gate")
    failed = by_hand.begin(FAILING.replace("GATE", f"exec({gate.python()!r})"))
    until(gate.arrived, "the lane to be at work")
    meanwhile = by_hand.begin(LOOP, {"items": 1})
    by_hand.wait([meanwhile])
    gate.open()
    by_hand.wait([failed])
    sleeping = by_hand.begin(SLEEP, {"file": str(tmp_path / "pid")})
    until((tmp_path / "pid").exists, "the step to run")
    control.cancel(by_hand.rt, sleeping, "enough")
    by_hand.wait([sleeping])

    def shown(execution: str, step: str) -> dict[str, Any] | None:
        found = asked(by_hand, "/api/tasks?limit=1000") or {}
        of_it = (one for one in found.values() if f"execution {execution}," in (one["args"] or ""))
        return next((one for one in of_it if f":{step}" in one["name"] and one["state"] != "STARTED"), None)

    lane = until(lambda: shown(failed, "start[lane 0]"), "the lane to have ended")
    assert lane["state"] == "FAILURE"
    assert "not this one" in lane["exception"] or "1 iterations failed" in lane["exception"]
    took = min(one["runtime"] for one in ends_shown(by_hand, meanwhile).values())
    assert lane["runtime"] > took, "the lane's own time, not that of its last slice"
    step = until(lambda: shown(failed, "fails"), "the step to have ended")
    assert (step["state"], "exit status 3: gone wrong" in step["exception"]) == ("FAILURE", True)
    assert step["runtime"] > 0
    cancelled = until(lambda: shown(sleeping, "start"), "the cancelled step to have ended")
    assert cancelled["state"] == "REVOKED"

    # The worker's log: nothing that failed "succeeded", and each line says what it is about.
    lines = json_lines(by_hand, "worker")
    assert "INFO" in {one["level"] for one in json_lines(by_hand, "flower")}
    about = [line for line in lines if line.get("execution") == failed]
    assert [one for one in about if "succeeded" in one["message"]] == []
    told = next(
        one for one in about if one["message"].startswith("Failed: ") and "gone wrong" in one["message"]
    )
    assert (told["step"], told["run"], told["delivery"]) == ("fails", "fails#1", 1)
    assert told["command"].startswith(f"{failed}/fails#1/")
    assert any("received" in one["message"] for one in about)
    by_hand.check_logs()

    # What the tasks printed is there whichever process printed it, and is told apart by iteration.
    page = logs.page(by_hand.rt, failed, LogFilter(step="start"))
    printed = {chunk.place.iteration: chunk.text for chunk in page.chunks if chunk.stream == "stdout"}
    assert printed == {n: f"printed by {n}\n" for n in range(3)}
    assert logs.last_lines(by_hand.rt, failed, LogFilter(step="fails"), 5) == ["gone wrong"]


#: Steps of a queue that is named when it is registered.
QUEUED = """
workflow:
  - step: works
    tool: {kind: python, code: "result = 1"}
    spec: {queue: QUEUE}
    next: fails
  - step: fails
    tool: {kind: python, code: "raise ValueError('gone wrong')"}
    spec: {queue: QUEUE}
"""


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_flower_shows_how_work_ended_in_pools_without_children(by_hand: Stack, pool: str) -> None:
    worker = ["celery", "-A", "noetl", "worker", "-Q", pool, "-P", pool, "-c", "1", "-n", f"{pool}@%h"]
    by_hand.launch(pool, [*worker, "-l", "INFO"])
    by_hand.await_ready(pool)
    until(lambda: asked(by_hand, "/api/workers?refresh=1"), "Flower to know the workers")
    failed = by_hand.begin(head(pool) + QUEUED.replace("QUEUE", pool))
    by_hand.wait([failed])
    until(lambda: len(ends_shown(by_hand, failed)) == 2, "Flower to show both steps")
    shown = ends_shown(by_hand, failed)
    states = {name: one["state"] for name, one in shown.items()}
    assert states == {f"acceptance/{pool}:works": "SUCCESS", f"acceptance/{pool}:fails": "FAILURE"}
    assert "gone wrong" in shown[f"acceptance/{pool}:fails"]["exception"]
    by_hand.kill(pool)
    by_hand.check_logs()


#: One of two iterations fails; both processes are taken before their lanes come back for more.
WAITED = (
    head("waited")
    + """
workflow:
  - step: start
    loop: {in: [0, 1], iterator: n, spec: {mode: parallel, policy: {failure: {mode: best_effort}}}}
    tool:
      kind: python
      input: {n: "{{ iter.n }}"}
      code: |
        exec(GATE)
        if n == 0:
            raise ValueError("not this one")
    next: end
  - step: end
"""
)


def test_who_stops_in_order_is_no_worker_that_fell_silent(by_hand: Stack) -> None:
    command = ["celery", "-A", "noetl", "worker", "-P", "threads", "-c", "1", "-l", "INFO"]
    for queue in ("leaves", "dies"):
        by_hand.launch(queue, [*command, "-Q", queue, "-n", f"{queue}@%h"])
        by_hand.await_ready(queue)

    def seen() -> set[str]:
        with by_hand.rt.store.read() as tx:
            known = tx.workers.alive(by_hand.rt.clock() - timedelta(hours=1))
        return {queue for one in known for queue in one.queues if queue in ("leaves", "dies")}

    until(lambda: seen() == {"leaves", "dies"}, "signs of life of both")
    by_hand.kill("dies")
    leaves = by_hand.running["leaves"].process
    assert leaves is not None
    leaves.terminate()
    leaves.wait(GUARD_S)
    assert seen() == {"dies"}


def test_flower_shows_the_end_of_lanes_that_come_back_when_their_loop_is_over(
    by_hand: Stack, tmp_path: Path
) -> None:
    until(lambda: asked(by_hand, "/api/workers?refresh=1"), "Flower to know the workers")
    first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
    waited = by_hand.begin(WAITED.replace("GATE", repr(first.python("n"))))
    until(lambda: first.arrived() == 2, "both iterations to run")
    stays = head("stays") + f"workflow: {json.dumps(at_gate(second))}\n"
    others = [by_hand.begin(stays) for _ in range(2)]
    until(lambda: sent(by_hand, others) == 2, "both to be next")
    first.open()
    until(lambda: second.arrived() == 2, "both processes to be taken")
    second.open()
    by_hand.wait([waited, *others])
    third = Gate(tmp_path / "third")
    cancelled = by_hand.begin(LOOP, {"items": 400, "width": 2, "gate": str(tmp_path / "third")})
    until(lambda: third.arrived() == 2, "the loop to run")
    control.cancel(by_hand.rt, cancelled, "enough")
    by_hand.wait([cancelled])

    lanes = ends_shown(by_hand, waited)
    failed, done = sorted(lanes.values(), key=lambda one: str(one["state"]))
    assert (failed["state"], "not this one" in failed["exception"]) == ("FAILURE", True)
    assert done["state"] == "SUCCESS", "nobody has called it off"
    between = [one["runtime"] for other in others for one in ends_shown(by_hand, other).values()]
    assert min(failed["runtime"], done["runtime"]) > min(between), "not only the last slice"
    states = {name: one["state"] for name, one in ends_shown(by_hand, cancelled).items()}
    assert {"acceptance/loop:work[lane 0]", "acceptance/loop:work[lane 1]"} < set(states)
    assert set(states.values()) <= {"SUCCESS", "REVOKED"}
    by_hand.check_logs()


def at_gate(gate: Gate) -> list[dict[str, Any]]:
    """A workflow of one step that waits there."""
    return [{"step": "stays", "tool": {"kind": "python", "code": gate.python()}}]


def sent(stack: Stack, executions: list[str]) -> int:
    """How many of their commands are on their way."""
    ids = [int(one) for one in executions]
    statement = "SELECT count(*) FROM command WHERE execution_id = ANY(:ids) AND sent_at IS NOT NULL"
    return int(stack.sql(statement, ids=ids)[0][0])


#: States of Flower's that are an end.
ENDS = ("SUCCESS", "FAILURE", "REVOKED")


def ends_shown(stack: Stack, execution: str) -> dict[str, Any]:
    """What Flower shows of an execution, by name, once it shows the end of everything."""

    found: dict[str, Any] = {}

    def is_shown() -> bool:
        tasks = (asked(stack, "/api/tasks?limit=1000") or {}).values()
        found.update(
            (one["name"], one) for one in tasks if (one["args"] or "").startswith(f"execution {execution},")
        )
        return bool(found) and all(one["state"] in ENDS for one in found.values())

    until(is_shown, lambda: f"Flower to show the end of all tasks of {execution}: {found}")
    return found


def test_requests_are_logged_with_an_id_that_the_answer_names(by_hand: Stack) -> None:
    by_hand.launch("api", by_hand._argv("api"), NOETL_LOG_JSON="1")
    by_hand.await_ready("api")
    answer = requests.get(
        f"{by_hand.api}/api/executions/77", headers={"X-Request-ID": "abc-1"}, timeout=GUARD_S
    )
    assert (answer.status_code, answer.headers["X-Request-ID"]) == (404, "abc-1")
    with socket.create_connection(("127.0.0.1", int(by_hand.api.rpartition(":")[2]))) as client:
        client.sendall(b"no request\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 400")
    lines = json_lines(by_hand, "api")
    (bad,) = [line for line in lines if "cannot be read" in line["message"]]
    assert "request" not in bad, "that of another request"
    (told,) = [line for line in lines if line.get("request") == "abc-1"]
    assert (told["logger"], told["method"], told["path"]) == ("noetl.access", "GET", "/api/executions/77")
    assert (told["status"], told["level"]) == (404, "INFO")
    by_hand.kill("api")
    by_hand.check_logs()


def json_lines(stack: Stack, part: str) -> list[dict[str, Any]]:
    """The log of a part, every line of which is a JSON object."""
    return [json.loads(line) for line in stack.running[part].said().splitlines()]


def asked(stack: Stack, path: str) -> Any:
    try:
        answer = requests.get(stack.flower + path, timeout=GUARD_S)
    except requests.ConnectionError:
        return None
    return answer.json() if answer.ok else None


# --- children ------------------------------------------------------------------------------------

SLEEP = (
    head("sleep")
    + """
workload: {file: ""}
workflow:
  - step: start
    tool:
      kind: python
      input: {file: "{{ workload.file }}"}
      code: |
        import os, time
        with open(file + ".new", "w") as out:
            out.write(str(os.getpid()))
        os.rename(file + ".new", file)
        time.sleep(3600)
    next: end
  - step: end
"""
)


def asleep(stack: Stack, file: Path) -> tuple[str, psutil.Process]:
    """An execution whose only task sleeps, and the process that it sleeps in."""
    execution = stack.begin(SLEEP, {"file": str(file)})
    until(file.exists, "the task to be at work")
    return execution, psutil.Process(int(file.read_text()))


def test_the_death_of_a_tools_child_fails_its_task_with_a_reason_and_nothing_else(
    stack: Stack, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    other = stack.begin(head("stays") + f"workflow: {json.dumps(at_gate(gate))}\n")
    until(gate.arrived, "another task to be at work")
    execution, child = asleep(stack, tmp_path / "pid")
    child.kill()
    row = stack.wait([execution])[execution]
    assert row.status == "failed"
    assert row.error is not None
    assert row.error["type"] == "NoResult"
    assert "SIGKILL" in row.error["message"]
    assert row.error["step"] == "start"
    gate.open()
    assert stack.wait([other])[other].status == "completed"
    assert stack.run(TWO_STEPS).result == 2


def test_cancelling_ends_a_sleeping_task_and_its_child_is_gone(stack: Stack, tmp_path: Path) -> None:
    execution, child = asleep(stack, tmp_path / "pid")
    answer = requests.post(
        f"{stack.api}/api/executions/{execution}/cancel", json={"reason": "enough"}, timeout=GUARD_S
    )
    assert answer.status_code == 202, answer.text
    row = stack.wait([execution])[execution]
    assert row.status == "cancelled"
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "the child to be gone")
    assert stack.run(TWO_STEPS).result == 2


def test_a_paused_loop_starts_nothing_new_and_completes_after_resuming(
    stack: Stack, effects: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    payload = {"items": 20, "width": 1, "effects": str(effects), "gate": str(tmp_path / "gate")}
    execution = stack.begin(LOOP, payload)
    until(gate.arrived, "the loop to be under way")
    url = f"{stack.api}/api/executions/{execution}"
    assert requests.post(f"{url}/pause", json={"reason": "lunch"}, timeout=GUARD_S).ok
    gate.open()
    until(lambda: stack.row(execution).status == "paused", "the pause")
    done = len(counted(effects))
    assert stack.run(TWO_STEPS).result == 2, "the worker has time for others"
    assert len(counted(effects)) == done < 20
    assert requests.get(url, timeout=GUARD_S).json()["status"] == "paused"
    assert requests.post(f"{url}/resume", json={}, timeout=GUARD_S).ok
    assert stack.wait([execution])[execution].status == "completed"
    assert stack.report(execution).result == squares(20)
    stack.check_log_of(execution)
    assert set(counted(effects).values()) == {1}


# --- isolation -----------------------------------------------------------------------------------

PEEK = (
    head("peek")
    + """
workflow:
  - step: start
    spec: {queue: QUEUE}
    tool:
      kind: python
      code: |
        import os, socket
        def what(number):
            try:
                return os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                return None
        result = {
            "environment": dict(os.environ),
            "descriptors": {n: what(n) for n in os.listdir("/proc/self/fd") if what(n)},
            "session": os.getsid(0),
            "parent": open(f"/proc/{os.getppid()}/environ").read(),
        }
    next: end
  - step: end
    tool: {kind: noop, input: {seen: "{{ start }}"}}
"""
)


@pytest.mark.parametrize(
    ("queue", "part"), [("python", "code"), ("default", "io")], ids=["prefork", "threads"]
)
def test_user_code_inherits_neither_settings_nor_descriptors(stack: Stack, queue: str, part: str) -> None:
    playbook = PEEK.replace("QUEUE", queue).replace("acceptance/peek", f"acceptance/peek_{queue}")
    seen = stack.run(playbook).steps["start"]["result"]
    assert not [name for name in seen["environment"] if name.startswith("NOETL")]
    assert "NOETL_" not in seen["parent"]
    assert stack.database not in json.dumps(seen["environment"])
    sockets = [target for target in seen["descriptors"].values() if target.startswith("socket:")]
    files = [
        one for one in seen["descriptors"].values() if not re.match(r"socket:|pipe:|/dev/null|/proc/", one)
    ]
    assert files == []
    # Its channel to the worker, and nothing else: no database, no broker.
    assert len(sockets) == 1
    assert seen["session"] != os.getsid(stack.running[part].pid)
