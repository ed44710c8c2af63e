"""`noetl` as a program: signals, pipes, terminals, full disks."""

from __future__ import annotations

import json
import logging
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases.start import StartRequest, start
from tests import services
from tests.pace import within
from tests.ports import free_port

Program = Callable[..., "subprocess.Popen[str]"]
Cli = Callable[..., Any]

SLOW = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, path: tests/slow}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: python, code: "import time; time.sleep(60)"}
"""


def running(program: Program) -> subprocess.Popen[str]:
    """A run whose loop is known to have begun."""
    Path("slow.yaml").write_text(SLOW)
    process = program("run", "slow.yaml")
    assert process.stderr is not None
    for line in process.stderr:
        if "loop over 3 items" in line:
            break
    time.sleep(0.3)
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
    program: Program, cli: Cli, number: signal.Signals
) -> None:
    process = running(program)
    process.send_signal(number)
    with within(6.0):
        _, err = process.communicate(timeout=20)
        assert process.returncode == 1, err
    assert "Cancelling; press Ctrl-C again to leave at once." in err
    assert "cancelled" in err
    assert "Traceback" not in err
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert row["status"] == "cancelled"


def test_under_nohup_a_run_goes_on_when_its_terminal_is_closed(program: Program) -> None:
    process = running(lambda *argv: program(*argv, preexec_fn=ignore_hangups))
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    # One signal was heard: a second one would have ended it with 130, at once.
    assert "Cancelling; press Ctrl-C again to leave at once." in err
    assert process.returncode == 1, err


def ignore_hangups() -> None:
    """What `nohup` does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_a_second_ctrl_c_leaves_at_once_with_130(program: Program) -> None:
    process = running(program)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Cancelling" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    with within(3.0):
        _, err = process.communicate(timeout=20)
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
        process = program(*argv)
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=20)
        assert (process.returncode, "Traceback" in err, "Exception" in err) == (0, False, False), err


def test_progress_that_nobody_reads_does_not_stop_the_run(program: Program, cli: Cli) -> None:
    process = program("run", "sum.yaml", stderr=subprocess.STDOUT)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=20) == 0
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert row["status"] == "completed"


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param(">&-", marks=pytest.mark.full("all at once are tried")),
        pytest.param("2>&-", marks=pytest.mark.full("all at once are tried")),
        pytest.param("<&-", marks=pytest.mark.full("all at once are tried")),
        ">&- 2>&- <&-",
    ],
)
def test_closed_streams_do_not_stop_the_run(closed: str) -> None:
    line = f"exec {sys.executable} -m noetl run sum.yaml {closed}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=20, check=False)
    assert ended.returncode == 0
    assert "Traceback" not in ended.stderr


def test_names_and_terminals_of_other_encodings_are_no_defect(program: Program) -> None:
    name = os.fsdecode(b"gr\xfc\xdfe.yaml")
    Path(name).write_bytes(Path("sum.yaml").read_bytes())
    for argv, shown in (
        (["run", name, "--json"], '"completed"'),
        (["sql", "SELECT '\N{CHECK MARK}' AS x"], "2713"),
    ):
        out, err = program(*argv, env={**os.environ, "PYTHONIOENCODING": "latin-1"}).communicate(timeout=30)
        assert shown in out, err
    Path(name).write_text("x: [")
    out, _ = program("validate", name, "--format", "sarif").communicate(timeout=30)
    assert '"uri": "gr%5Cudcfc%5Cudcdfe.yaml"' in out


def test_ctrl_c_while_modules_are_imported_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-m", "noetl", "--version"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (ended.returncode, ended.stdout + ended.stderr) == (-signal.SIGINT, "")


GO = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: go, path: tests/go}
workload: {go: ""}
workflow:
  - step: start
    tool:
      kind: python
      input: {go: "{{ workload.go }}"}
      code: |
        import os, time
        while not os.path.exists(go):
            time.sleep(0.02)
