"""The runner: forks children ahead, hands them to the worker, and leaves no process behind.

One thread, no state but its children. The worker asks over the control socket:

    L        lease: the answer is a pid with three descriptors (channel, stdout, stderr)
    K <pid>  kill the child and all that descends from it; the answer is its wait status
    R <pid>  the same for a child that is ending by itself: it is given a moment to do so
    T <pid>  SIGTERM for the child and its group, and after the grace the same as K; no answer

When the socket closes, the worker is gone: everything is killed. Every child adopts its own
orphans, so a child of the runner that it did not fork belonged to a child that has died, and is
killed."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import select
import shutil
import signal
import socket
import struct
import time
from collections import OrderedDict

from .... import processes
from . import child, python_code

REQUEST = struct.Struct("!ci")
ANSWER = struct.Struct("!ii")

#: Seconds that a child which closed its channel has to end before it is killed.
GRACE_S = 0.25
#: Milliseconds before a child that was leased is replaced, where another one stands by.
REFILL_MS = 10
#: Wait statuses that are remembered for children that were not asked about yet.
REMEMBERED = 256


class RunnerServer:
    def __init__(self, control: socket.socket, root: str, warm: int, grace_s: float) -> None:
        self.control = control
        self.root = root
        self.target = warm
        self.grace_s = grace_s
        #: Children that wait to be leased: the worker's ends of their descriptors by pid.
        self.warm: dict[int, tuple[int, int, int]] = {}
        self.alive: set[int] = set()
        self.ended: OrderedDict[int, int] = OrderedDict()
        #: When those are killed that were asked to end, by pid.
        self.dying: dict[int, float] = {}

    def serve(self) -> None:
        """Until the worker is gone."""
        wake, waker = socket.socketpair()
        waker.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        try:
            self._loop(wake)
        finally:
            signal.set_wakeup_fd(-1)
            wake.close()
            waker.close()

    def _loop(self, wake: socket.socket) -> None:
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        poller.register(wake, select.POLLIN)
        while True:
            short = len(self.warm) < self.target
            ready = {descriptor for descriptor, _ in poller.poll(self.timeout(short=short))}
            self.kill_late()
            if wake.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    while wake.recv(4096):
                        continue
                self.reap()
            if self.control.fileno() in ready and not self.answer():
                return
            if not ready and short:
                pid, ends = self.fork()
                self.warm[pid] = ends

    def patience(self) -> float:
        """Milliseconds of quiet after which another child is forked ahead. While one still stands
        by that can wait: what was just leased runs now, and a fork beside it would slow it down."""
        return REFILL_MS if self.warm else 0

    def timeout(self, *, short: bool) -> float | None:
        """Milliseconds until something is to be done of which no descriptor tells."""
        late = [max(at - time.monotonic(), 0.0) * 1000 for at in self.dying.values()]
        return min([*late, *([self.patience()] if short else [])], default=None)

    def answer(self) -> bool:
        """Serves one request. False once the worker has gone, in the middle of whatever it was."""
        try:
            request = self.control.recv(REQUEST.size, socket.MSG_WAITALL)
            if len(request) < REQUEST.size:
                return False
            verb, pid = REQUEST.unpack(request)
            if verb == b"L":
                self.lease()
            elif verb == b"T":
                self.terminate(pid)
            else:
                grace_s = GRACE_S if verb == b"R" else 0.0
                self.control.sendall(ANSWER.pack(pid, self.end(pid, grace_s)))
        except ConnectionError:
            return False
        return True

    def lease(self) -> None:
        pid = next(iter(self.warm), None)
        pid, ends = self.fork() if pid is None else (pid, self.warm.pop(pid))
        socket.send_fds(self.control, [ANSWER.pack(pid, 0)], ends)
        for end in ends:
            os.close(end)

    def fork(self) -> tuple[int, tuple[int, int, int]]:
        """The pid of a new child, and the worker's ends of its channel, stdout and stderr."""
        channel, child_channel = (end.detach() for end in socket.socketpair())
        out, child_out = os.pipe()
        err, child_err = os.pipe()
        os.set_blocking(out, False)
        os.set_blocking(err, False)
        runner = os.getpid()
        pid = os.fork()
        if pid == 0:
            # Its descriptor is closed below by number; the object must not close what gets
            # its number next.
            self.control.detach()
            signal.set_wakeup_fd(-1)
            child.main(runner, self.root, child_channel, child_out, child_err)
        for end in (child_channel, child_out, child_err):
            os.close(end)
        self.alive.add(pid)
        return pid, (channel, out, err)

    def terminate(self, pid: int) -> None:
        """Asks a child and what it runs to end, while there is time."""
        if pid not in self.alive:
            return
        now = time.monotonic()
        try:
            os.killpg(pid, signal.SIGTERM)
            self.dying.setdefault(pid, now + self.grace_s)
        except ProcessLookupError:
            # It has no group yet, and runs nothing.
            self.dying[pid] = now

    def kill_late(self) -> None:
        """Kills what was asked to end, and has not; how it ended is asked for later."""
        now = time.monotonic()
        for pid in [pid for pid, at in self.dying.items() if at <= now]:
            processes.kill_tree(pid)
            self.bury(pid, os.waitpid(pid, 0)[1])
            self.kill_orphans()

    def end(self, pid: int, grace_s: float) -> int:
        """Ends a child with all its descendants, and says how it ended."""
        if pid in self.alive:
            status = processes.wait_for(pid, grace_s) if grace_s else None
            if status is None:
                processes.kill_tree(pid)
                status = os.waitpid(pid, 0)[1]
            self.bury(pid, status)
        self.kill_orphans()
        return self.ended.pop(pid, 0)

    def reap(self) -> None:
        """Collects what has ended, and kills what the dead left behind."""
        buried = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid in self.alive:
                    self.bury(pid, status)
                    buried = True
        if buried:
            self.kill_orphans()

    def bury(self, pid: int, status: int) -> None:
        self.alive.discard(pid)
        self.dying.pop(pid, None)
        self.ended[pid] = status
        while len(self.ended) > REMEMBERED:
            self.ended.popitem(last=False)
        for end in self.warm.pop(pid, ()):
            os.close(end)
        directory = child.scratch(self.root, pid)
        for left in (directory, child.tables(directory)):
            shutil.rmtree(left, ignore_errors=True)

    def kill_orphans(self) -> None:
        for _ in range(200):
            orphans = set(processes.children(os.getpid())) - self.alive
            if not orphans:
                return
            for orphan in orphans:
                processes.kill_tree(orphan)
                with contextlib.suppress(ChildProcessError):
                    processes.wait_for(orphan, 0.05)

    def stop(self) -> None:
        """Kills everything and removes the scratch directories."""
        for pid in tuple(self.alive):
            self.end(pid, 0.0)
        self.kill_orphans()
        shutil.rmtree(self.root, ignore_errors=True)


def main(control: int, root: str, warm: int, grace_s: float) -> None:
    # The worker decides when the runner ends; a terminal or a service manager speaks to the worker.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans()
    # Held as by the worker (`noetl.scratch`), until the last of the children is gone.
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(root, os.O_RDONLY | os.O_DIRECTORY), fcntl.LOCK_SH)
    python_code.rehearse()
    gc.collect()
    gc.freeze()
    server = RunnerServer(socket.socket(fileno=control), root, warm, grace_s)
    try:
        server.serve()
    finally:
        server.stop()
