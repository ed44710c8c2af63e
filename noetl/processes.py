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


#: Looks at a tree that is being ended; between those that find nothing new there is a pause.
STOP_ROUNDS = 250
PAUSE_S = 0.001

_libc = ctypes.CDLL(None)


def _prctl(option: int, argument: int) -> None:
    if LINUX:
        _libc.prctl(option, argument, 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parents end become children of this process, not of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int = 0) -> None:
    """SIGKILL for this process when the thread that forked it ends: for single-threaded parents
    only. One that knows its `parent` ends at once where that is gone already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)


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
    fields = _stat(pid)
    return int(fields[1]) if fields else None


def _stat(pid: int | str) -> list[str]:
    """The state of a process, its parent, and what else stands behind its name; empty where it is
    gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()
    except OSError:
        return []


def _stands_still(pid: int) -> bool:
    """Whether it is stopped, or gone: until then it may be in the midst of a fork."""
    fields = _stat(pid)
    return not fields or fields[0] in "TtZXx"


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
    for one in _stop_descendants(pid):
        send_signal(one, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    send_signal(pid, signal.SIGKILL)


def _stop_descendants(pid: int) -> set[int]:
    """Those that were found, until all of them stand still and no other is there."""
    caught: set[int] = set()
    for _ in range(STOP_ROUNDS):
        fresh = set(descendants(pid)) - caught
        for one in fresh:
            send_signal(one, signal.SIGSTOP)
        caught |= fresh
        if not fresh:
            if all(map(_stands_still, (pid, *caught))):
                break
            time.sleep(PAUSE_S)
    return caught


def kill_started_in(folder: str) -> None:
    """SIGKILL for all whose environment said when they began that `SCRATCH` is `folder` or lies in
    it: what is left of a tree whose top is gone."""
    for _ in range(STOP_ROUNDS):
        left = [pid for pid in _own_processes() if _began_in(folder, pid)]
        if not left:
            return
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def _own_processes() -> list[int]:
    if not LINUX:
        return []
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) != os.getpid()]


def _began_in(folder: str, pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            variables = environ.read().split(b"\0")
    except OSError:
        return False
    mark = f"SCRATCH={folder}".encode()
    return any(one == mark or one.startswith(mark + b"/") for one in variables)


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
        time.sleep(PAUSE_S)


def has_children() -> bool:
    """Whether this process has any child, alive or not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
