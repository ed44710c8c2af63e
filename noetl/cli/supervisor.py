"""Child processes, kept alive: a dead one is started again with backoff, one that keeps dying ends all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from noetl.errors import Unavailable

#: So many deaths within this many seconds are one too many.
MAX_DEATHS = 5
WITHIN_S = 60.0

#: How long children may take to end by themselves.
GRACE_S = 8.0


@dataclass(slots=True)
class Service:
    """One child: its command line, and what became of it."""

    name: str
    argv: Sequence[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    deaths: list[float] = field(default_factory=list)
    due: float = 0.0

    @property
    def last_words(self) -> str:
        """The end of its log."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-15:])


class Supervisor:
    """Starts services in order and stops them in reverse. Children are in sessions of their own, so that
    an interrupt from the keyboard reaches only us."""

    def __init__(self, services: Sequence[Service], environment: Mapping[str, str], directory: Path) -> None:
        self.services = list(services)
        self._environment = dict(environment)
        self._directory = directory

    def start(self, names: Sequence[str] | None = None) -> None:
        for service in self.services:
            if names is None or service.name in names:
                self._spawn(service)

    def _spawn(self, service: Service) -> None:
        with service.log.open("ab") as log:
            service.process = subprocess.Popen(
                list(service.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self._directory,
                start_new_session=True,
            )

    @property
    def pids(self) -> dict[str, int]:
        return {s.name: s.process.pid for s in self.services if s.process is not None}

    def tend(self) -> None:
        """Looks after everybody once. Raises Unavailable where one keeps dying, with its last words."""
        now = time.monotonic()
        for service in self.services:
            if service.process is None:
                if service.due and now >= service.due:
                    self._spawn(service)
            elif service.process.poll() is not None:
                self._bury(service, now)

    def _bury(self, service: Service, now: float) -> None:
        code = service.process.returncode if service.process else None
        service.process = None
        service.deaths = [*(t for t in service.deaths if now - t < WITHIN_S), now]
        if len(service.deaths) >= MAX_DEATHS:
            raise Unavailable(
                f"{service.name} died {MAX_DEATHS} times within a minute (last exit code {code}); "
                f"its log is {service.log}:\n{service.last_words}"
            )
        service.due = now + 0.2 * 2 ** (len(service.deaths) - 1)

    def stop(self) -> None:
        """Asks everybody to end, waits, and insists. Nothing that was started is left behind."""
        running = [s.process for s in reversed(self.services) if s.process is not None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in running:
            try:
                process.wait(max(0.05, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            # Its children, should any have outlived it, are in its session.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        for service in self.services:
            service.process = None
