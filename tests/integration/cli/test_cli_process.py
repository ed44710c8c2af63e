"""`noetl` as a program: signals, pipes, terminals, full disks."""

from __future__ import annotations

import json
import logging
import os
import pty
import resource
import signal
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl import bootstrap
from noetl.cli.process import REPEAT_S, drop_repeats
from noetl.config import Settings
from noetl.dispatch import backoff, local
from noetl.errors import Unavailable
from noetl.usecases.start import StartRequest, start
from tests import services, zygote
from tests.gates import Gate
from tests.ports import free_port
from tests.waiting import GUARD_S, until

from .conftest import read_to

Program = Callable[..., "subprocess.Popen[str]"]
Cli = Callable[..., Any]

SLOW = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, path: tests/slow}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: python, input: {n: "{{ iter.n }}"}, code: CODE}
"""


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


def running(program: Program, gate: Gate) -> subprocess.Popen[str]:
    """A run whose loop has three tasks at the gate."""
    Path("slow.yaml").write_text(SLOW.replace("CODE", json.dumps(gate.python("n"))))
    process = program("run", "slow.yaml")
    until(lambda: gate.arrived() == 3 or process.poll() is not None, "three tasks at the gate")
    return process


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.full("SIGINT is tried")),
        pytest.param(signal.SIGHUP, marks=pytest.mark.full("SIGINT is tried")),
    ],
)
def test_a_signal_cancels_the_execution_and_exits_1(
    program: Program, cli: Cli, gate: Gate, number: signal.Signals
) -> None:
    process = running(program, gate)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 1, err
    assert "Cancelling; press Ctrl-C again to leave at once." in err
    assert "cancelled" in err
    assert "Traceback" not in err
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert row["status"] == "cancelled"


def test_under_nohup_a_run_goes_on_when_its_terminal_is_closed(program: Program, gate: Gate) -> None:
    process = running(lambda *argv: program(*argv, true=True, preexec_fn=ignore_hangups), gate)
    process.send_signal(signal.SIGHUP)
    gate.open()
    _, err = process.communicate()
    assert "Cancelling" not in err
    assert process.returncode == 0, err


def ignore_hangups() -> None:
    """What `nohup` does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_second_ctrl_c_leaves_at_once_with_130(program: Program, gate: Gate) -> None:
    process = running(program, gate)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Cancelling" in read_to(process.stderr, "Cancelling")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode in (130, 1)
    assert "Traceback" not in err
    if process.returncode == 130:
        assert err.endswith("Interrupted.\n")


def test_output_to_a_closed_pipe_is_no_failure(program: Program) -> None:
    Path("long.yaml").write_text(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: l, path: tests/l}\n"
        "workflow: [{step: start, tool: {kind: python, code: 'result = list(range(100_000))'}}]\n"
    )
    for argv in (["run", "long.yaml"], ["run", "long.yaml", "--json"], ["execution", "list", "--json"]):
        # How Python ends, which flushes what is left, is seen once.
        process = program(*argv, true=argv[0] == "execution")
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate()
        assert (process.returncode, "Traceback" in err, "Exception" in err) == (0, False, False), err


def test_progress_that_nobody_reads_does_not_stop_the_run(program: Program, cli: Cli) -> None:
    process = program("run", "sum.yaml", stderr=subprocess.STDOUT)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 0
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert row["status"] == "completed"


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(">&-", marks=pytest.mark.long("all at once are tried")),
        pytest.param("2>&-", marks=pytest.mark.long("all at once are tried")),
        pytest.param("<&-", marks=pytest.mark.long("all at once are tried")),
        ">&- 2>&- <&-",
    ],
)
def test_closed_streams_do_not_stop_the_run(closed: str) -> None:
    line = f"exec {sys.executable} -m noetl run sum.yaml {closed}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def main_of(*commands: list[str], behind: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """What one process of Python writes that carries out these commands, one behind another, and
    then the lines `behind`."""
    code = "import atexit, gc, sys\nfrom noetl.cli.main import main\n"
    for argv in commands:
        code += f"try: main({argv!r})\nexcept SystemExit as ended: print(ended.code)\n"
    return subprocess.run(
        [sys.executable, "-c", code + behind],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_names_and_terminals_of_other_encodings_are_no_defect() -> None:
    name = os.fsdecode(b"gr\xfc\xdfe.yaml")
    Path(name).write_bytes(Path("sum.yaml").read_bytes())
    wrong = os.fsdecode(b"wr\xfc.yaml")
    Path(wrong).write_text("x: [")
    ended = main_of(
        ["run", name, "--json"],
        ["sql", "SELECT '\N{CHECK MARK}' AS x"],
        ["validate", wrong, "--format", "sarif"],
        PYTHONIOENCODING="latin-1",
    )
    for shown in ('"completed"', "2713", '"uri": "wr%5Cudcfc.yaml"'):
        assert shown in ended.stdout, ended.stderr
    assert "Traceback" not in ended.stderr


def test_ctrl_c_while_modules_are_imported_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "noetl", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=GUARD_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (-signal.SIGINT, "")


GO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: go, path: tests/go}
workflow: [{step: start, tool: {kind: python, code: CODE}}]
"""


