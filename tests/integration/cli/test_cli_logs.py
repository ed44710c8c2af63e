"""What user code prints, from where people stand: the command, another process, an HTTP client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from werkzeug.serving import make_server

from noetl import bootstrap
from noetl.api.app import create_app
from noetl.cli.printed import FamilyLog
from noetl.cli.remote import RemoteExecution
from noetl.client import Client
from noetl.config import Settings
from noetl.tools.code.runner import sandbox
from tests.gates import Gate
from tests.waiting import GUARD_S, until

from .conftest import Cli

Program = Callable[..., "subprocess.Popen[str]"]

SECRET = "cAnArY-7f3d-91e2-bird"
PEM = "-----BEGIN KEY-----\n" + "\n".join(f"{n}IEvQIBADANBgkqhkiG9w0BAQEFAASC{n}" for n in range(9))
PEM += "\nAb1=\n-----END KEY-----\n"

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: prints, path: tests/prints}
keychain: [{name: k, kind: credential, credential: who}]
workflow:
  - step: start
    tool:
      kind: python
      input: {secret: "{{ keychain.k.secret }}", pem: "{{ keychain.k.pem }}"}
      code: |
        import fcntl, os, sys, termios
        print("first", flush=True)
        def was_read():
            return not any(fcntl.ioctl(1, termios.FIONREAD, bytes(4)))
        for part in (secret[:9], secret[9:], "\\n"):
            os.write(1, part.encode())
            while not was_read(): os.sched_yield()
        for line in pem.splitlines():
            print(line, flush=True)
        print("to stderr", file=sys.stderr)
    next: each
  - step: each
    loop: {in: [a, b, c], iterator: x, spec: {mode: parallel}}
    tool: {kind: shell, command: "echo it is {{ iter.x }}", spec: {isolation: BOX}}
    next: inline
  - step: inline
    tool: {kind: python, code: "print('from inside')", spec: {isolation: inline}}
    next: fails
  - step: fails
    tool:
      kind: python
      code: |
        for n in range(30): print("line", n)
        raise ValueError("no")
"""


@pytest.fixture
def prints(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> str:
    """The text of a playbook that prints a secret, and whose credential is set."""
    monkeypatch.setenv("NOETL_PYTHON_INLINE", "1")
    data = json.dumps({"secret": SECRET, "pem": PEM})
    assert cli("credential", "set", "who", "--type", "generic", "--data", data).code == 0
    text = PLAYBOOK.replace("BOX", "process" if sandbox.trouble() else "sandbox")
    Path("prints.yaml").write_text(text)
    return text


def newest(cli: Cli) -> str:
    return str(json.loads(cli("execution", "list", "--json").out)[0]["execution_id"])


def test_a_run_shows_the_last_lines_of_what_failed_and_its_log_can_be_asked_for(
    cli: Cli, prints: str
) -> None:
    ran = cli("run", "-v", "prints.yaml")
    assert ran.code == 1
    told, _, last = ran.err.partition("The last lines that step fails printed:\n")
    assert "ValueError: no" in told
    *printed, again = last.splitlines()
    assert printed == [f"  | line {n}" for n in range(20, 30)]
    assert "noetl execution retry" in again
    wanted = [
        "start | first",
        "start | ***",
        "start | to stderr",
        "each[1] | it is b",
        "inline | from inside",
    ]
    assert [line for line in wanted if line not in told.splitlines()] == []
    assert told.index("start | first") < told.index("start: done")

    execution = newest(cli)
    every = cli("execution", "logs", execution, "-f")
    assert [line for line in wanted if line not in every.out.splitlines()] == []
    assert (
        cli("execution", "logs", execution, "--step", "each", "--iteration", "2").out == "each[2] | it is c\n"
    )
    assert cli("execution", "logs", execution, "--step", "fails", "--attempt", "2").out == ""
    (one,) = cli("execution", "logs", execution, "--iteration", "0", "--json").out.splitlines()
    found = json.loads(one)
    assert (found["text"], found["stream"], found["attempt"], found["delivery"]) == (
        "it is a\n",
        "stdout",
        1,
        1,
    )
    rows = json.loads(cli("sql", "select step, text, start from log where stream = 'stderr'", "--json").out)
    assert rows == [{"step": "start", "text": "to stderr\n", "start": 0}]
    assert cli("run", "prints.yaml", "--json").err == ""
    exported = cli("export", "--to", "out", "--format", "jsonl")
    assert exported.code == 0
    texts = [json.loads(line)["text"] for line in Path("out/log/part-000001.jsonl").read_text().splitlines()]
    assert sum(text.count("it is b") for text in texts) == 2
    cli("export", "--to", "out")
    assert not Path("out/log/part-000002.jsonl").exists(), "nothing was new"

    # What is secret is found nowhere: in no output, and in no file, the database among them.
    secrets = [SECRET, *(line for line in PEM.splitlines() if len(line) > 3)]
    files = [path for path in Path().rglob("*") if path.is_file()]
    held = {str(path): path.read_bytes() for path in [*files, *Path(os.environ["NOETL_HOME"]).rglob("*.db*")]}
    held |= {"run": ran.err.encode(), "logs": every.out.encode()}
    assert [(one, name) for one in secrets for name, text in held.items() if one.encode() in text] == []


KILLED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: killed, path: tests/killed}
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import time
        for n in range(3):
            print("x" * 40_000, n)
        print("printed before")
        time.sleep(600)
