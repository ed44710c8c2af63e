"""Where the time goes: py-spy samples of the scheduler and of a worker process, by layer.

A sample counts for the innermost frame that belongs to a layer below, so that a query counts as the
database driver's and not as that of the code which asked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.stack import Stack

#: Samples in a second, and the least number of seconds a profile lasts.
RATE = 400
SECONDS = 6

#: The first that matches a frame, from the inside out, gives its name to the sample. psycopg2 is written in
#: C: what waits in it is seen as SQLAlchemy's `do_execute` and `do_commit`.
LAYERS = (
    ("database: waiting for an answer", ("do_execute (", "do_executemany (", "fetchone (sqlalchemy")),
    ("database: waiting for the commit", ("do_commit (", "do_rollback (")),
    ("SQLAlchemy", ("sqlalchemy/", "psycopg2/")),
    ("Redis client and socket", ("redis/",)),
    ("Celery and kombu", ("celery/", "kombu/", "billiard/", "amqp/", "vine/")),
    ("tool's child process", ("noetl/tools/",)),
    ("store", ("noetl/store/",)),
    ("engine, pipeline, expressions", ("noetl/engine/", "noetl/pipeline/", "noetl/expressions/")),
    ("dispatch", ("noetl/dispatch/",)),
    ("use cases", ("noetl/usecases/", "noetl/facts/", "noetl/tasks/")),
)


class Profiler:
    """Runs a workload again and again while py-spy looks."""

    def __init__(self, stack: Stack) -> None:
        found = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if found is None:
            raise SystemExit("py-spy is not installed: pip install py-spy")
        self._program = found
        self._stack = stack

    def add(self, record: dict[str, Any], run: Callable[[], object]) -> None:
        """Puts `profile: {process: {layer: share of its busy time}, process_busy: ...}` into the record."""
        targets = {"scheduler": self._stack.pids["scheduler"], "worker": self._stack.workers()[0]}
        with tempfile.TemporaryDirectory() as folder:
            files = {name: Path(folder) / name for name in targets}
            recorders = [self._record(pid, files[name]) for name, pid in targets.items()]
            _repeat(run, recorders)
            record["profile"] = {name: _shares(files[name].read_text()) for name in targets}

    def _record(self, pid: int, file: Path) -> subprocess.Popen[bytes]:
        where = ["-p", str(pid), "-f", "raw", "-o", str(file)]
        how = ["-F", "-r", str(RATE), "-d", str(SECONDS), "--nonblocking"]
        return subprocess.Popen(
            [self._program, "record", *where, *how],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _repeat(run: Callable[[], object], recorders: list[subprocess.Popen[bytes]]) -> None:
    done = threading.Event()

    def wait() -> None:
        for recorder in recorders:
            recorder.wait()
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    while not done.is_set():
        run()


def _shares(text: str) -> dict[str, float]:
    """Layers by their share of the samples in which the process was busy, largest first."""
    counts: Counter[str] = Counter()
    for line in text.splitlines():
        frames, _, number = line.rpartition(" ")
        counts[_layer(frames.split(";"))] += int(number)
    total = sum(counts.values()) or 1
    return {name: round(count / total, 3) for name, count in counts.most_common()}


def _layer(frames: list[str]) -> str:
    for frame in reversed(frames):
        for name, marks in LAYERS:
            if any(mark in frame for mark in marks):
                return name
    return "other"
