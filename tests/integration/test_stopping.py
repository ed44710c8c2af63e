"""What is cancelled is asked to end (SIGTERM), has a moment to tidy up, and is killed where it does
not end."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from noetl.tools.code.runner.client import Runner, RunnerSettings
from noetl.tools.code.runner.requests import PythonRequest, RunnerReply, ShellRequest
from noetl.tools.code.runner.sandbox import trouble
from tests.gates import Gate
from tests.waiting import until

TRAPS = """
trap 'echo tidied > "$KEPT/tidied"; exit 0' TERM
touch "$KEPT/ready"; sleep 6000 & wait
"""
IGNORES = """
trap '' TERM
touch "$KEPT/ready"; while true; do sleep 6000; done
"""
#: Seconds; longer than any of these tests may take where what was asked to end does.
LONG = 3600.0


@pytest.fixture
def kept() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def made(kept: Path, grace_s: float, *, sandbox: bool = False) -> Runner:
    return Runner(RunnerSettings(kept / "scratch", sandbox=sandbox, grace_s=grace_s))


def shell(kept: Path, *commands: str) -> ShellRequest:
    argvs = [["bash", "-c", command] for command in commands]
    return ShellRequest(argvs, env={"KEPT": str(kept)}, owner="1")


def interrupted(runner: Runner, request: ShellRequest | PythonRequest, ready: Path) -> RunnerReply:
    """The reply to a call that was interrupted once it was at work."""
    token = object()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(runner.call, request, LONG, token)
        until(lambda: ready.exists() or call.done(), "the call to be at work")
        runner.interrupt(token)
        return call.result()


def test_a_command_that_traps_the_signal_tidies_up(kept: Path) -> None:
    runner = made(kept, LONG)
    reply = interrupted(runner, shell(kept, TRAPS, 'touch "$KEPT/next"'), kept / "ready")
    assert (kept / "tidied").read_text() == "tidied\n"
    assert not (kept / "next").exists(), "no further command begins"
    assert (reply.status, reply.value) == ("ok", {"exit_code": -15, "command": 1})
    runner.close()


def test_one_that_ignores_it_is_killed_after_the_grace(kept: Path) -> None:
    runner = made(kept, 0.3)
    reply = interrupted(runner, shell(kept, IGNORES), kept / "ready")
    assert (reply.status, reply.reason) == ("died", "its process was ended by SIGKILL")
    runner.close()


def test_one_that_takes_its_time_is_not_killed_before_the_grace_is_over(kept: Path) -> None:
    runner, token = made(kept, LONG), object()
    slow = """trap 'touch "$KEPT/asked"' TERM; touch "$KEPT/ready"; while true; do sleep 6000 & wait; done"""
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(runner.call, shell(kept, slow), LONG, token)
        until((kept / "ready").exists, "the call to be at work")
        runner.interrupt(token)
        until((kept / "asked").exists, "it to be asked")
        # Whoever is killed without a grace is so before the next request is served.
        assert runner.call(shell(kept, "true"), LONG).status == "ok"
        assert not call.done()
        runner.close()
    assert call.result().status == "died"


def test_one_that_just_sleeps_is_gone_before_the_grace_is_over(kept: Path) -> None:
    runner = made(kept, LONG)
    reply = interrupted(runner, shell(kept, 'touch "$KEPT/ready"; sleep 60000'), kept / "ready")
    assert reply.value["exit_code"] != 0
    runner.close()


def test_others_are_not_disturbed_and_the_next_call_has_another_process(kept: Path) -> None:
    runner = made(kept, 0.2)
    gate = Gate(kept / "gate")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(runner.call, shell(kept, gate.shell("$PPID") + "; echo done"), LONG)
        until(gate.arrived, "the other call to be at work")
        interrupted(runner, shell(kept, TRAPS), kept / "ready")
        # When the next one is killed, the grace of who was asked to end, and did, is over as well.
        (kept / "ready").unlink()
        killed = interrupted(runner, shell(kept, IGNORES), kept / "ready")
        after = runner.call(shell(kept, "echo $PPID"), LONG)
        gate.open()
        reply = other.result()
    assert killed.status == "died"
    assert (reply.status, reply.stdout.text) == ("ok", "done\n")
    assert after.status == "ok"
    assert after.stdout.text.strip() not in gate.names()
    runner.close()


def test_code_may_ask_for_the_signal_and_else_ends_at_once(kept: Path) -> None:
    runner = made(kept, LONG)
    plain = f"open({str(kept / 'ready')!r}, 'w').close()\nimport time; time.sleep(6000)"
    reply = interrupted(runner, PythonRequest(plain, owner="1"), kept / "ready")
    assert (reply.status, reply.reason) == ("died", "its process was ended by SIGTERM")
    handles = f"""
import signal, sys, time
def tidy(*_):
    open({str(kept / "tidied")!r}, "w").close()
    sys.exit(3)
signal.signal(signal.SIGTERM, tidy)
open({str(kept / "ready too")!r}, "w").close()
time.sleep(6000)
"""
    interrupted(runner, PythonRequest(handles, owner="1"), kept / "ready too")
    assert (kept / "tidied").exists()
    runner.close()


def test_a_handler_of_one_call_is_none_of_the_next(kept: Path) -> None:
    runner = made(kept, LONG)
    ignores = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); import os; result = os.getpid()"
    first = runner.call(PythonRequest(ignores, owner="1"), LONG)
    sleeps = f"open({str(kept / 'ready')!r}, 'w').write(str(__import__('os').getpid()))\nimport time; time.sleep(6000)"
    reply = interrupted(runner, PythonRequest(sleeps, owner="1"), kept / "ready")
    assert (kept / "ready").read_text() == str(first.value), "it is the same process"
    assert reply.reason == "its process was ended by SIGTERM"
    runner.close()


def test_a_call_that_is_interrupted_before_it_starts_does_not_run(kept: Path) -> None:
    runner, token = made(kept, LONG), object()
    runner.interrupt(token)
    reply = runner.call(shell(kept, 'touch "$KEPT/ran"'), LONG, token)
    assert not (kept / "ran").exists()
    assert (reply.status, reply.reason) == ("died", "its process was ended by SIGKILL")
    runner.close()


@pytest.mark.skipif(bool(trouble()), reason="there is no bubblewrap here")
def test_in_a_sandbox_as_well(kept: Path) -> None:
    """Whose pids mean nothing outside."""
    runner, token = made(kept, 0.2, sandbox=True), object()
    started = threading.Event()
    request = ShellRequest([["bash", "-c", "trap '' TERM; echo at work; sleep 6000"]], owner="1")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(runner.call, request, LONG, token, lambda *_: started.set())
        assert started.wait(LONG)
        runner.interrupt(token)
        assert call.result().reason == "its process was ended by SIGKILL"
    runner.close()
