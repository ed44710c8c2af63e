"""Locks that end with their process: what the next one finds."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from noetl.store.file_lock import LockState, hold_lock, is_held

HOLDER = """
import sys, time
from pathlib import Path
from noetl.store.file_lock import hold_lock
with hold_lock(Path(sys.argv[1])) as lock:
    print(lock.found.value, flush=True)
    time.sleep(600)
"""


def test_a_lock_is_busy_while_its_process_lives_and_left_when_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "new\n"
    assert is_held(path)
    with hold_lock(path) as second:
        assert second.found is LockState.BUSY
    assert path.exists()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    assert not is_held(path)
    with hold_lock(path) as third:
        assert third.found is LockState.LEFT
        assert is_held(path)
    assert not path.exists()


def test_a_lock_that_was_let_go_is_new_again_unless_its_file_is_to_be_left(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for expected, leave in (
        (LockState.NEW, False),
        (LockState.NEW, True),
        (LockState.LEFT, False),
        (LockState.NEW, False),
    ):
        with hold_lock(path) as lock:
            assert lock.found is expected
            lock.leave = leave
    assert not is_held(path)


def test_what_another_machine_left_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    with hold_lock(path) as lock:
        lock.leave = True
    monkeypatch.setattr(platform, "node", lambda: "elsewhere")
    with hold_lock(path) as lock:
        assert lock.found is LockState.NEW


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full disk to offer")
def test_an_error_of_a_full_disk_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full") as caught, hold_lock(Path("/dev/full")):
        pass
    assert caught.value.filename == "/dev/full"
