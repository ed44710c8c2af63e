"""A stack that runs on its own: started, looked at, talked to and stopped by commands typed in the
same home."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from noetl.client import Client
from noetl.store.running import hold_home, is_held
from tests import zygote
from tests.waiting import GUARD_S, until

from .stack import environment, family, kill_all
from .test_up import LONG, is_at_work, left_behind

pytestmark = pytest.mark.acceptance

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    kill_all(left_behind(tmp_path / "home"))


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Run:
    """A command of this environment, in an empty directory. Executed where it is `real`."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def ran(*argv: str, real: bool = False, **settings: str) -> subprocess.CompletedProcess[str]:
        more = {"cwd": elsewhere, "env": environment({"home": home, **settings})}
        if not real:
            return zygote.run(argv, capture_output=True, text=True, **more)
        # As the commands that are installed do: the directory is not searched for modules.
        command = [sys.executable, "-P", "-m", *argv]
        return subprocess.run(command, capture_output=True, text=True, timeout=GUARD_S, check=False, **more)

    return ran


def test_a_detached_stack_is_found_by_whoever_types_in_the_same_home_and_stopped_by_down(
    run: Run, home: Path, tmp_path: Path
) -> None:
    # What stands where somebody types is theirs, whatever it is called.
    theirs = [tmp_path / "elsewhere" / name for name in ("celery.py", "redis.py", "json.py")]
    for module in theirs:
        module.write_text("raise SystemExit('this is not yours')")
    up = run("noetl", "up", "-d", "--port", "0", "-c", "1", real=True, log_json="1", log_level="INFO")
    assert up.returncode == 0, up.stdout + up.stderr
    for module in theirs:
        module.unlink()
    assert "NoETL is up: http://127.0.0.1:" in up.stdout
    assert run("noetl", "up", "-d").returncode == 1

    # Of a broker that takes a second or two to answer it says so.
    until(lambda: run("noetl", "status", "--json").returncode == 0, "all to be well")
    stack = json.loads(run("noetl", "status", "--json").stdout)
    assert stack["running"]
    assert f"NoETL is up: {stack['api']}" in run("noetl", "status").stdout

    # The API answers before workers do, and a question reaches only those that listen by then.
    names = [f"{name}@{socket.gethostname()}" for name in ("scheduler", "code", "io")]
    until(lambda: {f"{name} ready." for name in names} <= messages(home), "workers that listen")
    # celery without any setting talks to the private broker. Who names all whom it asks waits no
    # longer than they need.
    nodes = ",".join(names)
    active = run("celery", "-A", "noetl", "inspect", "active", "-d", nodes, "--timeout", str(GUARD_S))
    assert "3 nodes online" in active.stdout, active.stdout + active.stderr

    roles = ("up", "scheduler", "worker code", "worker code, child", "worker io", "sweeper", "flower")
    expected = {*(f"noetl: {role}" for role in roles), "gunicorn: worker [noetl: server]"}
    pid = stack["pids"]["up"]
    until(lambda: expected <= titles_of(pid), lambda: f"{expected} among {titles_of(pid)}")

    assert {path.stem for path in logs(home)} >= {"server", "scheduler", "worker-code", "flower"}
    assert messages(home) >= {f"{name} ready." for name in names}, "flower and the server say objects too"

    down = run("noetl", "down")
    assert (down.returncode, down.stdout) == (0, f"Stopped {stack['api']}.\n")
    # Processes that are killed are there for a moment behind that.
    until(lambda: left_behind(home) == [], "all of it to be gone")
    assert run("noetl", "status").returncode == 1


@pytest.mark.full("two stacks of its own")
def test_after_a_kill_of_the_whole_stack_nothing_is_said_to_run_and_it_starts_again(
    run: Run, home: Path
) -> None:
    assert run("noetl", "up", "-d", "--port", "0", "--no-flower", "-c", "1").returncode == 0
    stack = json.loads(run("noetl", "status", "--json").stdout)
    with Client(stack["api"]) as client:
        client.start(client.register(LONG).path)
    until(lambda: is_at_work(home), "a task to be at work")

    psutil.Process(stack["pids"]["up"]).kill()
    until(lambda: left_behind(home) == [], "its services and their tasks to go with it")
    # The kernel forgets the environment of a process before it closes its files, and so its lock.
    until(lambda: not is_held(home), "its lock to go with it")

    gone = {"running": False, "starting_or_stopping": False, "home": str(home)}
    # Processes that are killed are there for a moment behind that.
    until(lambda: json.loads(run("noetl", "status", "--json").stdout) == gone, "nothing to be said to run")
    with hold_home(home):  # as a stack does before it answers
        assert json.loads(run("noetl", "status", "--json").stdout) == {**gone, "starting_or_stopping": True}
        assert "just starting or stopping" in run("noetl", "status").stdout
        assert run("noetl", "down").returncode == 1
    assert run("noetl", "up", "-d", "--port", "0", "--no-flower", "-c", "1").returncode == 0
    assert run("noetl", "down").returncode == 0


def test_a_broker_that_does_not_answer_is_said_at_once_and_nothing_is_left_behind(
    run: Run, home: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for url, reason in {
            "redis://:s3cret@127.0.0.1:9/0": "Connection refused. It is the one of NOETL_BROKER_URL "
            "(127.0.0.1:9/0)",
            f"redis://:s3cret@127.0.0.1:{port}/0": "The broker does not answer: Timeout",
            f"rediss://:s3cret@127.0.0.1:{port}/0": "The broker does not answer: Timeout",
            f"amqp://me:s3cret@127.0.0.1:{port}//": "The broker does not answer: timed out",
            "foo://s3cret@x": "NOETL_BROKER_URL begins with foo://",
        }.items():
            up = run("noetl", "up", "--port", "0", broker_url=url)
            assert (up.returncode, reason in up.stderr) == (2 if url.startswith("foo") else 1, True), (
                up.stderr
            )
            assert "is up" not in up.stdout + up.stderr
            assert "s3cret" not in up.stdout + up.stderr
    assert left_behind(home) == []


def test_a_detached_stack_that_does_not_come_up_says_why(run: Run, home: Path) -> None:
    home.mkdir()
    (home / "noetl.db").write_text("this is no database, and long enough to be told from an empty one" * 20)

    up = run("noetl", "up", "-d", "--port", "0")

    assert up.returncode == 1
    assert "noetl.db is damaged (file is not a database); restore it" in up.stderr
    assert "Traceback" not in up.stderr
    assert left_behind(home) == []


def logs(home: Path) -> list[Path]:
    """The logs of what is written in Python."""
    return [path for path in (home / "logs").glob("*.log") if path.stem not in ("up", "redis")]


def messages(home: Path) -> set[str]:
    """What services and their libraries have said so far: each line is a JSON object."""
    lines = [line for path in logs(home) for line in path.read_text().splitlines(keepends=True)]
    return {json.loads(line)["message"] for line in lines if line.endswith("\n") and line.strip()}


def titles_of(stack: int) -> set[str]:
    """What the process of a stack and its descendants are called."""
    titles = set[str]()
    for process in family(stack):
        with suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
            titles.add(b" ".join(words).decode().strip())
    return titles
