"""Drives the calls of a task as the interpreter does: what a call hands over is recorded before the
next one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from noetl.errors import ToolError
from noetl.pipeline.model import Later
from noetl.quantum.backends.ports import RemoteBackend
from noetl.quantum.config.task import Polling
from noetl.quantum.jobs.job_pass import JobContext, JobResults
from noetl.quantum.session import SendTokens

from .orders import call
from .vendor import Clock

#: What a task does in one call: `jobs.run` and its like, with all but the context.
Task = Callable[[JobContext], Later | JobResults]


@dataclass
class Play:
    """A task whose calls are made by hand. `recorded` are its checkpoints as the log has them."""

    backend: RemoteBackend
    task: Task
    clock: Clock = field(default_factory=Clock)
    deadline_s: float | None = None
    attempt: int = 1
    abandoned: bool = False
    recorded: list[Any] = field(default_factory=list)
    send_tokens: SendTokens = field(init=False)
    began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.send_tokens = self._send_tokens()
        self.began = self.clock()

    def _send_tokens(self) -> SendTokens:
        return SendTokens(clock=self.clock.seconds)

    def restart(self) -> None:
        """The process is another one, which knows no ticket."""
        self.send_tokens = self._send_tokens()

    def call(self) -> Later | JobResults:
        """One call; nothing of it is recorded."""
        left = None
        if self.deadline_s is not None:
            left = max(0.0, self.deadline_s - (self.clock() - self.began).total_seconds())
            assert left > 0.0, "the interpreter does not call a task whose time is over"
        checkpoint = self.recorded[-1] if self.recorded else None
        made = call(checkpoint, attempt=self.attempt, deadline_s=left, abandoned=self.abandoned)
        context = JobContext(
            self.backend,
            made,
            Polling(),
            self.send_tokens,
            now=self.clock,
            monotonic=self.clock.seconds,
        )
        return self.task(context)

    def record(self, later: Later) -> None:
        """As the log keeps it: JSON, and only where it has changed."""
        said = json.loads(json.dumps(later.checkpoint))
        assert said == later.checkpoint, "what comes back from the log is what was handed over"
        if not self.recorded or self.recorded[-1] != said:
            self.recorded.append(said)

    def step(self) -> Later | JobResults:
        """One call, recorded, and its wait."""
        came = self.call()
        if isinstance(came, Later):
            self.record(came)
            self.clock.move(came.seconds)
        return came

    def end(self, calls: int = 200) -> JobResults:
        """Calls until it is done."""
        for _ in range(calls):
            came = self.step()
            if isinstance(came, JobResults):
                return came
        raise AssertionError(f"not done after {calls} calls: {self.recorded[-1]}")

    def fails(self, calls: int = 200) -> ToolError:
        """Calls until it fails."""
        for _ in range(calls):
            try:
                came = self.step()
            except ToolError as error:
                return error
            assert isinstance(came, Later), came
        raise AssertionError(f"has not failed after {calls} calls: {self.recorded[-1]}")

    def again(self) -> None:
        """The task is tried again, after an error."""
        self.attempt += 1
        self.began = self.clock()
