"""Every line of the Procfile, as foreman has a shell run it: true starts of each kind of process,
which other tests fork."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests import services
from tests.ports import free_port
from tests.services import spawn
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import ROOT, environment, family, is_healthy, kill_trees, tracebacks

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Something for each line: `code` and `io` do a step each, the scheduler decides between them, and
#: a timer is over when the sweeper says so.
EVERYBODY = (
    head("everybody")
    + """
workload: {n: 3}
workflow:
  - step: start
    tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "result = 2 * n"}
    next: rest
  - step: rest
    tool: {kind: wait, timer: 100ms}
    next: asked
  - step: asked
    tool: {kind: http, url: "{{ workload.there }}/api/health"}
    next: end
  - step: end
    tool: {kind: noop, input: {doubled: "{{ start }}", status: "{{ asked.data.status }}"}}
"""
)


def lines() -> dict[str, str]:
    """The commands of the Procfile by their names."""
    found = [line for line in (ROOT / "Procfile").read_text().splitlines() if not line.startswith("#")]
    return dict(line.split(": ", 1) for line in found)


class Formation:
    """All that the Procfile names, once each, in process groups of their own."""

    def __init__(self, home: Path, database: str, broker: str) -> None:
        self.url, self._flower = (f"http://127.0.0.1:{port}" for port in (free_port(), free_port()))
        self._logs = home / "logs"
        self._logs.mkdir(parents=True)
        settings = {"home": home, "database_url": database, "broker_url": broker, "sweep_s": 0.3}
        self._variables = {
            **environment({**settings, "flower_port": self._flower.rpartition(":")[2]}),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PORT": self.url.rpartition(":")[2],
            "NOETL_PORT": self.url.rpartition(":")[2],
            "FLOWER_UNAUTHENTICATED_API": "true",
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def upgrade(self) -> None:
        """What is typed before the first start."""
        subprocess.run(["noetl", "db", "upgrade"], cwd=ROOT, env=self._variables, check=True)

    def status(self) -> Any:
        """What `noetl status` says, typed beside them: that all is well."""
        argv = ["noetl", "status", "--json"]
        said = subprocess.run(argv, cwd=ROOT, env=self._variables, check=True, capture_output=True)
        return json.loads(said.stdout)

    def start(self, name: str, command: str) -> None:
        log = self._logs / f"{name}.log"
        self.processes[name] = spawn(["sh", "-c", f"exec {command}"], log, cwd=ROOT, env=self._variables)

    def tell(self, number: signal.Signals) -> None:
        """Sends a signal to all groups."""
        for process in self.processes.values():
            os.killpg(process.pid, number)

    def said(self, name: str) -> str:
        return (self._logs / f"{name}.log").read_text(errors="replace")

    def check(self) -> None:
        """Fails where one of them has ended."""
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended with {process.returncode}:\n{self.said(name)}"

    def ask(self, method: str, path: str, **more: Any) -> Any:
        answer = requests.request(method, f"{self.url}/api/{path}", timeout=GUARD_S, **more)
        assert answer.ok, answer.text
        return answer.json()

    def seen_by_flower(self, path: str) -> dict[str, Any]:
        """What Flower's API answers; nothing before it listens."""
        try:
            answer = requests.get(f"{self._flower}/flower/api/{path}", timeout=GUARD_S)
        except requests.ConnectionError:
            return {}
        found: dict[str, Any] = answer.json()
        return found

    def everybody(self) -> list[psutil.Process]:
        """What was started, and all that is below it."""
        return [one for process in self.processes.values() for one in family(process.pid)]

    def kill(self) -> None:
        kill_trees(process.pid for process in self.processes.values())
        for process in self.processes.values():
            process.wait()


@pytest.fixture
def formation(
    tmp_path: Path, postgres_server: services.Postgres, broker_of_module: str
) -> Iterator[Formation]:
    database = postgres_server.create()
    made = Formation(tmp_path, database, broker_of_module)
    with ExitStack() as after:
        after.callback(postgres_server.drop, database)
        after.callback(made.kill)
        made.upgrade()
        for name, command in lines().items():
            made.start(name, command)
        yield made


@pytest.mark.quick("what is started as it stands, and not forked, is tried first")
def test_every_line_of_the_procfile_starts_does_its_part_and_ends_when_it_is_told_to(
    formation: Formation,
) -> None:
    assert list(lines()) == ["server", "scheduler", "io", "code", "sweeper", "flower"]

    def answers() -> bool:
        formation.check()
        return is_healthy(formation.url)

    until(answers, "the server to answer")
    assert formation.status()["health"]["status"] == "ok"
    # Flower tells what happens while it listens, so it comes first.
    until(lambda: len(formation.seen_by_flower("workers?refresh=1")) == 3, "Flower to know the workers")
    path = formation.ask("POST", "catalog", json={"content": EVERYBODY})["path"]
    payload = {"there": formation.url}
    started = formation.ask("POST", "executions", json={"path": path, "payload": payload})
    where = f"executions/{started['execution_id']}"

    def has_ended() -> bool:
        formation.check()
        return formation.ask("GET", where)["status"] not in ("pending", "running", "waiting")

    until(has_ended, "the execution to end")
    report = formation.ask("GET", where)
    assert (report["status"], report["result"]) == ("completed", {"doubled": 6, "status": "ok"}), report
    wanted = {f"{path}:start", f"{path}:asked"}

    def shown() -> set[str]:
        return {task["name"] for task in formation.seen_by_flower("tasks?limit=1000").values()}

    until(lambda: wanted <= shown(), "Flower to show the steps by name")

    everybody = formation.everybody()
    formation.tell(signal.SIGTERM)
    ends = {name: process.wait(GUARD_S) for name, process in formation.processes.items()}
    assert ends == dict.fromkeys(lines(), 0)
    assert psutil.wait_procs(everybody, GUARD_S)[1] == [], "these are still there"
    for name in formation.processes:
        assert tracebacks(formation.said(name)) == [], formation.said(name)