needs_prlimit = pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process are set on Linux only"
)
FULL = (1, resource.RLIM_INFINITY)


def at_the_gate(program: Program, gate: Gate) -> subprocess.Popen[str]:
    """A run whose only task is at the gate."""
    Path("go.yaml").write_text(GO.replace("CODE", json.dumps(gate.python())))
    process = program("run", "go.yaml")
    until(lambda: gate.arrived() == 1 or process.poll() is not None, "the task at the gate")
    return process


@needs_prlimit
def test_a_disk_that_fills_up_is_reported_in_few_lines_and_the_run_goes_on_when_there_is_room(
    program: Program, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_LEASE_S", "1")
    process = at_the_gate(program, gate)
    assert process.stderr is not None
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, FULL)
    gate.open()
    said = read_to(process.stderr, "What is due waits: The database")
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
    said += process.communicate()[1]
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert said.count("What is due waits: The database") == 1, said
    assert len(said.splitlines()) < 15, said


@needs_prlimit
def test_a_signal_ends_a_run_whose_database_cannot_be_written_and_another_process_goes_on(
    program: Program, cli: Cli, gate: Gate
) -> None:
    process = at_the_gate(program, gate)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, FULL)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out) == (1, ""), err
    gate.open()
    (row,) = json.loads(cli("execution", "list", "--json").out)
    resume = f"noetl execution resume {row['execution_id']}"
    assert "error: It is not cancelled: The database " in err
    assert f"Once that is mended, `{resume}` goes on with it" in err
    assert cli(*resume.split()[1:]).code == 0