"""


def test_what_a_task_prints_is_kept_while_it_runs_and_stays_when_the_run_is_killed(
    cli: Cli, program: Program
) -> None:
    Path("killed.yaml").write_text(KILLED)
    run = program("run", "-q", "killed.yaml")
    until(lambda: json.loads(cli("execution", "list", "--json").out) or run.poll() is not None, "the run")

    def last_line() -> str:
        return (cli("execution", "logs", newest(cli)).out.splitlines() or [""])[-1]

    until(lambda: last_line() == "start | printed before" or run.poll() is not None, last_line)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert last_line() == "start | printed before"


@pytest.fixture
def server() -> Iterator[str]:
    """The API over the database of the command."""
    settings = Settings.from_env()
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
    serving = make_server("127.0.0.1", 0, create_app(rt, settings), threaded=True)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    bootstrap.close(rt)


FLOOD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: flood, path: tests/flood}
workflow:
  - step: odd
    tool:
      kind: python
      code: |
        import os
        os.write(1, b"caf\\xc3"); os.write(1, b"\\xa9 10%\\r100% \\x00 \\xff \\x1b[31mred\\x1b[0m")
    next: flood
  - step: flood
    tool:
      kind: python
      code: |
        import os
        os.write(1, b"the beginning\\n")
        for n in range(1500):
            os.write(1, b"x" * 100_000)  # one line of 150 MB
        os.write(1, b"\\nthe end\\n")
"""


#: Runs its arguments and prints the most memory that they had, in kB. A process that pytest starts
#: itself counts what pytest has: its peak includes the moment between fork and exec.
PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


@pytest.mark.full("a load")
def test_of_a_flood_64_mib_are_kept_and_a_note_and_memory_stays_flat(cli: Cli) -> None:
    Path("flood.yaml").write_text(FLOOD)
    run = [sys.executable, "-m", "noetl", "run", "-q", "flood.yaml"]
    peak = subprocess.run([sys.executable, "-c", PEAK, *run], capture_output=True, text=True, check=True)
    assert int(peak.stdout) < 250_000, "kB"

    odd = json.loads(cli("execution", "logs", newest(cli), "--step", "odd", "--json").out.splitlines()[-1])
    assert odd["text"].endswith(
        "10%\r100% \N{REPLACEMENT CHARACTER} \N{REPLACEMENT CHARACTER} \x1b[31mred\x1b[0m"
    )
    pieces = cli("execution", "logs", newest(cli), "--step", "flood", "--json").out.splitlines()
    chunks = [json.loads(piece) for piece in pieces]
    assert chunks[0]["text"].startswith("the beginning\n")
    assert chunks[-1]["text"].endswith("the end\n")
    notes = [chunk["text"] for chunk in chunks if chunk["stream"] == "note"]
    kept = sum(len(chunk["text"]) for chunk in chunks if chunk["stream"] == "stdout")
    assert 64 * 1024**2 <= kept < 66 * 1024**2
    lost = sum(int(note.split()[0].strip("[").replace(",", "")) for note in notes)
    assert kept + lost == 150_000_000 + len("the beginning\n\nthe end\n")


CALLING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: NAME, path: tests/NAME}
workload: {n: 0}
workflow:
  - step: says
    tool: {kind: python, input: {n: "{{ n }}"}, code: "print('NAME', n, end='')"}
    next: call
  - step: call
    loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
    tool: {kind: playbook, path: tests/CALLED, input: {n: "{{ workload.n * 10 + iter.n }}"}}
