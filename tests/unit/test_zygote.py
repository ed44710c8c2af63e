"""Programs that tests fork instead of starting them: what they must have in common with real
ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import zygote
from tests.waiting import until

PROGRAM = """
import atexit, os, signal, sys, time
atexit.register(lambda: print("at exit"))
what = sys.argv[1]
if what == "show":
    print(__name__, sys.argv[1:], os.getcwd(), os.environ.get("SHOWN"), "HOME" in os.environ)
    print(sys.stdin.read(), file=sys.stderr)
elif what == "fail":
    raise ValueError("no good")
elif what == "exit":
    sys.exit(int(sys.argv[2]))
elif what == "say":
    sys.exit("a reason")
else:
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "forked_program.py").write_text(PROGRAM)
    return tmp_path


def forked(folder: Path, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return zygote.run(["forked_program", *words], cwd=folder, capture_output=True, text=True, **options)


def test_it_has_its_own_words_folder_environment_and_streams(folder: Path) -> None:
    ended = forked(folder, "show", "a b", env={"SHOWN": "é"}, input="typed")
    assert ended.stdout == f"__main__ ['show', 'a b'] {folder} é False\nat exit\n"
    assert (ended.stderr, ended.returncode) == ("typed\n", 0)


@pytest.mark.parametrize("words", [("exit", "0"), ("exit", "3"), ("say",), ("fail",)])
def test_it_ends_as_the_real_one_does(folder: Path, words: tuple[str, ...]) -> None:
    real = subprocess.run(
        [sys.executable, "-m", "forked_program", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    ended = forked(folder, *words)
    assert (ended.returncode, ended.stdout) == (real.returncode, real.stdout)
    assert ended.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]


def test_signals_end_it(folder: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with zygote.Popen(
            ["forked_program", "wait"], cwd=folder, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == process.pid
            assert process.poll() is None
            process.send_signal(number)
            assert process.wait() == -number


def test_a_wait_may_be_given_up(folder: Path) -> None:
    with zygote.Popen(["forked_program", "wait"], cwd=folder, stdout=subprocess.DEVNULL) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0)
        process.kill()


def test_it_dies_with_who_asked_for_it(folder: Path) -> None:
    asks = f"import sys; sys.path.insert(0, {str(zygote.ROOT)!r})\nfrom tests import zygote\n"
    asks += "print(zygote.Popen(['forked_program', 'wait'], stdout=-3).pid, flush=True)\nimport os; os.kill(os.getpid(), 9)"
    ended = subprocess.run(
        [sys.executable, "-c", asks], cwd=folder, capture_output=True, text=True, check=False
    )
    pid = int(ended.stdout)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the forked process to die")


def test_it_may_lead_a_session(folder: Path) -> None:
    with zygote.Popen(
        ["forked_program", "wait"], cwd=folder, start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert os.getsid(process.pid) == process.pid
        process.kill()
