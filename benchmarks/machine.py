"""Facts about the machine, and what the rest of it was doing during a measurement."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from pathlib import Path
from typing import Any

import psutil


def facts() -> dict[str, Any]:
    """Cores, memory, and versions of what the figures depend on."""
    packages = ("celery", "kombu", "redis", "sqlalchemy", "psycopg2-binary", "noetl-celery")
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def others(seconds: float = 0.3) -> float:
    """The share of all cores that is in use while the benchmark itself does nothing."""
    before, started = _busy(), time.perf_counter()
    time.sleep(seconds)
    spent = (_busy() - before) / ((time.perf_counter() - started) * (os.cpu_count() or 1))
    return round(min(1.0, spent), 2)


def _busy() -> float:
    """CPU seconds that the whole machine has spent since it started."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def family(pid: int) -> list[psutil.Process]:
    """A process and all that descend from it."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def pss(pid: int) -> list[dict[str, Any]]:
    """Proportional set size in MB of a process and its descendants: what they share counts once."""
    found = []
    for process in family(pid):
        try:
            memory = process.memory_full_info()
            words = (
                " ".join(bare(word) for word in " ".join(process.cmdline()).split())[:90] or process.name()
            )
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        size = getattr(memory, "pss", memory.rss)
        found.append({"pss_mb": round(size / 2**20, 1), "command": words})
    return found


def bare(word: str) -> str:
    """A word of a command line without the directories of this machine."""
    option, colon, path = word.rpartition(":/")
    return f"{option}:{Path('/' + path).name}" if colon and option else Path(word).name or word


#: Seconds that the reference machine takes for one addition: quiet, CPython 3.11.
_REFERENCE_S = 0.45 / 10_000_000
_ADDITIONS = 2_000_000


def slowness() -> float:
    """How many times slower this machine is now than the reference: 1.0 where it is as fast, or
    faster."""
    began, total = time.perf_counter(), 0
    for number in range(_ADDITIONS):
        total += number
    return max(1.0, (time.perf_counter() - began) / (_ADDITIONS * _REFERENCE_S))