@pytest.mark.parametrize("verb", ["advance", "sweep"])
def test_a_run_that_can_do_nothing_of_what_is_due_ends_with_the_reason(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def refuse(_: object) -> None:
        raise Unavailable("There is no room left.")

    monkeypatch.setattr(local, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(backoff, "FIRST_S", 0.01)
    monkeypatch.setattr(local, verb, refuse)
    Path("long.yaml").write_text(WAITING)
    ended = cli("run", "long.yaml")
    assert (ended.code, ended.out) == (1, "")
    assert "error: What is due has failed for 0 s: There is no room left. Execution " in ended.err


WAITING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waiting, path: tests/waiting}
workflow: [{step: start, tool: {kind: wait, signal: go}}]
"""


#: `noetl run sum.yaml` where a turn fails with a defect.
DEFECTIVE = """
from noetl.cli.main import main
from noetl.dispatch import local
from noetl.usecases.turn import deciding

def stumble(*_):
    raise KeyError("no such place")

local.GIVE_UP_S = 0.0
deciding._open = stumble
main(["run", "sum.yaml"])
"""


@pytest.mark.parametrize("level", ["WARNING", "DEBUG"])
def test_a_run_that_a_defect_keeps_from_going_on_ends_with_the_cause_and_is_resumed_behind_it(
    cli: Cli, level: str
) -> None:
    Path("defective.py").write_text(DEFECTIVE)
    ended = zygote.run(
        ["defective"], env={**os.environ, "NOETL_LOG_LEVEL": level}, capture_output=True, text=True
    )
    (row,) = json.loads(cli("execution", "list", "--json").out)
    execution_id = row["execution_id"]
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        f"error: What is due has failed for 0 s: Execution {execution_id} cannot go on: NoETL has a defect "
        "here: KeyError: 'no such place'. Set NOETL_LOG_LEVEL=DEBUG for its traceback, and report it. "
        f"Execution {execution_id} is left as it is. Once that is mended, "
        f"`noetl execution resume {execution_id}` goes on with it"
    ) in ended.stderr
    assert ("Traceback" in ended.stderr) is (level == "DEBUG")
    resumed = cli("execution", "resume", execution_id)
    assert (resumed.code, json.loads(resumed.out)) == (0, {"sum": 3, "a": 1})


def test_the_same_line_is_logged_once_in_a_while() -> None:
    handler = logging.Handler()
    logging.getLogger().addHandler(handler)
    try:
        drop_repeats()
    finally:
        logging.getLogger().removeHandler(handler)

    def is_shown(message: str, created: float) -> bool:
        return bool(handler.filter(logging.makeLogRecord({"msg": message, "created": created})))

    assert [is_shown("away", at) for at in (0.0, 1.0, REPEAT_S - 1, REPEAT_S + 1)] == [
        True,
        False,
        False,
        True,
    ]
    assert is_shown("another", 1.0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
def test_a_full_disk_is_said_so(program: Program) -> None:
    with open("/dev/full", "w") as full:
        process = program("run", "sum.yaml", "-q", stdout=full)
        _, err = process.communicate()
    assert process.returncode == 1
    assert "error: The output cannot be written: No space left on device; make room there." in err
    assert "Traceback" not in err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no file without an end to offer")
def test_a_file_without_an_end_is_refused_before_memory_is_full(program: Program) -> None:
    for argv in (
        ("run", "/dev/zero"),
        ("validate", "/dev/zero"),
        ("run", "sum.yaml", "--payload", "/dev/zero"),
    ):
        out, err = program(*argv).communicate()
        assert "'/dev/zero' has more than 16 MiB" in out + err


def on_a_terminal(argv: list[str], **environ: str) -> tuple[int, str]:
    """Runs `noetl` with a pseudo-terminal as its streams; returns the exit code and what it
    wrote."""
    ours, theirs = pty.openpty()
    process = zygote.Popen(
        ["noetl", *argv],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", **environ},
    )  # fmt: skip
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says EIO where others say end of file
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    return process.wait(), written.decode()


@pytest.mark.full("three processes for a colour")
def test_a_terminal_gets_colours_unless_it_wants_none() -> None:
    code, shown = on_a_terminal(["run", "failing.yaml"])
    assert code == 1
    assert "\x1b[31m" in shown
    assert "✗" in shown
    code, plain = on_a_terminal(["run", "failing.yaml"], NO_COLOR="1")
    assert code == 1
    assert "\x1b[31m" not in plain
    assert "failing.yaml:12: error: ValueError" in plain


def test_ids_are_whole_in_narrow_terminals(cli: Cli) -> None:
    number = json.loads(cli("run", "failing.yaml", "--json").out)["execution_id"]
    _, shown = on_a_terminal(["execution", "list"], COLUMNS="60")
    assert number in shown


def test_commands_import_nothing_that_they_do_not_need_and_end_without_collecting_it() -> None:
    """What makes commands start slowly: the stack's frameworks, migrations, drawing, other
    databases; for one that validates, tools that the playbook does not use: all of them together
    would be a fifth of what it costs. To look through everything that was imported, at the end,
    costs a short run a quarter of its time."""
    Path("slow.yaml").write_text(SLOW.replace("CODE", "result = 1"))
    heavy = (
        "heavy = {'celery', 'kombu', 'flask', 'alembic', 'rich', 'duckdb', 'requests', 'redis', 'cirq', "
        "'numpy', 'pandas', 'cryptography', 'gunicorn', 'fsspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    tools = (
        "from noetl.tools.kit.registry import entry_points\n"
        "modules = {kind: point.module for kind, point in entry_points().items()}\n"
        "before = set(sys.modules)\n"
        "@atexit.register\n"
        "def say():\n"
        "    kinds = [kind for kind, name in modules.items() if name in set(sys.modules) - before]\n"
        "    print(kinds, gc.get_count() < (9999,), gc.get_freeze_count() > 50_000, gc.isenabled(), "
        "file=sys.stderr)\n"
        "main(['validate', 'slow.yaml'])"
    )
    ended = main_of(["execution", "list"], ["run", "sum.yaml", "-q"], behind=heavy + tools)
    said = ended.stderr.splitlines()
    assert ended.returncode == 0, said
    assert "[]" in said
    assert said[-1] == "['python'] True True True"


def test_a_home_that_cannot_be_written_is_said_so(program: Program, tmp_path: Path) -> None:
    home = tmp_path / "locked"
    home.mkdir(mode=0o500)
    # Permissions mean nothing to root; a path below /proc cannot be made by anybody.
    place = str(home) if os.geteuid() else "/proc/noetl"
    process = program("run", "sum.yaml", "-q", env={**os.environ, "NOETL_HOME": place})
    out, err = process.communicate()
    assert process.returncode in (1, 2)
    assert (out, len(err.splitlines())) == ("", 1)
    assert place in err


ONCE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: once, path: tests/once}
workload: {mark: ""}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    next: slow
  - step: slow
    tool:
      kind: python
      input: {mark: "{{ workload.mark }}"}
      code: |
        import pathlib, time
        if not pathlib.Path(mark).exists():
            pathlib.Path(mark).touch()
            time.sleep(600)
        result = "gone on"
"""


def test_resume_goes_on_at_once_after_a_kill(
    program: Program, cli: Cli, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease would last for ten minutes; the lock of the home says that its holder is gone."""
    monkeypatch.setenv("NOETL_LEASE_S", "600")
    Path("once.yaml").write_text(ONCE)
    mark = tmp_path / "mark"
    process = program("run", "once.yaml", "--set", f"mark={mark}", "-q")
    until(lambda: mark.exists() or process.poll() is not None, "the task to begin")
    assert len(list((home / "locks").iterdir())) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (row,) = json.loads(cli("execution", "list", "--json").out)

    resumed = program("execution", "resume", row["execution_id"])
    try:
        out, err = resumed.communicate()
    finally:
        resumed.kill()

    assert (resumed.returncode, out.strip()) == (0, "gone on"), err
    report = json.loads(cli("execution", "show", row["execution_id"], "--json").out)
    assert [step["runs"] for step in report["steps"].values()] == [1, 1]
    assert list((home / "locks").iterdir()) == []


def test_one_process_goes_on_with_an_execution_and_others_learn_of_it(
    program: Program, cli: Cli, gate: Gate, home: Path
) -> None:
    code = gate.python() + "result = 'gone on'"
    Path("go.yaml").write_text(GO.replace("CODE", json.dumps(code)))
    holder = program("run", "go.yaml", "-q")
    until(lambda: gate.arrived() == 1 or holder.poll() is not None, "the task at the gate")
    (row,) = json.loads(cli("execution", "list", "--json").out)
    execution = str(row["execution_id"])
    refused = cli("execution", "resume", execution)
    assert (refused.code, "runs in another process of this machine" in refused.err) == (1, True)
    assert cli("execution", "pause", execution).code == 0
    paused = cli("execution", "resume", execution)
    assert (paused.code, paused.out, paused.err) == (0, f"{execution}: resumed (now running).\n", "")

    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    both = [program("execution", "resume", execution) for _ in range(2)]
    until(lambda: gate.arrived() == 2, "one of them at the gate")
    # Which of them asks first is open: the other one is told while the first one is at work.
    until(lambda: any(one.poll() is not None for one in both), "the other one to leave")
    gate.open()
    ended = {one.communicate()[0].strip(): one.returncode for one in both}
    assert ended == {"gone on": 0, "": 1}
    report = json.loads(cli("execution", "show", execution, "--json").out)
    assert (report["status"], report["steps"]["start"]["runs"]) == ("completed", 1)
    assert list((home / "locks").iterdir()) == []


def test_cancel_ends_an_execution_that_another_process_runs(
    program: Program, cli: Cli, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    Path("once.yaml").write_text(ONCE)
    holder = program("run", "once.yaml", "--set", f"mark={mark}", "-q")
    until(lambda: mark.exists() or holder.poll() is not None, "the task to begin")
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert cli("execution", "cancel", row["execution_id"]).out.endswith("(now cancelled).\n")
    holder.communicate()
    assert holder.returncode == 1


def test_one_run_behind_another_adds_nothing_to_the_log_of_their_process(cli: Cli) -> None:
    def filters() -> list[int]:
        return [len(handler.filters) for handler in logging.getLogger().handlers]

    assert cli("run", "sum.yaml", "-q").code == 0
    once = filters()
    assert sum(once) > 0
    assert cli("run", "sum.yaml", "-q").code == 0
    assert filters() == once


class HangingUp(socketserver.BaseRequestHandler):
    """A broker that hangs up, and counts how often it was called."""

    calls = 0

    def handle(self) -> None:
        type(self).calls += 1


def test_a_sweeper_does_not_repeat_itself_while_the_broker_is_away(
    program: Program, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("once.yaml").write_text(ONCE)
    assert cli("catalog", "register", "once.yaml").code == 0
    settings = Settings.from_env()
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
    start(rt, StartRequest("tests/once"))
    bootstrap.close(rt)
    monkeypatch.setenv("NOETL_RESEND_S", "1")
    with socketserver.TCPServer(("127.0.0.1", 0), HangingUp) as broker:
        threading.Thread(target=broker.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("NOETL_BROKER_URL", f"redis://127.0.0.1:{broker.server_address[1]}/0")
        sweeper = program("sweeper", "--interval", "0.1")
        said = read_to(sweeper.stderr, "does not answer")
        before = HangingUp.calls
        until(lambda: HangingUp.calls > before + 20, "the broker to be called again and again")
        sweeper.terminate()
        said += sweeper.communicate()[1]
        broker.shutdown()
    assert said.count("What is due waits: The broker does not answer: ") == 1, said


def test_a_defect_ends_one_sweep_and_no_sweeper(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    swept = []

    def sweep(_: object) -> None:
        swept.append("")
        if len(swept) == 1:
            raise ZeroDivisionError
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("noetl.cli.services.sweep", sweep)
    assert cli("sweeper", "--interval", "0.1").code == 0
    assert len(swept) == 2
    assert "A sweep failed; the next one goes on" in caplog.text


def test_a_misspelt_key_stops_a_run_and_warnings_are_reported(program: Program) -> None:
    Path("typo.yaml").write_text(SLOW.replace("CODE", "result = 1").replace("tool:", "tools:"))
    typo = program("run", "typo.yaml")
    out, err = typo.communicate()
    assert (typo.returncode, out) == (2, "")
    assert "typo.yaml:7:5: error[NOETL212]: the key 'tools' means nothing here (did you mean 'tool'?)" in err

    Path("odd.yaml").write_text(Path("sum.yaml").read_text() + "remark: 1\n")
    warned = program("run", "odd.yaml", "-q")
    out, err = warned.communicate()
    assert warned.returncode == 0
    assert "odd.yaml:9:1: warning[NOETL250]: the key 'remark' means nothing here" in err


def test_warnings_are_returned_by_register_and_refused_by_strict(cli: Cli) -> None:
    Path("odd.yaml").write_text(Path("sum.yaml").read_text() + "remark: 1\n")
    [row] = json.loads(cli("catalog", "register", "odd.yaml", "--json").out)
    assert [one["code"] for one in row["warnings"]] == ["NOETL250"]
    assert "odd.yaml:9:1: warning[NOETL250]" in cli("catalog", "register", "odd.yaml").err
    assert "NOETL250" not in cli("run", "odd.yaml", "--json").err
    refused = cli("run", "--strict", "odd.yaml")
    assert (refused.code, refused.out) == (2, "")
    assert "odd.yaml:9:1: error[NOETL250]" in refused.err
    assert cli("run", "--strict", "sum.yaml").code == 0


@pytest.mark.redis
@pytest.mark.parametrize(
    ("argv", "theirs"),
    [(["scheduler"], "celery.py"), (["worker", "-Q", "http"], "celery.py"), (["server"], "gunicorn.py")],
    ids=lambda part: part[0] if isinstance(part, list) else None,
)
def test_a_service_is_not_the_module_of_the_folder_that_is_called_like_its_program(
    argv: list[str], theirs: str, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / theirs).write_text("raise SystemExit('this is not yours')")
    outside = {name: value for name, value in os.environ.items() if not name.startswith("NOETL_")}
    settings = {"HOME": tmp_path, "BROKER_URL": redis_url, "PORT": free_port(), "LOG_LEVEL": "INFO"}
    environment = {**outside, **{f"NOETL_{name}": str(value) for name, value in settings.items()}}
    log, address = tmp_path / "log", ("127.0.0.1", settings["PORT"])
    argv = [str(Path(sys.executable).with_name("noetl")), *argv]

    def answers() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(address) == 0

    with services.started(argv, log, env=environment, cwd=tmp_path) as process:

        def is_up() -> bool:
            assert process.poll() is None, log.read_text()
            return " ready." in log.read_text() or answers()

        until(is_up, log.read_text)
