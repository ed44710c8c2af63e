"""Where the time goes: CPU per step of every process, and py-spy's samples of NoETL's own, by
layer.

A sample counts for the innermost frame that belongs to a layer below, so that a query counts as
waiting for the database and not as that of the code which asked.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.cpu import Meter
from benchmarks.servers import Servers
from benchmarks.stack import Stack
from benchmarks.workloads import Workload

#: Samples in a second, and for how many seconds each of the two looks lasts.
RATE: Final = 200
SECONDS: Final = 5.0

#: Where a process stands that has nothing to do.
IDLE: Final = ("_epoll.poll (kombu/", "_recv (billiard/", "wait (threading.py", "poll (celery/")

#: The first that matches a frame, from the inside out, gives its name to the sample. psycopg2 is
#: written in C: what waits in it shows as the Python function that called it.
LAYERS: Final = (
    (
        "waiting for the database",
        ("._send (noetl/store/direct", ".do_execute (sqlalchemy", ".do_commit (sqlalchemy"),
    ),
    ("waiting for Redis", ("._read_from_socket (redis/",)),
    ("waiting for the user's code", ("select (selectors.py", "(noetl/tools/code/runner/")),
    ("SQLAlchemy and psycopg2", ("(sqlalchemy/", "(psycopg2/")),
    ("Redis client", ("(redis/",)),
    ("Celery and kombu", ("(celery/", "(kombu/", "(billiard/", "(amqp/", "(vine/")),
    ("tools", ("(noetl/tools/",)),
    ("store", ("(noetl/store/",)),
    (
        "engine, pipeline, expressions",
        ("(noetl/engine/", "(noetl/pipeline/", "(noetl/expressions/", "(noetl/net/"),
    ),
    ("dispatch", ("(noetl/dispatch/",)),
    ("use cases", ("(noetl/usecases/", "(noetl/facts/", "(noetl/tasks/")),
)


class Profiler:
    """Runs workloads again and again, first while CPU clocks are read, then while py-spy looks.

    Raises SystemExit where py-spy is not installed.
    """

    def __init__(self, stack: Stack, servers: Servers) -> None:
        found = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
        if found is None:
            raise SystemExit("py-spy is not installed: pip install py-spy")
        self._program = found
        self._stack = stack
        self._meter = Meter.of(stack, servers)

    def profile(self, workload: Workload) -> dict[str, Any]:
        """`cpu_ms_per_step` by process; `busy`, the share of its time in which a process had
        something to do, and `layers`, the shares of that, by process."""
        workload.noetl(self._stack)
        cpu = self._cpu(workload)
        samples = self._samples(lambda: workload.noetl(self._stack))
        return {
            "cpu_ms_per_step": cpu,
            "busy": {name: _busy(found) for name, found in samples.items()},
            "layers": {name: _shares(found) for name, found in samples.items()},
        }

    def _cpu(self, workload: Workload) -> dict[str, float]:
        before, steps = self._meter.read(), 0
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            steps += workload.steps * len(workload.noetl(self._stack))
        return self._meter.since(before, steps)

    def _samples(self, run: Callable[[], object]) -> dict[str, Counter[str]]:
        """By process the layers of the samples of its main thread."""
        targets = {
            "scheduler": [self._stack.pids["scheduler"]],
            "worker (parent)": [self._stack.pids["code"]],
            "worker (children)": self._stack.workers(),
        }
        with tempfile.TemporaryDirectory() as folder:
            files = {pid: Path(folder) / str(pid) for pids in targets.values() for pid in pids}
            recorders = [self._record(pid, file) for pid, file in files.items()]
            while any(recorder.poll() is None for recorder in recorders):
                run()
            _check(recorders)
            return {name: _layers(files[pid] for pid in pids) for name, pids in targets.items()}

    def _record(self, pid: int, file: Path) -> subprocess.Popen[bytes]:
        where = ["-p", str(pid), "-f", "raw", "-o", str(file)]
        how = ["-F", "-r", str(RATE), "-d", f"{SECONDS:.0f}", "--nonblocking", "--idle", "--threads"]
        return subprocess.Popen(
            [self._program, "record", *where, *how],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )


def _check(recorders: Iterable[subprocess.Popen[bytes]]) -> None:
    for recorder in recorders:
        _, said = recorder.communicate()
        if recorder.returncode:
            raise SystemExit(f"py-spy could not look: {said.decode(errors='replace').strip()[-300:]}")


def _layers(files: Iterable[Path]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for file in files:
        for line in file.read_text().splitlines():
            stack, _, number = line.rpartition(" ")
            thread, *frames = stack.split(";")
            if frames and thread.endswith("MainThread"):
                counts[_layer(frames)] += int(number)
    return counts


def _layer(frames: Sequence[str]) -> str:
    """Empty where the process had nothing to do."""
    if any(mark in frames[-1] for mark in IDLE):
        return ""
    for frame in reversed(frames):
        for name, marks in LAYERS:
            if any(mark in frame for mark in marks):
                return name
    return "other"


def _busy(counts: Counter[str]) -> float:
    return round(1 - counts[""] / (counts.total() or 1), 3)


def _shares(counts: Counter[str]) -> dict[str, float]:
    """Largest first."""
    total = (counts.total() - counts[""]) or 1
    return {name: round(count / total, 3) for name, count in counts.most_common() if name}
