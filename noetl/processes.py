"""Trees of processes: their descendants, and how to end all of them.

Linux knows it exactly (`/proc`, sub-reapers). Elsewhere the process group is all there is, and a
process that left its group is not found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time

LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


_libc = ctypes.CDLL(None)


def _prctl(option: int, argument: int) -> None:
    if LINUX:
        _libc.prctl(option, argument, 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parents end become children of this process, not of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """SIGKILL for this process when the thread that forked it ends: for single-threaded parents
    only."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Children of all threads of `pid`; empty where it is gone or cannot be known."""
    if not LINUX:
        return []
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as listing:
                found.extend(map(int, listing.read().split()))
    except FileNotFoundError:
        return found if os.path.exists("/proc/self/task") else _children_by_scan(pid)
    except (ProcessLookupError, PermissionError):
        return found
    return found


def _children_by_scan(pid: int) -> list[int]:
    # For kernels without CONFIG_PROC_CHILDREN.
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _parent(entry) == pid]


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


def descendants(pid: int, limit: int = 100_000) -> list[int]:
    """All that descend from `pid`, nearest first; stops looking after `limit`."""
    found: list[int] = []
    level = [pid]
    while level and len(found) < limit:
        level = [child for parent in level for child in children(parent)]
        found.extend(level)
    return found


def send_signal(pid: int, number: int) -> None:
    """Sends a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_tree(pid: int) -> None:
    """SIGKILL for `pid`, its group and its descendants, however fast they multiply.

    They are stopped before they are killed: `pid` adopts its orphans, so while it stands still
    nothing escapes, and what stands still does not fork.
    """
    send_signal(pid, signal.SIGSTOP)
    _stop_group(pid)
    caught: set[int] = set()
    for _ in range(50):
        fresh = set(descendants(pid)) - caught
        if not fresh:
            break
        for one in fresh:
            send_signal(one, signal.SIGSTOP)
        caught |= fresh
    for one in caught:
        send_signal(one, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    send_signal(pid, signal.SIGKILL)


def _stop_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGSTOP)


def wait_for(pid: int, seconds: float) -> int | None:
    """The wait status of a child, reaped; None where it still lives after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        reaped, status = os.waitpid(pid, os.WNOHANG)
        if reaped:
            return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def has_children() -> bool:
    """Whether this process has any child, alive or not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
