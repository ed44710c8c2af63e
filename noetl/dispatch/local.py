"""Messages inside one process: threads take the place of broker and workers.

The use cases are the same; only the way of a command id from `send` to a worker is shorter.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from noetl.dispatch.backoff import Backoff
from noetl.dispatch.work_queue import WorkQueue
from noetl.errors import NoetlError, Unavailable, UnknownPurpose, tell_cause
from noetl.usecases.log_context import about_command
from noetl.usecases.ports import CommandRow
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Runtime
from noetl.usecases.sweep import BATCH, LATEST, sweep
from noetl.usecases.turn.advance import advance
from noetl.usecases.work.leases import End, Leases, Worker

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Interval of the sweeper, which sends what becomes due (retry delays).
SWEEP_S = 0.25

#: What is said while the database cannot be reached or written, by every thread that finds that:
#: the same line each time.
WAITS = "What is due waits: %s"

#: How long `stop` waits for all threads together.
PATIENCE_S = 0.5

#: Seconds after which what has failed ever since is not hoped for any more.
GIVE_UP_S = 120.0

#: What else than commands may fail.
TURN: Final = "turn"
SWEEP: Final = "sweep"


class LocalDispatcher:
    """One scheduler thread, one sweeper thread, and `threads` workers. `start` before the first
    use."""

    def __init__(self, threads: int) -> None:
        self._count = threads
        self._commands = WorkQueue()
        self._wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._leases: Leases | None = None
        self._backoff = Backoff()
        #: Set where it is not known whether a transaction that failed was committed.
        self._in_doubt = threading.Event()

    def send(self, commands: Sequence[CommandRow]) -> None:
        for row in commands:
            self._commands.put(row)

    def wake(self) -> None:
        if self._wakes.empty():
            self._wakes.put(True)

    def waiting(self, _queue: str) -> int:
        """All commands of the process wait in one line."""
        return self._commands.waiting()

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
        self._commands.close(self._count)
        ends = time.monotonic() + PATIENCE_S
        for thread in self._threads:
            thread.join(timeout=max(ends - time.monotonic(), 0.0))
        if self._leases is not None:
            self._leases.stop()

    def _spawn(self, name: str, target: Callable[[T], None], argument: T) -> None:
        thread = threading.Thread(target=target, args=(argument,), name=f"noetl-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def find_stall(self) -> str | None:
        """Why something that is due has come to nothing for `GIVE_UP_S`: None where all goes on."""
        failing = self._backoff.find_failing(GIVE_UP_S)
        return None if failing is None else f"What is due has failed for {GIVE_UP_S:g} s: {failing.error}"

    # --- the scheduler and the sweeper ------------------------------------------------------------

    def _schedule(self, rt: Runtime) -> None:
        while self._wakes.get() and not self._stopping.is_set():
            self._attempt(TURN, _take_turn, rt)

    def _sweep(self, rt: Runtime) -> None:
        while not self._stopping.wait(max(SWEEP_S, self._backoff.delay(SWEEP))):
            self._commands.put_due()
            report = self._attempt(SWEEP, sweep, rt)
            if report is None:
                continue
            if not report.woken:
                # Another turn has done what the one that failed was to do.
                self._backoff.succeeded(TURN)
            if self._in_doubt.is_set():
                self._in_doubt.clear()
                self._attempt(SWEEP, self._take_up, rt)

    def _attempt(self, name: str, verb: Callable[[Runtime], T], rt: Runtime) -> T | None:
        """Does that, and goes on whatever happens; None where it failed."""
        try:
            done = verb(rt)
        except Exception as error:
            if isinstance(error, Unavailable):
                log.warning(WAITS, error)
            else:
                log.exception("A %s failed; the next one goes on", name)
            self._backoff.failed(name, error)
            self._in_doubt.set()
            return None
        self._backoff.succeeded(name)
        return done

    def _take_up(self, rt: Runtime) -> None:
        """Puts what is marked as sent and is not at hand: whoever marked it did not hear of the
        commit, and sent nothing. Twice does no harm."""
        with rt.store.read() as tx:
            sent = tx.commands.unclaimed(LATEST, BATCH)
        for row in self._commands.missing(sent):
            self._commands.put(row)

    # --- the workers ------------------------------------------------------------------------------

    def _work(self, worker: Worker) -> None:
        while not self._stopping.is_set():
            row = self._commands.take()
            if row is None or self._stopping.is_set():
                return
            with about_command(row.command_id):
                self._run(worker, row)
            self._commands.done(row)

    def _run(self, worker: Worker, row: CommandRow) -> None:
        try:
            end = find_purpose(row).handler(worker, row.command_id).end
        except UnknownPurpose as error:
            log.error("Command %s is left: %s", row.command_id, error)  # noqa: TRY400
        except Unavailable as error:
            log.warning(WAITS, error)
            self._put_later(row, error)
        except NoetlError as error:
            log.warning("Command %s is tried again: %s", row.command_id, error)
            self._put_later(row, error)
        except Exception as error:
            # A defect in one command must not end the thread that serves the others.
            log.exception("Command %s failed, and is tried again", row.command_id)
            self._put_later(row, error)
        else:
            self._backoff.succeeded(row.command_id)
            if end is End.AGAIN:
                self._commands.put(row)

    def _put_later(self, row: CommandRow, error: Exception) -> None:
        """Nobody else would send it again. Where it was claimed it is refused until its lease has
        run out, as that of a worker that died, and then the sweeper decides."""
        self._backoff.failed(row.command_id, error)
        self._commands.put_later(row, self._backoff.delay(row.command_id))


def _take_turn(rt: Runtime) -> None:
    """Raises Unavailable where an execution cannot be served: it waits, as all does that fails."""
    for failed in advance(rt):
        raise Unavailable(f"Execution {failed.execution_id} cannot go on: {tell_cause(failed.error)}")
