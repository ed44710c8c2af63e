"""Stopping what was started: with patience, or at once, and never leaving anything behind; and
starting again what dies."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from noetl.cli import supervisor as supervising
from noetl.cli.complaints import report_error
from noetl.cli.supervisor import Service, Supervisor
from noetl.cli.work_in_hand import WorkInHand
from noetl.config import Settings
from noetl.errors import Unavailable
from noetl.store import open_store
from noetl.usecases.ports import CommandRow, Store
from tests.contract.given import LATER, NOW, add, command, create, execution
from tests.gates import Gate
from tests.waiting import GUARD_S, until


class Clock:
    """Time that passes where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        os.sched_yield()


@pytest.fixture
def clock(busy: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """That of whoever stops services which have begun."""
    made = Clock()
    monkeypatch.setattr(supervising, "time", made)
    return made


@pytest.fixture
def busy(tmp_path: Path) -> Supervisor:
    """A service that does not end when it is asked to, and one that does."""
    ready = tmp_path / "ready"
    script = f"trap '' TERM; echo > {ready}; while :; do sleep 600; done"
    services = [
        Service("worker-stubborn", ["sh", "-c", script], tmp_path / "stubborn.log"),
        Service("willing", ["sleep", "600"], tmp_path / "willing.log"),
    ]
    made = Supervisor(services, {})
    made.start()
    until(ready.exists, "the stubborn one")
    return made


def test_workers_that_are_still_at_work_are_named_once_and_may_be_hurried(
    busy: Supervisor, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervising, "GRACE_S", math.inf)

    def sleep(seconds: float) -> None:
        Clock.sleep(clock, seconds)
        if clock.now > 2 * supervising.QUIET_S:
            busy.hurry()

    monkeypatch.setattr(clock, "sleep", sleep)
    pids = list(busy.pids.values())
    busy.stop(announce=True)
    assert capsys.readouterr().err.count("(worker-stubborn)") == 1
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_what_does_not_end_within_the_grace_is_killed(
    busy: Supervisor, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at: list[float] = []
    kill = subprocess.Popen.kill

    def note(process: subprocess.Popen[bytes]) -> None:
        killed_at.append(clock.now)
        kill(process)

    monkeypatch.setattr(subprocess.Popen, "kill", note)
    pids = list(busy.pids.values())
    busy.stop()
    assert killed_at
    assert killed_at[0] == pytest.approx(supervising.GRACE_S, abs=0.1)
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_what_others_need_ends_when_they_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervising, "GRACE_S", GUARD_S)
    log, gate = tmp_path / "ends", Gate(tmp_path / "gate")
    gate_of_worker = tmp_path / "end-of-worker"
    gate_of_worker.write_text(gate.shell())

    def script(name: str, work: str) -> list[str]:
        end = f"{work}; echo {name} >> {log}; kill \\$!; exit"
        return ["sh", "-c", f'trap "{end}" TERM; sleep 600 & echo > {tmp_path / name}; wait']

    made = Supervisor(
        [
            Service("broker", script("broker", ":"), tmp_path / "broker.log", is_needed=True),
            Service("worker", script("worker", f". {gate_of_worker}"), tmp_path / "worker.log"),
        ],
        {},
    )
    made.start()
    until(lambda: (tmp_path / "broker").exists() and (tmp_path / "worker").exists(), "both")
    stopping = threading.Thread(target=made.stop)
    stopping.start()
    until(gate.arrived, "the worker to be asked to end")
    gate.open()
    stopping.join(GUARD_S)
    assert log.read_text().split() == ["worker", "broker"]


# --- deaths ---------------------------------------------------------------------------------------


class Mortal:
    """A stack of one worker that dies as often as it is started, and what it held each time."""

    def __init__(self, log: Path, clock: Clock) -> None:
        self.log = log
        self.held: list[str] = []
        self.buried = 0
        self._clock = clock
        self._stack = Supervisor(
            [Service("worker-code", ["sh", "-c", "echo no memory is left; exit 7"], log, queues=["python"])],
            {},
            self._find_held,
        )
        self._stack.start()

    def _find_held(self, service: Service, pid: int) -> list[str]:
        assert pid > 0
        self.buried += 1
        return self.held

    def die(self, times: int) -> None:
        """Tends it until it has died so many times more."""
        goal = self.buried + times
        until(lambda: self._tend() >= goal, f"{times} deaths")

    def _tend(self) -> int:
        self._stack.tend()
        self._clock.now += 0.1
        return self.buried


@pytest.fixture
def mortal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mortal:
    clock = Clock()
    monkeypatch.setattr(supervising, "time", clock)
    # Time passes with every look, and how many there are is the machine's.
    monkeypatch.setattr(supervising, "WITHIN_S", math.inf)
    return Mortal(tmp_path / "code.log", clock)


def test_a_worker_that_dies_at_work_is_started_again_however_often(
    mortal: Mortal, capsys: pytest.CaptureFixture[str]
) -> None:
    mortal.held = ["1/start#1/-/1"]
    mortal.die(3 * supervising.MAX_DEATHS)
    said = capsys.readouterr().err
    assert said.count("worker-code died at work (exit code 7) on 1/start#1/-/1") == 3 * supervising.MAX_DEATHS


def test_a_worker_that_keeps_dying_without_work_ends_the_stack(mortal: Mortal) -> None:
    mortal.held = ["1/start#1/-/1"]
    mortal.die(supervising.MAX_DEATHS)
    mortal.held = []
    mortal.die(supervising.MAX_DEATHS - 1)
    with pytest.raises(Unavailable) as ended:
        mortal.die(1)
    said, *_, last = str(ended.value).splitlines()
    assert said == (
        "worker-code died 5 times within a minute (last exit code 7), and so `noetl up` ends; the next one "
        f"goes on with what has not ended. The log of worker-code is {mortal.log}:"
    )
    assert last == "no memory is left"
    assert report_error(ended.value) == 1


@pytest.fixture
def settings(tmp_path: Path, sqlite_url: str) -> Settings:
    return Settings(home=tmp_path, database_url=sqlite_url)


def hold(settings: Settings, name: str, owner: str, queue: str = "python") -> None:
    """Has a command of that name claimed by `owner`."""
    with closing(open_store(settings.database)) as store:
        if (row := _read(store, name)) is None:
            create(store, execution(name))
            add(store, command(name, name, queue=queue))
        with store.begin_async_commit() as tx:
            if row is not None:
                tx.commands.reopen(name, row.attempt)
            assert tx.commands.claim(name, owner, NOW, LATER, 9) is not None


def _read(store: Store, name: str) -> CommandRow | None:
    with store.read() as tx:
        return tx.commands.get(name)


def test_work_that_a_dead_worker_held_is_known_by_its_leases_and_excuses_one_death(
    settings: Settings, tmp_path: Path
) -> None:
    host = socket.gethostname()
    worker = Service("worker-code", [], tmp_path / "log", queues=["python"])
    dead = subprocess.Popen(["true"], start_new_session=True)
    dead.wait()
    with subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True) as pool:
        child = until(lambda: psutil.Process(pool.pid).children(), "a child of the pool")[0]
        hold(settings, "100", f"{host}:{dead.pid}")
        hold(settings, "200", f"{host}:{child.pid}")
        hold(settings, "300", f"{host}:{os.getpid()}")
        hold(settings, "400", f"elsewhere:{dead.pid}")
        hold(settings, "500", f"{host}:{dead.pid}", queue="http")
        work = WorkInHand(settings)
        assert work.find(replace(worker, queues=()), dead.pid) == ()
        assert list(work.find(worker, dead.pid)) == ["100"]
        assert list(work.find(worker, pool.pid)) == ["200"]
        assert list(work.find(worker, pool.pid)) == []
        hold(settings, "100", f"{host}:{dead.pid}")
        assert list(work.find(worker, dead.pid)) == ["100"], "it is another delivery"
        os.killpg(pool.pid, signal.SIGKILL)


def test_a_database_that_does_not_answer_excuses_no_death(tmp_path: Path) -> None:
    (tmp_path / "noetl.db").write_bytes(b"no database at all" * 500)
    worker = Service("worker-code", [], tmp_path / "log", queues=["python"])
    assert WorkInHand(Settings(home=tmp_path)).find(worker, os.getpid()) == ()
