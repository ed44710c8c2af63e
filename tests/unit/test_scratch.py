"""Folders that go with the last process that has them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from noetl.scratch import held_folder, make_folder, sweep_folders

MAKES = """
import os, sys
from pathlib import Path
from noetl.scratch import make_folder
folder = make_folder(Path(sys.argv[1]), "run")
(folder.path / "download").write_text("large")
print(folder.path, flush=True)
sys.stdin.read()
"""


def test_a_folder_is_there_while_the_block_runs(tmp_path: Path) -> None:
    with held_folder(tmp_path / "new", "result") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert sweep_folders(tmp_path / "new") == 0
        assert folder.is_dir()
    assert list((tmp_path / "new").iterdir()) == []


def test_what_a_process_left_that_was_killed_is_swept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "noetl-run-of-somebody").mkdir()
    own = make_folder(tmp_path, "run")
    with subprocess.Popen(
        [sys.executable, "-c", MAKES, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        assert sweep_folders(tmp_path) == 0
        other.send_signal(signal.SIGKILL)
    assert (left / "download").exists()
    assert sweep_folders(tmp_path) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [own.path.name, "noetl-run-of-somebody"]
    )


def test_a_fork_that_still_has_a_folder_keeps_it(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "run")
    fork = os.dup(folder.handle)
    folder.let_go()
    assert sweep_folders(tmp_path) == 0
    os.close(fork)
    assert sweep_folders(tmp_path) == 1
