"""What a run of the tests leaves behind: processes that outlive the session that started them."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator

import psutil

#: Every process that a test starts inherits this variable, unless the test empties its environment.
VARIABLE = "TESTED_BY"
#: Seconds in which what was told to end may still end.
GRACE_S = 60.0


def mark() -> None:
    """From now on, processes that this one starts can be found, workers of xdist and what they
    start among them."""
    os.environ[VARIABLE] = f"pytest-{uuid.uuid4()}"


def end() -> list[str]:
    """Kills what this session has left behind, after its grace. Returns pid, command line and test
    of each process."""
    deadline = time.monotonic() + GRACE_S
    while any(_left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [_killed(process) for process in _left()]


def _left() -> Iterator[psutil.Process]:
    mine = os.environ[VARIABLE]
    for process in psutil.process_iter():
        try:
            marked = process.pid != os.getpid() and process.environ().get(VARIABLE) == mine
            if marked and "multiprocessing" not in " ".join(process.cmdline()):  # Python's own helpers
                yield process
        except psutil.Error:
            continue


def _killed(process: psutil.Process) -> str:
    said = str(process.pid)
    with contextlib.suppress(psutil.Error):
        # pytest sets this variable to the name of the test that runs.
        test = process.environ().get("PYTEST_CURRENT_TEST", "no test")
        said += f" {' '.join(process.cmdline())} (started by {test})"
        process.kill()
        process.wait()
    return said
