"""The worker's side of the runner process: starting it, leasing its children, ending them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from noetl import processes
from noetl.scratch import ScratchFolder, make_folder, sweep_folders

from .child import scratch, tables
from .sandbox import sandbox_command
from .server import ANSWER, REQUEST

#: All that a child inherits of the worker's environment. Nothing that could hold a secret.
INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
)

#: Directory below the root for the files that calls are shown: inside of a sandbox it cannot be
#: written.
SHOWN = "shown"

LAUNCH = Path(__file__).with_name("launch.py")

#: Received descriptors must not be inherited by what the worker starts meanwhile.
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class RunnerGone(Exception):
    """The runner process does not answer."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """`warm` children are forked ahead; at most `idle` used ones are kept for their owners.

    `readable` are the directories that a sandbox shows beside those of the system, `hidden` those
    that it never shows. `inherited` are variables of the worker's environment that are handed on
    beside INHERITED. What is interrupted has `grace_s` seconds to end by itself."""

    scratch: Path
    sandbox: bool = False
    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    inherited: tuple[str, ...] = ()
    warm: int = 2
    idle: int = 8
    grace_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A child of the runner: its pid, the channel to it, and the ends of its stdout and stderr.

    `watched` is the process below which its descendants are counted: itself, or in a sandbox, whose
    pids mean nothing outside, the sandbox.
    """

    pid: int
    watched: int
    channel: int
    out: int
    err: int

    def close(self) -> None:
        """The child ends when it sees its channel closed."""
        for descriptor in (self.channel, self.out, self.err):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def environment(more: Collection[str] = ()) -> dict[str, str]:
    """The environment of user code: an allow-list and `more`, without any setting of NoETL."""
    # The one place besides `config` that reads the environment: it is handed on, not interpreted.
    allowed = {name for name in os.environ if name in INHERITED or name.startswith("LC_") or name in more}
    return {name: os.environ[name] for name in allowed if not name.startswith("NOETL_")}


def sweep_runs(below: Path) -> None:
    """Ends what the children of runners run that are gone, and removes what they had: where a
    runner is killed with its worker, nobody else does. Raises OSError."""
    if below.is_dir():
        sweep_folders(below.resolve(), lambda folder: processes.kill_started_in(str(folder)))


class Control:
    """One runner process. Thread-safe; a fork of the worker must not use it but `forget` it."""

    def __init__(self, settings: RunnerSettings) -> None:
        settings.scratch.mkdir(parents=True, exist_ok=True)
        # Without links: in a sandbox they lead nowhere.
        below = settings.scratch.resolve()
        sweep_runs(below)
        folder = make_folder(below, "run")
        root = str(folder.path)
        self.pid = os.getpid()
        self._folder = folder
        self._root = Path(root)
        self._lock = threading.Lock()
        self._sandboxed = settings.sandbox
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                command = [sys.executable, "-I", "-X", "utf8", str(LAUNCH)]
                command += [str(theirs.fileno()), root, str(settings.warm), str(settings.grace_s)]
                shown = Path(root, SHOWN)
                shown.mkdir(mode=0o700)
                if settings.sandbox:
                    readable, hidden = settings.readable, settings.hidden
                    command = sandbox_command(command, root, str(shown), readable, hidden)
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    # What its children fork without a program of their own is known by it, too.
                    env={**environment(settings.inherited), "SCRATCH": root},
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
        except BaseException:
            self._socket.close()
            folder.remove()
            raise
        self._finalizer = weakref.finalize(self, _stop, self._socket, self._process, folder, self.pid)

    def lease(self) -> Lease:
        """A fresh child. Raises RunnerGone."""
        with self._lock, self._talking():
            self._socket.sendall(REQUEST.pack(b"L", 0))
            answer, descriptors, _, _ = socket.recv_fds(self._socket, ANSWER.size, 3, _CLOSE_ON_EXEC)
            if len(answer) < ANSWER.size or len(descriptors) < 3:
                raise RunnerGone
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            pid: int = ANSWER.unpack(answer)[0]
            return Lease(pid, self._process.pid if self._sandboxed else pid, *descriptors)

    def end(self, pid: int, *, kill: bool) -> int:
        """Ends a child and all below it; its wait status. Without `kill` it is ending by itself.
        Raises RunnerGone where the runner does not answer."""
        with self._lock, self._talking():
            self._socket.sendall(REQUEST.pack(b"K" if kill else b"R", pid))
            answer = self._socket.recv(ANSWER.size, socket.MSG_WAITALL)
            if len(answer) < ANSWER.size:
                raise RunnerGone
            status: int = ANSWER.unpack(answer)[1]
            return status

    def terminate(self, pid: int) -> None:
        """SIGTERM for a child and what it runs, and the end of it after the grace. Raises
        RunnerGone."""
        with self._lock, self._talking():
            self._socket.sendall(REQUEST.pack(b"T", pid))

    @contextlib.contextmanager
    def showing(self) -> Iterator[Callable[[Path], Path]]:
        """`show(file)` is the path under which a child can read the file, while the block runs."""
        with contextlib.ExitStack() as stack:

            def show(file: Path) -> Path:
                if not self._sandboxed:
                    return file
                folder = tempfile.TemporaryDirectory(dir=self._root / SHOWN, ignore_cleanup_errors=True)
                shown = Path(stack.enter_context(folder), file.name)
                try:
                    os.link(file, shown)
                except OSError:
                    # On another file system.
                    shutil.copyfile(file, shown)
                return shown

            yield show

    @contextlib.contextmanager
    def tables(self, lease: Lease, count: int) -> Iterator[list[Path]]:
        """The files of tables that a child wrote, out of its reach, while the block runs. Raises
        RunnerGone where one is not there or is no plain file."""
        written = Path(tables(scratch(str(self._root), lease.pid)))
        with tempfile.TemporaryDirectory(dir=self._root / SHOWN, ignore_cleanup_errors=True) as folder:
            files = [Path(folder, f"{number}.parquet") for number in range(count)]
            with self._talking():
                for file in files:
                    os.rename(written / file.name, file)
                    if not stat.S_ISREG(file.lstat().st_mode):
                        raise RunnerGone(f"the table {file.name} is no plain file")
            yield files

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RunnerGone from error

    def stop(self) -> None:
        """Ends the runner with all of its children."""
        self._finalizer()

    def abandon(self, lease: Lease) -> None:
        """Kills a child's group without the runner's help, and what has left the group, where the
        runner is gone."""
        if not self._sandboxed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(lease.pid, signal.SIGKILL)
            processes.kill_started_in(scratch(str(self._root), lease.pid))

    def forget(self) -> None:
        """In a fork of the worker: lets go of what belongs to the process that forked."""
        self._finalizer.detach()
        self._socket.close()
        self._folder.let_go()
        self._process.returncode = 0


def _stop(
    channel: socket.socket, process: subprocess.Popen[bytes], folder: ScratchFolder, owner: int
) -> None:
    if os.getpid() != owner:
        return
    channel.close()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode:
        # It was killed, and ended nothing.
        processes.kill_started_in(str(folder.path))
    folder.remove()