"""


@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits of another process are set on Linux only"
)
def test_a_disk_that_fills_up_is_reported_in_few_lines_and_the_run_goes_on_when_there_is_room(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_LEASE_S", "1")
    Path("go.yaml").write_text(GO)
    go = tmp_path / "go"
    process = program("run", "go.yaml", "--set", f"go={go}")
    assert process.stderr is not None
    while "start: started" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    before = resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    go.touch()
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert err.count("What is due waits: The database") == 1, err
    assert "Press Ctrl-C again to leave it as it is." in err
    assert len(err.splitlines()) < 15, err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
def test_a_full_disk_is_said_so(program: Program) -> None:
    with open("/dev/full", "w") as full:
        process = program("run", "sum.yaml", "-q", stdout=full)
        _, err = process.communicate(timeout=20)
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
        out, err = program(*argv).communicate(timeout=20)
        assert "'/dev/zero' has more than 16 MiB" in out + err


def on_a_terminal(argv: list[str], **environ: str) -> tuple[int, str]:
    """Runs `noetl` with a pseudo-terminal as its streams; returns the exit code and what it
    wrote."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", *argv],
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
    return process.wait(timeout=20), written.decode()


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


def test_a_run_imports_nothing_that_it_does_not_need() -> None:
    """What makes `noetl run` start slowly: the stack's frameworks, migrations, drawing, other
    databases."""
    code = (
        "import sys\nfrom noetl.cli.main import main\n"
        "try: main(['run', 'sum.yaml', '-q'])\nexcept SystemExit as ended: assert not ended.code\n"
        "heavy = {'celery', 'kombu', 'flask', 'alembic', 'rich', 'duckdb', 'requests', 'redis', 'cirq', "
        "'numpy', 'pandas', 'cryptography', 'gunicorn', 'fsspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_validating_imports_only_the_tools_of_the_playbook() -> None:
    """All of them together would be a fifth of what `noetl validate` of a small playbook costs."""
    Path("slow.yaml").write_text(SLOW)
    code = (
        "import sys\nfrom noetl.cli.main import main\n"
        "try: main(['validate', 'slow.yaml'])\nexcept SystemExit as ended: assert not ended.code\n"
        "from noetl.tools.kit.registry import entry_points\n"
        "modules = {kind: point.module for kind, point in entry_points().items()}\n"
        "print([kind for kind, name in modules.items() if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr.splitlines()[-1] == "['python']"


def test_reading_commands_import_no_broker() -> None:
    code = (
        "import sys\nfrom noetl.cli.main import main\n"
        "try: main(['execution', 'list'])\nexcept SystemExit as ended: assert not ended.code\n"
        "print(sorted({'celery', 'kombu', 'rich', 'flask'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_a_home_that_cannot_be_written_is_said_so(program: Program, tmp_path: Path) -> None:
    home = tmp_path / "locked"
    home.mkdir(mode=0o500)
    # Permissions mean nothing to root; a path below /proc cannot be made by anybody.
    place = str(home) if os.geteuid() else "/proc/noetl"
    process = program("run", "sum.yaml", "-q", env={**os.environ, "NOETL_HOME": place})
    out, err = process.communicate(timeout=20)
    assert process.returncode in (1, 2)
    assert (out, len(err.splitlines())) == ("", 1)
    assert place in err


def test_a_run_ends_without_collecting_what_it_imported() -> None:
    """Looking through everything that was imported costs a short run a quarter of its time."""
    code = (
        "import atexit, gc, sys\nfrom noetl.cli.main import main\n"
        "atexit.register(lambda: print(gc.get_count() < (9999,), gc.get_freeze_count() > 50_000, "
        "gc.isenabled(), file=sys.stderr))\n"
        "main(['run', 'sum.yaml', '-q'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert ended.stderr.splitlines()[-1] == "True True True"


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
    while not mark.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    assert len(list((home / "locks").iterdir())) == 1
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    (row,) = json.loads(cli("execution", "list", "--json").out)

    resumed = program("execution", "resume", row["execution_id"])
    try:
        out, err = resumed.communicate(timeout=60)
    finally:
        resumed.kill()

    assert (resumed.returncode, out.strip()) == (0, "gone on"), err
    report = json.loads(cli("execution", "show", row["execution_id"], "--json").out)
    assert [step["runs"] for step in report["steps"].values()] == [1, 1]
    assert list((home / "locks").iterdir()) == []


def test_one_process_goes_on_with_an_execution_and_others_learn_of_it(
    program: Program, cli: Cli, tmp_path: Path, home: Path
) -> None:
    mark, go = tmp_path / "mark", tmp_path / "go"
    text = ONCE.replace("time.sleep(600)", "")
    wait = f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)"
    Path("once.yaml").write_text(text.replace('result = "gone on"', f'{wait}\n        result = "gone on"'))
    holder = program("run", "once.yaml", "--set", f"mark={mark}", "-q")
    while not mark.exists():
        assert holder.poll() is None, holder.communicate()
        time.sleep(0.02)
    (row,) = json.loads(cli("execution", "list", "--json").out)
    execution = str(row["execution_id"])
    refused = cli("execution", "resume", execution)
    assert (refused.code, "runs in another process of this machine" in refused.err) == (1, True)
    assert cli("execution", "pause", execution).code == 0
    paused = cli("execution", "resume", execution)
    assert (paused.code, paused.out, paused.err) == (0, f"{execution}: resumed (now running).\n", "")

    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=20)
    mark.unlink()
    both = [program("execution", "resume", execution) for _ in range(2)]
    while not mark.exists():
        time.sleep(0.02)
    # Which of them asks first is open: the other one is told while the first one is at work.
    while all(one.poll() is None for one in both):
        time.sleep(0.02)
    go.touch()
    ended = {one.communicate(timeout=60)[0].strip(): one.returncode for one in both}
    assert ended == {"gone on": 0, "": 1}
    report = json.loads(cli("execution", "show", execution, "--json").out)
    assert (report["status"], report["steps"]["slow"]["runs"]) == ("completed", 1)
    assert list((home / "locks").iterdir()) == []


def test_cancel_ends_an_execution_that_another_process_runs(
    program: Program, cli: Cli, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    Path("once.yaml").write_text(ONCE)
    holder = program("run", "once.yaml", "--set", f"mark={mark}", "-q")
    while not mark.exists():
        assert holder.poll() is None, holder.communicate()
        time.sleep(0.02)
    (row,) = json.loads(cli("execution", "list", "--json").out)
    assert cli("execution", "cancel", row["execution_id"]).out.endswith("(now cancelled).\n")
    holder.communicate(timeout=20)
    assert holder.returncode == 1


def test_one_run_behind_another_adds_nothing_to_the_log_of_their_process(cli: Cli) -> None:
    def filters() -> list[int]:
        return [len(handler.filters) for handler in logging.getLogger().handlers]

    assert cli("run", "sum.yaml", "-q").code == 0
    once = filters()
    assert sum(once) > 0
    assert cli("run", "sum.yaml", "-q").code == 0
    assert filters() == once


def test_a_sweeper_does_not_repeat_itself_while_the_broker_is_away(
    program: Program, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("once.yaml").write_text(ONCE)
    assert cli("catalog", "register", "once.yaml").code == 0
    settings = Settings.from_env()
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
    start(rt, StartRequest("tests/once"))
    bootstrap.close(rt)
    monkeypatch.setenv("NOETL_BROKER_URL", "redis://127.0.0.1:9/0")
    monkeypatch.setenv("NOETL_RESEND_S", "1")
    sweeper = program("sweeper", "--interval", "0.1")
    first = next(line for line in iter(sweeper.stderr.readline, "") if "does not answer" in line)
    time.sleep(4)
    sweeper.terminate()
    _, err = sweeper.communicate(timeout=20)
    said = [first, *(line for line in err.splitlines() if "does not answer" in line)]
    assert len(said) == 1, err
    assert "What is due waits: The broker does not answer: Error 111" in said[0]


def test_a_misspelt_key_stops_a_run_and_warnings_are_reported(program: Program) -> None:
    Path("typo.yaml").write_text(SLOW.replace("tool:", "tools:"))
    typo = program("run", "typo.yaml")
    out, err = typo.communicate(timeout=60)
    assert (typo.returncode, out) == (2, "")
    assert "typo.yaml:7:5: error[NOETL212]: the key 'tools' means nothing here (did you mean 'tool'?)" in err

    Path("odd.yaml").write_text(Path("sum.yaml").read_text() + "remark: 1\n")
    warned = program("run", "odd.yaml", "-q")
    out, err = warned.communicate(timeout=60)
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
        ends = time.monotonic() + 60
        while not (" ready." in log.read_text() or answers()) and time.monotonic() < ends:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        assert time.monotonic() < ends, log.read_text()
