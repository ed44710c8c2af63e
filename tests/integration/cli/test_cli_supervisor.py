"""Stopping what was started: with patience, or at once, and never leaving anything behind."""

from __future__ import annotations

import math
import os
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from noetl.cli import supervisor as supervising
from noetl.cli.supervisor import Service, Supervisor
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
