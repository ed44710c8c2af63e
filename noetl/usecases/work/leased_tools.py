"""The tools as a command may use them: for as long as its lease lasts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from noetl.facts.events import Draft, TaskStarted
from noetl.facts.logs import Log, Stream
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Suspension, ToolPort
from noetl.usecases.log_bounds import PrintedAttempt
from noetl.usecases.log_context import at_work
from noetl.usecases.ports import CommandRow
from noetl.usecases.runtime import Runtime


class LeaseLost(Exception):
    """The command is closed or another delivery holds it: what this worker did does not count."""


class IterationDropped(Exception):
    """The iteration was cancelled: what was done of it does not count, and its lane goes on."""


class LeasedTools(ToolPort):
    """The tools, for one command: once its lease is gone no call starts and the running one is
    ended. What a call prints is kept as that of its attempt."""

    def __init__(self, rt: Runtime, command: CommandRow) -> None:
        self._rt = rt
        self._command = command
        self._printing: PrintedAttempt | None = None
        self._tools = rt.tools
        self._lock = threading.Lock()
        self._call: Call | None = None
        self._since = rt.clock()
        self._announced = True
        self._over = False
        self._dropped: int | None = None
        self.cancelled = False

    def run(self, call: Call) -> Outcome | Suspension:
        with self._lock:
            self._call, self._since, self._announced = call, self._rt.clock(), False
        self.check()
        token = at_work.set(call)
        try:
            return self._tools.run(call)
        finally:
            at_work.reset(token)
            with self._lock:
                self._call = None
            if self._printing is not None and self._rt.logs is not None:
                self._rt.logs.end(self._command, self._printing)
                self._printing = None
            self.check()
            if self._dropped is not None and self._dropped == call.where.iteration:
                raise IterationDropped

    @property
    def log(self) -> Log | None:
        """Takes what the call prints that runs."""
        return None if self._rt.logs is None else self._print

    def _print(self, stream: Stream, text: str) -> None:
        logs, call = self._rt.logs, self._call
        if logs is None or call is None:
            return
        if self._printing is None:
            self._printing = logs.begin(self._command, call)
        logs.write(self._command, self._printing, stream, text)

    def announce(self, report: Callable[[Call, Draft], None]) -> None:
        """Once for each call that outlives a heartbeat: `report` may report, because the worker's
        own thread is inside of the tool and stays there until this returns."""
        with self._lock:
            call = self._call
            age = (self._rt.clock() - self._since).total_seconds()
            if call is None or self._announced or self._over or age < self._rt.limits.heartbeat_s:
                return
            self._announced = True
            where = call.where
            draft = Draft(
                TaskStarted(call.task, self._since.isoformat()),
                source="worker",
                step=where.step,
                run_id=where.run_id,
                iteration=where.iteration,
                attempt=call.attempt,
            )
            try:
                report(call, draft)
            except LeaseLost:
                # The worker's thread meets the same with its own report, and gives up there.
                return

    def check(self) -> None:
        """Raises LeaseLost where the command is no longer ours."""
        if self._over:
            raise LeaseLost

    def iteration(self) -> int | None:
        """That of the call that runs."""
        call = self._call
        return None if call is None else call.where.iteration

    def drop_iteration(self, index: int) -> None:
        """Called from the heartbeat's thread: the iteration was cancelled, and its call is
        ended."""
        self._dropped = index
        if (call := self._call) is not None and call.where.iteration == index:
            self._tools.interrupt(call)

    def interrupt(self, call: Call) -> None:
        self._tools.interrupt(call)

    def end(self, cancelled: bool) -> None:
        """Called from the heartbeat's thread."""
        self.cancelled = cancelled
        self._over = True
        if (call := self._call) is not None:
            self._tools.interrupt(call)
