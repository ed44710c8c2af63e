"""Child processes, kept alive: a dead one is started again with backoff, one that keeps dying ends
all.

Services written in Python are forked from this process after it has imported what they share: they
start at once, and the memory of what was imported is there only once. That needs this process to
stay without threads.
"""

from __future__ import annotations

import contextlib
import gc
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path

import click

from noetl.dispatch.titles import name_process
from noetl.errors import Unavailable
from noetl.processes import die_with_parent

#: So many deaths within this many seconds are one too many, unless it died at work.
MAX_DEATHS = 5
WITHIN_S = 60.0

#: How long children may take to end by themselves.
GRACE_S = 8.0
#: After so long it is said who is still at work.
QUIET_S = 1.5


@dataclass(slots=True)
class Service:
    """One child: `python -m module argv` where `module` is set, else the program `argv[0]`.
    `queues` are those that it works for."""

    name: str
    argv: Sequence[str]
    log: Path
    module: str | None = None
    #: Others need it until they have ended: it is stopped when none of them is left.
    is_needed: bool = False
    queues: Collection[str] = ()
    process: ForkedProcess | subprocess.Popen[bytes] | None = None
    #: When it died without work in hand.
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


class ForkedProcess:
    """A child that runs a module as `python -m` would, in a copy of this process."""

    def __init__(self, service: Service) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self.returncode: int | None = None
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _run_module(service, parent)

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _run_module(service: Service, parent: int) -> None:
    """Never returns: the child must not go on with what its parent was doing."""
    code = 1
    try:
        os.setsid()
        # A stack whose supervisor was killed would hold its home, and not be looked after.
        die_with_parent(parent)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        out = os.open(service.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for source, target in ((null, 0), (out, 1), (out, 2)):
            os.dup2(source, target)
        name_process(service.name)
        module = str(service.module)
        sys.argv = [module, *service.argv]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:  # noqa: BLE001
        # Whatever it was: it belongs into the log of the service, and the process must end here.
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class Supervisor:
    """Starts services in order and stops them in reverse, those that others need at the very end.
    Children are in other sessions, so that an interrupt from the keyboard reaches only this
    process."""

    def __init__(
        self,
        services: Sequence[Service],
        environment: Mapping[str, str],
        find_held: Callable[[Service, int], Sequence[str]] = lambda _service, _pid: (),
    ) -> None:
        self.services = list(services)
        #: The work that a service whose process has died had in hand.
        self._find_held = find_held
        self._hurried = False
        os.environ.update(environment)

    def preload(self, modules: Sequence[str]) -> None:
        """Imports what the services share, and keeps the collector from touching (and copying)
        it."""
        for name in modules:
            import_module(name)
        gc.collect()
        gc.freeze()

    def start(self, names: Sequence[str] | None = None) -> None:
        for service in self.services:
            if names is None or service.name in names:
                self._spawn(service)

    def _spawn(self, service: Service) -> None:
        if service.module is not None:
            service.process = ForkedProcess(service)
            return
        with service.log.open("ab") as log:
            service.process = subprocess.Popen(
                list(service.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - there are no threads here
            )

    @property
    def pids(self) -> dict[str, int]:
        return {s.name: s.process.pid for s in self.services if s.process is not None}

    def tend(self) -> None:
        """Looks after all of them once. Raises Unavailable where one keeps dying."""
        now = time.monotonic()
        for service in self.services:
            if service.process is None:
                if service.due and now >= service.due:
                    self._spawn(service)
            elif (code := service.process.poll()) is not None:
                pid, service.process = service.process.pid, None
                self._bury(service, now, code, self._find_held(service, pid))

    def _bury(self, service: Service, now: float, code: int, held: Sequence[str]) -> None:
        service.deaths = [at for at in service.deaths if now - at < WITHIN_S]
        if held:
            _announce_death(service, code, held)
        else:
            service.deaths.append(now)
        if len(service.deaths) >= MAX_DEATHS:
            raise Unavailable(
                f"{service.name} died {MAX_DEATHS} times within a minute (last exit code {code}), and so "
                "`noetl up` ends; the next one goes on with what has not ended. "
                f"The log of {service.name} is {service.log}:\n{service.last_words}"
            )
        service.due = now + 0.2 * 2 ** max(len(service.deaths) - 1, 0)

    def hurry(self, *_: object) -> None:
        """Has `stop` wait for no running work; may be the handler of a signal."""
        self._hurried = True

    def stop(self, *, announce: bool = False) -> None:
        """Asks the children to end, waits, and insists; then those that others need. Nothing that
        was started is left behind.

        With `announce` the workers that do not end at once are named on standard error.
        """
        for needed in (False, True):
            self._end([one for one in reversed(self.services) if one.is_needed is needed], announce=announce)

    def _end(self, services: Sequence[Service], *, announce: bool) -> None:
        running = [one.process for one in services if one.process is not None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        self._wait_for_end(services, announce=announce)
        for process in running:
            if process.poll() is None:
                process.kill()
            # Its children, should any have outlived it, are in its session.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        while any(process.poll() is None for process in running):
            time.sleep(0.01)
        for service in services:
            service.process = None

    def _wait_for_end(self, services: Sequence[Service], *, announce: bool) -> None:
        began = time.monotonic()
        while not self._hurried and (busy := _busy(services)):
            waited = time.monotonic() - began
            if waited > GRACE_S:
                return
            if waited > QUIET_S and announce:
                announce = False
                _announce_busy(busy)
            time.sleep(0.02)


def _announce_death(service: Service, code: int, held: Sequence[str]) -> None:
    click.echo(
        f"{service.name} died at work (exit code {code}) on {', '.join(held)}: it is started again, and that "
        f"is tried again or given up; its log is {service.log}.",
        err=True,
    )


def _busy(services: Sequence[Service]) -> list[str]:
    return [one.name for one in services if one.process is not None and one.process.poll() is None]


def _announce_busy(names: list[str]) -> None:
    """Only workers have something to finish; the others just take a moment."""
    workers = [name for name in names if name.startswith("worker-")]
    if workers:
        click.echo(
            f"Running tasks have {GRACE_S:g} s to end ({', '.join(workers)}); what does not end is run "
            "again by the next `noetl up`. Ctrl-C stops at once.",
            err=True,
        )