"""
SAYING = CALLING.partition("    next: call")[0]


def test_what_called_playbooks_print_is_shown_with_the_place_of_the_call(cli: Cli, server: str) -> None:
    Path("top.yaml").write_text(CALLING.replace("NAME", "top").replace("CALLED", "middle"))
    Path("middle.yaml").write_text(CALLING.replace("NAME", "middle").replace("CALLED", "below"))
    Path("below.yaml").write_text(SAYING.replace("NAME", "below"))
    expected = ["says | top 0"]
    for n in (1, 2):
        expected += [f"call[{n - 1}] > says | middle {n}"]
        expected += [f"call[{n - 1}] > call[{m - 1}] > says | below {n * 10 + m}" for m in (1, 2)]

    ran = cli("run", "-v", "top.yaml")
    assert ran.code == 0, ran.err
    assert sorted(line for line in ran.err.splitlines() if " | " in line) == sorted(expected)
    rows = json.loads(cli("execution", "list", "--json").out)
    execution = next(str(row["execution_id"]) for row in rows if row["path"] == "tests/top")
    assert cli("execution", "logs", execution).out.splitlines() == expected[:1]
    assert sorted(cli("execution", "logs", execution, "-c", "-f").out.splitlines()) == sorted(expected)
    assert cli("execution", "logs", execution, "--children", "--json").code == 2
    with Client(server) as client:
        log = FamilyLog(RemoteExecution(client, execution), execution)
        assert sorted([*log.new_lines(), *log.rest()]) == sorted(expected)
        assert list(log.new_lines()) == []


def streamed(*commands: str) -> str:
    return (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: streamed, path: tests/streamed}\n"
        f"workflow: [{{step: start, tool: {{kind: shell, command: {json.dumps('; '.join(commands))}}}}}]\n"
    )


def test_a_client_reads_pages_and_a_stream_that_ends_with_the_last_line(
    cli: Cli, program: Program, server: str, tmp_path: Path
) -> None:
    # Behind each line it waits until somebody has read it.
    gates = [Gate(tmp_path / f"read-{n}") for n in range(3)]
    commands = [word for n, gate in enumerate(gates) for word in (f"echo {n}", gate.shell())]
    Path("streamed.yaml").write_text(streamed(*commands))
    cli("catalog", "register", "streamed.yaml")
    run = program("run", "-q", "streamed.yaml")
    found = until(lambda: json.loads(cli("execution", "list", "--json").out), "the run to begin")
    path = f"{server}/api/executions/{found[0]['execution_id']}/logs"

    frames = list[str]()
    with requests.get(path, headers={"Accept": "text/event-stream"}, stream=True, timeout=GUARD_S) as answer:
        for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
            frames += [line] if line else []
            if line.startswith("data: "):
                # The next line is written only then: they come while it runs, or no more comes.
                said = json.loads(line.removeprefix("data: ")).get("text", "")
                for number in said.split():
                    gates[int(number)].open()
    run.communicate()
    assert run.returncode == 0
    data = [json.loads(line.removeprefix("data: ")) for line in frames if line.startswith("data: ")]
    assert "".join(one["text"] for one in data[:-1]) == "0\n1\n2\n"
    assert (frames[-2], data[-1]["status"]) == ("event: end", "completed")

    first = requests.get(path, params={"limit": 1}, timeout=GUARD_S).json()
    assert (first["chunks"][0]["text"], first["next"], first["status"]) == ("0\n", 1, "completed")
    rest = requests.get(path, params={"after": 1}, timeout=GUARD_S).json()
    assert ("".join(one["text"] for one in rest["chunks"]), rest["next"]) == ("1\n2\n", None)
    assert requests.get(path, params={"step": "other"}, timeout=GUARD_S).json()["chunks"] == []
    again = {"Accept": "text/event-stream", "Last-Event-ID": str(data[-2]["seq"])}
    assert requests.get(path, headers=again, timeout=GUARD_S).status_code == 204
    assert requests.get(f"{server}/api/executions/1/logs", timeout=GUARD_S).status_code == 404


def test_logs_expire_with_the_results_of_their_execution(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("streamed.yaml").write_text(streamed("echo 0", "echo 1", "echo 2"))
    assert cli("run", "streamed.yaml").code == 0
    execution = newest(cli)
    monkeypatch.setenv("NOETL_RESULTS_KEEP_S", "3600")
    assert json.loads(cli("result", "gc", "--json").out)["logs"] == 0
    assert cli("execution", "logs", execution).out.startswith("start | 0\n")
    monkeypatch.setenv("NOETL_RESULTS_KEEP_S", "0.01")
    assert json.loads(cli("result", "gc", "--json", "--dry-run").out)["logs"] == 1
    assert json.loads(cli("result", "gc", "--json").out)["logs"] == 1
    assert cli("execution", "logs", execution).out == ""
    assert json.loads(cli("result", "gc", "--json").out)["logs"] == 0
