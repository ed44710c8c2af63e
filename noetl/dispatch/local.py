"""Messages inside one process: threads take the place of broker and workers.

The use cases are the same; only the way of a command id from `send` to a worker is shorter.
"""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from noetl.errors import NoetlError, Unavailable
from noetl.usecases.log_context import about_command
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Runtime
from noetl.usecases.sweep import sweep
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.deliveries import End
from noetl.usecases.work.leases import Leases, Worker

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Interval of the sweeper, which sends what becomes due (retry delays).
SWEEP_S = 0.25

#: What is said while the database cannot be reached or written, by every thread that finds that:
#: the same line each time.
WAITS = "What is due waits: %s"

#: How long `stop` waits for all threads together.
PATIENCE_S = 0.5


class LocalDispatcher:
    """One scheduler thread, one sweeper thread, and `threads` workers. `start` before the first
    use."""

    def __init__(self, threads: int) -> None:
        self._count = threads
        self._commands: queue.PriorityQueue[tuple[int, int, CommandRow | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._leases: Leases | None = None

    def send(self, commands: Sequence[CommandRow]) -> None:
        for row in commands:
            self._put(row)

    def wake(self) -> None:
        if self._wakes.empty():
            self._wakes.put(True)

    def waiting(self, _queue: str) -> int:
        """All commands of the process wait in one line."""
        return self._commands.qsize()

    def start(self, rt: Runtime) -> None:
        """Starts the threads. They end with `stop`."""
        self._leases = Leases(rt)
        self._leases.start()
        worker = Worker(rt, "local", self._leases)
        self._spawn("scheduler", self._schedule, rt)
        self._spawn("sweeper", self._sweep, rt)
        for number in range(self._count):
            self._spawn(f"worker-{number}", self._work, worker)

    def stop(self) -> None:
        """Takes no more commands, waits shortly for threads that are idle, and leaves the rest
        behind: they are daemons, and what they run ends with the tools."""
        self._stopping.set()
        self._wakes.put(False)
        for _ in range(self._count):
            self._commands.put((-1, next(self._numbers), None))
        ends = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(timeout=max(ends - time.monotonic(), 0.0))
        if self._leases is not None:
            self._leases.stop()

    def _spawn(self, name: str, target: Callable[[T], None], argument: T) -> None:
        thread = threading.Thread(target=target, args=(argument,), name=f"noetl-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _put(self, row: CommandRow) -> None:
        self._commands.put((row.priority, next(self._numbers), row))

    def _schedule(self, rt: Runtime) -> None:
        while self._wakes.get() and not self._stopping.is_set():
            _attempt(advance, rt, "A turn failed; the sweeper asks for it again")

    def _sweep(self, rt: Runtime) -> None:
        while not self._stopping.wait(SWEEP_S):
            _attempt(sweep, rt, "A sweep failed; the next one goes on")

    def _work(self, worker: Worker) -> None:
        while not self._stopping.is_set():
            row = self._commands.get()[2]
            if row is None or self._stopping.is_set():
                return
            try:
                with about_command(row.command_id):
                    self._run(worker, row)
            except NoetlError as error:
                # Like a worker that died: the lease runs out, and the sweeper decides.
                log.error("Command %s is left: %s", row.command_id, error.message)  # noqa: TRY400
            except Exception:
                # A defect in one command must not end the thread that serves the others: its lease
                # runs out and the sweeper decides.
                log.exception("Command %s failed", row.command_id)

    def _run(self, worker: Worker, row: CommandRow) -> None:
        if find_purpose(row).handler(worker, row.command_id).end is End.AGAIN:
            self._put(row)


def _attempt(verb: Callable[[Runtime], object], rt: Runtime, failure: str) -> None:
    """Does that, and goes on whatever the database says."""
    try:
        verb(rt)
    except Unavailable as error:
        log.warning(WAITS, error)
    except NoetlError:
        log.exception(failure)
