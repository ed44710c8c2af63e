"""The runner with real processes: reuse, death, forks of the worker, and what nobody may leave
behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from noetl import processes
from noetl.tools.code.runner import client
from noetl.tools.code.runner.client import LeasedChild, Runner, RunnerSettings, shared_runner
from noetl.tools.code.runner.control import sweep_runs
from noetl.tools.code.runner.requests import CodeLimits, PythonRequest, RunnerReply, ShellRequest
from tests.gates import Gate
from tests.waiting import GUARD_S, until


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On the disk: a sandbox has a /dev and a /tmp of its own, and of files below /dev it cannot
    tell that they are hidden."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(RunnerSettings(tmp_path))
    yield made
    made.close()


def python(
    runner: Runner, code: str, /, owner: str = "1", deadline_s: float = GUARD_S, **inputs: Any
) -> RunnerReply:
    return runner.call(PythonRequest(code, inputs, owner=owner), deadline_s)


def pid_of(runner: Runner, **more: Any) -> int:
    reply = python(runner, "import os; result = os.getpid()", **more)
    assert reply.status == "ok"
    return int(reply.value)


def gone(pid: int) -> bool:
    """Ended; a zombie that its new parent has not collected yet has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- reuse ---------------------------------------------------------------------------------------


def test_calls_of_one_owner_share_a_child_and_owners_never_do(runner: Runner) -> None:
    first = pid_of(runner)
    assert pid_of(runner) == first
    assert pid_of(runner, owner="2") != first


def test_nothing_that_a_call_set_is_seen_by_the_next(runner: Runner) -> None:
    python(
        runner,
        "import os, sys\nsecret = 1\nos.environ['LEAK'] = '1'\nos.environ.pop('PATH', "
        "None)\nopen('left', 'w').write('x')\n"
        "os.chdir('/')\nsys.stdout = None\nsys.setrecursionlimit(99)",
    )
    reply = python(
        runner,
        "import os, sys\nprint('heard')\n"
        "result = ['secret' in globals(), 'LEAK' in os.environ, 'PATH' in os.environ, os.listdir(), "
        "os.getcwd() == '/', "
        "sys.getrecursionlimit() > 99]",
    )
    assert reply.value == [False, False, True, [], False, True]
    assert reply.stdout.text == "heard\n"


def test_a_child_that_lost_its_directory_and_its_stdout_goes_on(runner: Runner) -> None:
    python(runner, "import os, shutil, sys\nshutil.rmtree(os.getcwd())\nsys.stdout.close()\nos.close(1)")
    assert python(runner, "print('still here')\nopen('x', 'w')").stdout.text == "still here\n"


@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
        "import subprocess\nsubprocess.Popen(['sleep', '600'])",
        "x = bytearray(300 << 20)",
    ],
    ids=["failed", "left a thread", "left a process", "grew"],
)
def test_a_child_is_replaced_after(runner: Runner, code: str) -> None:
    first = pid_of(runner)
    python(runner, code)
    assert pid_of(runner) != first


def test_a_child_is_replaced_after_256_calls(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CALLS", 3)
    pids = [pid_of(runner) for _ in range(6)]
    assert pids[0] == pids[2] != pids[3] == pids[5]


def test_at_most_eight_idle_children_are_kept(runner: Runner) -> None:
    pids = [pid_of(runner, owner=str(number)) for number in range(12)]
    until(lambda: sum(not gone(pid) for pid in pids) == 8, "the others to go")


def test_threads_run_side_by_side_each_with_a_child_of_its_own(runner: Runner, tmp_path: Path) -> None:
    pid_of(runner)
    gate = Gate(tmp_path / "gate")
    code = gate.python() + "result = os.getpid()"
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(python, runner, code) for _ in range(6)]
        until(lambda: gate.arrived() == 6, "six calls side by side")
        gate.open()
    assert {call.result().value for call in calls} == set(map(int, gate.names()))


# --- what a child can see ------------------------------------------------------------------------


