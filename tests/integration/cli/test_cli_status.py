"""`noetl status` where `noetl up` does not run: what was started one by one is seen."""

from __future__ import annotations

import json
import socket
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.store.migrate import upgrade
from noetl.usecases.ports import WorkerRow
from tests.ports import free_port

from .conftest import Cli


@pytest.fixture(autouse=True)
def silent_port(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where an API would be, and none is."""
    port = free_port()
    monkeypatch.setenv("NOETL_PORT", str(port))
    return port


def see(*rows: WorkerRow) -> None:
    """Signs of life in the home's database."""
    settings = Settings.from_env()
    settings.make_home()
    upgrade(settings.database)
    store = bootstrap.open_store(settings.database)
    with store.begin() as tx:
        for row in rows:
            tx.workers.see(row)
    store.close()


def row(name: str, role: str, *queues: str, ago_s: float = 2) -> WorkerRow:
    seen = bootstrap.now() - timedelta(seconds=ago_s)
    return WorkerRow(name, role, queues, seen - timedelta(hours=1), seen)


def test_where_nothing_runs_it_says_so_and_makes_no_database(cli: Cli, home: Path, silent_port: int) -> None:
    ended = cli("status")
    assert ended.code == 1
    assert f"no API at http://127.0.0.1:{silent_port}" in ended.out
    assert "`noetl up` starts a stack" in ended.out
    assert not (home / "noetl.db").exists()


def test_processes_that_were_started_by_themselves_are_listed(cli: Cli) -> None:
    see(row("host:1", "scheduler", "scheduler"), row("host:2", "worker", "http", "postgres"))
    said = json.loads(cli("status", "--json").out)
    assert said["running"]
    assert [(one["name"], one["role"], one["queues"]) for one in said["processes"]] == [
        ("host:1", "scheduler", ["scheduler"]),
        ("host:2", "worker", ["http", "postgres"]),
    ]
    assert said["health"]["api"]["status"] == "down"


def test_a_deployment_without_a_scheduler_is_not_well_and_is_told_what_to_start(cli: Cli) -> None:
    killed = subprocess.Popen(["true"])
    killed.wait()
    see(
        row("host:2", "worker", "http"),
        row("host:1", "scheduler", "scheduler", ago_s=3600),
        row(f"{socket.gethostname()}:{killed.pid}", "scheduler", "scheduler"),
    )
    ended = cli("status")
    assert ended.code == 1
    assert "start `noetl scheduler`" in ended.out
    assert "host:2" in ended.out
    assert "host:1" not in ended.out
