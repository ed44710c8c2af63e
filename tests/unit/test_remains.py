"""The run of the tests itself: what it leaves behind, and what it is like in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

INNER = """
import signal, subprocess
import pytest
from tests import remains, zygote

remains.GRACE_S = 0.2

def test_a_child_can_be_interrupted():
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == -signal.SIGINT

def test_a_fork_can_be_hung_up():
    waiting = "print('ready', flush=True); import signal; signal.pause()"
    child = zygote.Popen(["timeit", "-n", "1", "-r", "1", waiting], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"ready\\n"
    child.send_signal(signal.SIGHUP)
    assert child.wait(100) == -signal.SIGHUP
    child.stdout.close()

def test_something_is_left_behind():
    subprocess.run(["sh", "-c", "sleep 61 & true"], check=True)

@pytest.mark.full("another one proves it")
def test_a_second_proof():
    pass
"""


@pytest.mark.full("3 s: a run of its own")
def test_a_run_in_the_background_interrupts_and_hangs_up_its_children_and_fails_for_what_it_leaves_behind(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_inner.py").write_text(INNER)
    inner = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "-p", "no:cacheprovider"]
    done = subprocess.run(
        # What `nohup make test &` in a script comes to.
        ["sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *inner, "-p", "tests.conftest", tmp_path],
        cwd=ROOT,
        env={**os.environ, "NOETL_TEST_PROFILE": "quick"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "3 passed, 1 deselected" in done.stdout, done.stdout + done.stderr
    assert "sleep 61 (started by" in done.stdout
    assert "::test_something_is_left_behind (call))" in done.stdout
    assert done.returncode == 1
