"""Stopping what was started: with patience, or at once, and never leaving anything behind."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psutil
import pytest

from noetl.cli import supervisor as supervising
from noetl.cli.supervisor import Service, Supervisor
from tests.pace import within


@pytest.fixture
def busy(tmp_path: Path) -> Supervisor:
    """A service that does not end when it is asked to, and one that does."""
    ready = tmp_path / "ready"
    script = f"trap '' TERM; echo > {ready}; while :; do sleep 0.05; done"
    services = [
        Service("worker-stubborn", ["sh", "-c", script], tmp_path / "stubborn.log"),
        Service("willing", ["sleep", "60"], tmp_path / "willing.log"),
    ]
    made = Supervisor(services, {})
    made.start()
    ends = time.monotonic() + 5
    while not ready.exists():
        assert time.monotonic() < ends
        time.sleep(0.01)
    return made


def test_workers_that_are_still_at_work_are_named_once_and_may_be_hurried(
    busy: Supervisor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervising, "QUIET_S", 0.1)
    threading.Timer(0.3, busy.hurry).start()
    pids = list(busy.pids.values())
    with within(2.0):
        busy.stop(announce=True)
    assert capsys.readouterr().err.count("(worker-stubborn)") == 1
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_what_does_not_end_within_the_grace_is_killed(
    busy: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "GRACE_S", 0.3)
    pids = list(busy.pids.values())
    began = time.monotonic()
    busy.stop()
    assert 0.3 <= time.monotonic() - began < 2.0
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_what_others_need_ends_when_they_have_ended(tmp_path: Path) -> None:
    log = tmp_path / "ends"
    ready = [tmp_path / "broker", tmp_path / "worker"]

    def script(name: str, work_s: float) -> list[str]:
        end = f"sleep {work_s}; echo {name} >> {log}; exit"
        return ["sh", "-c", f"trap '{end}' TERM; echo > {tmp_path / name}; while :; do sleep 0.02; done"]

    made = Supervisor(
        [
            Service("broker", script("broker", 0), tmp_path / "broker.log", is_needed=True),
            Service("worker", script("worker", 0.4), tmp_path / "worker.log"),
        ],
        {},
    )
    made.start()
    with within(5.0):
        while not all(one.exists() for one in ready):
            time.sleep(0.01)
    made.stop()
    assert log.read_text().split() == ["worker", "broker"]