def test_no_descriptor_and_no_setting_of_the_worker_reaches_user_code(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        reply = python(
            runner,
            "import os, sys\n"
            "parent = open(f'/proc/{os.getppid()}/environ').read()\n"
            "names = ('noetl', 'celery', 'sqlalchemy', 'pydantic')\n"
            "result = {'env': 'secret' in str(dict(os.environ)) + parent, 'fds': "
            "len(os.listdir('/proc/self/fd')) - 1,\n"
            "          'modules': [n for n in names if n in sys.modules], 'stdin': sys.stdin.read()}",
        )
        below = python(
            runner,
            "import subprocess\nresult = subprocess.run(['ls', '/proc/self/fd'], capture_output=True, "
            "text=True).stdout.split()",
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert reply.value == {"env": False, "fds": 6, "modules": [], "stdin": ""}
    # `ls` has the directory open as well
    assert below.value == ["0", "1", "2", "3"]


# --- ends ----------------------------------------------------------------------------------------


def test_the_deadline_ends_the_code_with_all_that_it_started(tmp_path: Path) -> None:
    printed: list[bytes | None] = []
    # It is too late as soon as the code is as far as that.
    runner = Runner(RunnerSettings(tmp_path), clock=lambda: 1e9 if printed else 0.0)
    code = (
        "import os, subprocess, sys\n"
        "p = subprocess.Popen(['setsid', 'sleep', '600'])\n"
        "command = 'sleep 600 & echo $! $$; exec sleep 600'\n"
        "q = subprocess.Popen(command, shell=True, start_new_session=True, stdout=subprocess.PIPE, text=True)\n"
        "print(p.pid, q.stdout.readline(), end='', flush=True)\n"
        "while True: pass"
    )
    reply = runner.call(PythonRequest(code), 1.0, None, lambda _, data: printed.append(data))
    runner.close()
    assert (reply.status, reply.reason) == ("timeout", "it took longer than 1s")
    pids = [int(word) for word in reply.stdout.text.split()]
    assert len(pids) == 3
    assert all(gone(pid) for pid in pids)


def test_a_detached_daemon_does_not_outlive_its_call(runner: Runner) -> None:
    code = (
        "import os, time\n"
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.write(w, str(os.getpid()).encode())\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "result = int(os.read(r, 20))"
    )
    reply = python(runner, code)
    assert reply.status == "ok"
    assert gone(reply.value)


def test_a_fork_that_comes_to_the_end_of_the_code_does_not_answer_twice(runner: Runner) -> None:
    assert (
        python(runner, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nresult = pid > 0").value
        is True
    )
    assert python(runner, "result = 'next'").value == "next"


def test_a_fork_bomb_is_ended_and_the_worker_goes_on(runner: Runner) -> None:
    limits = CodeLimits(processes=40)
    reply = runner.call(PythonRequest("import os\nwhile True: os.fork()", limits=limits), GUARD_S)
    assert (reply.status, reply.reason) == ("limit", "it started more than 40 processes")
    assert python(runner, "result = 1").value == 1
    control = runner._control
    assert control is not None
    # Two forked ahead, and the one that answered.
    until(lambda: len(processes.descendants(control._process.pid)) <= 3, "the forks to end")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os; os._exit(0)", "its process ended with exit status 0"),
        ("import os; os._exit(7)", "its process ended with exit status 7"),
        ("import ctypes; ctypes.string_at(0)", "its process was ended by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "its process was ended by SIGKILL"),
        ("import os\nos.closerange(3, 10)\nwhile True: pass", "its process was ended by SIGKILL"),
    ],
)
def test_a_child_that_dies_says_how(runner: Runner, code: str, reason: str) -> None:
    reply = python(runner, "print('last words')\n" + code)
    assert (reply.status, reply.reason) == ("died", reason)
    assert reply.stdout.text == "last words\n"
    assert python(runner, "result = 1").value == 1


def test_output_is_kept_up_to_its_limit_whoever_wrote_it(runner: Runner) -> None:
    code = (
        "import os, subprocess, sys\n"
        "print('python')\n"
        "sys.stdout.flush()\n"
        "os.write(1, b'descriptor\\n')\n"
        "subprocess.run(['echo', 'program'])\n"
        "print('err', file=sys.stderr)\n"
        "for _ in range(200): sys.stdout.write('x' * 1_000_000)\n"
    )
    reply = python(runner, code)
    assert reply.status == "ok"
    assert reply.stdout.text.startswith("python\ndescriptor\nprogram\nxxx")
    assert (len(reply.stdout.text), reply.stdout.truncated) == (64 * 1024, True)
    assert reply.stdout.size == 200_000_000 + len("python\ndescriptor\nprogram\n")
    assert (reply.stderr.text, reply.stderr.truncated) == ("err\n", False)


def test_an_exception_raised_into_the_waiting_thread_ends_the_code(runner: Runner) -> None:
    class SoftTimeLimit(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise SoftTimeLimit

    before = signal.signal(signal.SIGALRM, interrupt)
    pid = pid_of(runner)
    code = f"import os, signal\nos.kill({os.getpid()}, signal.SIGALRM)\nwhile True: pass"
    try:
        with pytest.raises(SoftTimeLimit):
            python(runner, code)
    finally:
        signal.signal(signal.SIGALRM, before)
    until(lambda: gone(pid), "the code to end")
    assert python(runner, "result = 1").value == 1


# --- the process around it -----------------------------------------------------------------------


def test_a_dead_runner_is_replaced(runner: Runner) -> None:
    child = pid_of(runner)
    assert runner._control is not None
    os.kill(runner._control._process.pid, signal.SIGKILL)
    until(lambda: gone(child), "the child to end")
    assert python(runner, "result = 'again'").value == "again"
    assert python(runner, "result = 'other'", owner="2").value == "other"


def test_a_runner_that_dies_under_a_call_fails_that_call(runner: Runner) -> None:
    pid_of(runner)
    reply = python(runner, "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)")
    assert (reply.status, reply.reason) == ("died", "its process was ended by SIGKILL")
    assert python(runner, "result = 1").value == 1


def test_a_runner_that_dies_under_a_call_takes_along_what_left_its_group(
    runner: Runner, tmp_path: Path
) -> None:
    reply = python(
        runner,
        "import os, signal, subprocess\n"
        "p = subprocess.Popen(['setsid', 'sleep', '600'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
        "os.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()",
    )
    assert reply.status == "died"
    until(lambda: gone(int((tmp_path / "pid").read_text())), "what it started to end")


def test_a_call_that_takes_over_a_child_is_reached_by_its_interrupt(tmp_path: Path) -> None:
    """Its call before is on its way out while this one has begun."""
    gate = Gate(tmp_path / "gate")

    class Overtaken(Runner):
        def _put_back(self, child: LeasedChild, *, retire: bool) -> None:
            super()._put_back(child, retire=retire)
            if not running:
                running.append(pool.submit(self.call, PythonRequest(gate.python(), {}, owner="1"), 600, "b"))
                until(gate.arrived, "the second call to run")

    runner = Overtaken(RunnerSettings(tmp_path))
    running = list[Future[RunnerReply]]()
    with ThreadPoolExecutor(1) as pool:
        try:
            first = runner.call(PythonRequest("import os; result = os.getpid()", {}, owner="1"), 600, "a")
            assert gate.names() == {str(first.value)}, "the second call is in the child of the first"
            runner.interrupt("b")
            assert running[0].result().status == "died"
        finally:
            gate.open()
    runner.close()


def test_a_fork_of_the_worker_starts_a_runner_of_its_own(runner: Runner) -> None:
    mine = pid_of(runner)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        # A prefork pool's child: it must neither use nor end what belongs to its parent.
        answer = python(runner, "import os; result = os.getppid()").value
        os.write(writing, str(answer).encode())
        runner.close()
        os._exit(0)
    os.close(writing)
    theirs = int(os.read(reading, 20))
    os.close(reading)
    os.waitpid(pid, 0)
    assert runner._control is not None
    assert theirs != runner._control._process.pid
    assert pid_of(runner) == mine


def start_worker(folder: Path, code: str) -> subprocess.Popen[bytes]:
    """A process of its own with a runner below `folder`, which runs `code`."""
    script = (
        "from pathlib import Path\n"
        "from noetl.tools.code.runner.client import Runner, RunnerSettings\n"
        "from noetl.tools.code.runner.requests import PythonRequest\n"
        f"Runner(RunnerSettings(Path({str(folder)!r}))).call(PythonRequest({code!r}), 600)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script])


def test_when_the_worker_dies_everything_below_it_dies(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, time\n"
        "p = subprocess.Popen(['setsid', 'sleep', '600'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write(f'{{os.getppid()}} {{os.getpid()}} {{p.pid}}')\n"
        "time.sleep(600)"
    )
    worker = start_worker(tmp_path, code)
    pids_file = tmp_path / "pids"
    try:
        until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 3, "its code to run")
    finally:
        worker.kill()
        worker.wait()
    pids = [int(word) for word in pids_file.read_text().split()]
    until(lambda: all(gone(pid) for pid in pids), "all of them to end")
    until(lambda: [path.name for path in tmp_path.iterdir()] == ["pids"], "their files to go")


def test_what_outlives_a_worker_and_its_runner_is_ended_by_the_next_sweep(tmp_path: Path) -> None:
    """All that could have ended it was killed at one instant."""
    code = (
        "import os, signal, subprocess\n"
        "forked = os.fork()\n"
        "if forked == 0:\n os.setsid(); signal.pause()\n"
        "p = subprocess.Popen(['setsid', 'sleep', '600'])\n"
        f"open({str(tmp_path / 'pids')!r}, 'w').write("
        "f'{os.getppid()} {os.getpid()} {forked} {p.pid}')\n"
        "signal.pause()"
    )
    worker, pids_file = start_worker(tmp_path / "runs", code), tmp_path / "pids"
    until(lambda: pids_file.exists() and len(pids_file.read_text().split()) == 4, "its code to run")
    server, child, *left = map(int, pids_file.read_text().split())
    os.kill(server, signal.SIGSTOP)
    worker.kill()
    worker.wait()
    os.kill(server, signal.SIGKILL)
    until(lambda: gone(child), "the runner's child to end with it")
    assert not any(gone(pid) for pid in left)
    sweep_runs(tmp_path / "runs")
    until(lambda: all(gone(pid) for pid in left), "what it ran to end")
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_sandbox_hides_files_network_and_processes(tmp_path: Path) -> None:
    playbooks = tmp_path / "playbooks"
    playbooks.mkdir()
    (playbooks / "data.txt").write_text("shown")
    runner = Runner(RunnerSettings(tmp_path / "scratch", sandbox=True, readable=(playbooks,)))
    try:
        code = (
            "import os, socket\n"
            "def tried(what):\n"
            "    try: return what()\n"
            "    except OSError as error: return type(error).__name__\n"
            "result = [tried(lambda: open('/etc/shadow').read()),\n"
            "          tried(lambda: socket.create_connection(('10.0.0.1', 6379), 1)),\n"
            f"          tried(lambda: os.kill({os.getpid()}, 0)),\n"
            f"          tried(lambda: open('{playbooks}/new', 'w')),\n"
            f"          tried(lambda: open('{playbooks}/data.txt').read()),\n"
            "          tried(lambda: open('mine', 'w').write('x'))]"
        )
        reply = python(runner, code)
        assert reply.value == ["FileNotFoundError", "OSError", "ProcessLookupError", "OSError", "shown", 1]
        assert python(runner, "while True: pass", deadline_s=0.3).status == "timeout"
    finally:
        runner.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_close_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    runner = Runner(RunnerSettings(tmp_path))
    pid = pid_of(runner)
    assert list(tmp_path.iterdir())
    runner.close()
    assert gone(pid)
    assert list(tmp_path.iterdir()) == []


def test_tools_share_one_runner_until_the_last_one_closes_it(tmp_path: Path) -> None:
    first = shared_runner(RunnerSettings(tmp_path))
    second = shared_runner(RunnerSettings(tmp_path))
    assert first is second
    first.close()
    assert python(second, "result = 1").value == 1
    second.close()
    assert shared_runner(RunnerSettings(tmp_path)) is not second


def test_a_shell_request_stops_at_the_first_command_that_fails(runner: Runner) -> None:
    request = ShellRequest([["echo", "one"], ["false"], ["echo", "two"]])
    reply = runner.call(request, GUARD_S)
    assert reply.value == {"exit_code": 1, "command": 1}
    assert reply.stdout.text == "one\n"


def test_a_bound_on_memory_is_kept(runner: Runner) -> None:
    limits = CodeLimits(memory_mb=300)
    reply = runner.call(PythonRequest("x = bytearray(4 << 30)", limits=limits), GUARD_S)
    assert reply.error["kind"] == "limit"
    assert "300 MB (spec.memory_mb)" in reply.error["message"]
    many = "x = []\nwhile True: x.append(bytearray(100_000))"
    reply = runner.call(PythonRequest(many, limits=limits), GUARD_S)
    assert (reply.error["kind"], reply.error["line"]) == ("limit", 2)
