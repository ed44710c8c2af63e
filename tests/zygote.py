"""One process imports NoETL, and the programs that tests start are forked from it.

    with zygote.Popen(["noetl", "run", "x.yaml"], stdout=subprocess.PIPE, text=True) as process: ...
    zygote.run(["celery", "-A", "noetl", "report"], env=environment, capture_output=True)

The words are those behind `python -m`; everything else is said as to `subprocess`. What is forked
sees the environment, folder and streams that it was given, has a fresh `__main__`, and dies with
the process that asked for it. Importing costs a second of a processor at each start, a fork a
hundredth. Three processes of each kind are still started as users start them, since a fork does not
show whether a program finds its modules.

The zygote never executes `noetl.celery` and `noetl.wsgi` itself: they read their settings when they
are imported.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import io
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from noetl.processes import die_with_parent

ROOT = Path(__file__).resolve().parents[1]

#: Where the zygote of this run listens.
ADDRESS = "TESTED_BY_ZYGOTE"

#: What the programs import, however they are called. What only some of them need is here where it
#: is many modules.
MODULES = (
    "celery.__main__",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.bin.worker",
    "celery.concurrency.prefork",
    "celery.concurrency.solo",
    "celery.concurrency.thread",
    "celery.fixups.django",
    "celery.loaders.app",
    "celery.worker.autoscale",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.pidbox",
    "celery.worker.request",
    "celery.worker.strategy",
    "celery.backends.redis",
    "kombu.transport.redis",
    "kombu.transport.filesystem",
    "kombu.transport.memory",
    "gunicorn.app.wsgiapp",
    "gunicorn.glogging",
    "noetl.api.app",
    "noetl.api.limits",
    "noetl.api.refusals",
    "noetl.api.server_log",
    "noetl.bootstrap",
    "noetl.cli.main",
    "noetl.cli.run",
    "noetl.cli.up",
    "noetl.cli.services",
    "noetl.cli.execution",
    "noetl.cli.catalog",
    "noetl.cli.check",
    "noetl.dispatch.celery",
    "noetl.dispatch.dead_letters",
    "noetl.dispatch.debounce",
    "noetl.dispatch.local",
    "noetl.local_access",
    "noetl.store.running",
    "noetl.tasks.commands",
    "noetl.ui.pages",
    "noetl.ui.site",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "sqlalchemy.dialects.sqlite",
)


#: Shows where each thread of a forked process is, in its standard error. Nobody else uses it.
SHOW_THREADS = signal.SIGRTMIN + 7


class Popen(subprocess.Popen[Any]):
    """A process that the zygote forks: `python -m WORDS`, with the options of `subprocess.Popen`
    but `preexec_fn`, `shell`, `pass_fds` and accounts."""

    def __init__(self, words: Sequence[str], *, is_kept: bool = False, **options: Any) -> None:
        """`is_kept`: it lives as long as the run, whoever asked for it."""
        self._ends: socket.socket | None = None
        self._is_kept = is_kept
        super().__init__([str(word) for word in words], **options)

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, startupinfo: Any, creationflags: Any, shell: Any, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int, errread: int, errwrite: int, restore_signals: Any, gid: Any, gids: Any, uid: Any, umask: Any, start_new_session: bool, *others: Any) -> None:  # fmt: skip
        assert not any((preexec_fn, shell, pass_fds, executable)), "a zygote cannot do that"
        order = {
            "words": list(args),
            "cwd": os.fspath(cwd or os.getcwd()),
            "env": {os.fspath(name): os.fspath(value) for name, value in (env or os.environ).items()},
            "session": bool(start_new_session),
            "is_kept": self._is_kept,
        }
        streams = [given if given != -1 else mine for given, mine in zip((p2cread, c2pwrite, errwrite), range(3), strict=True)]  # fmt: skip
        try:
            self._ends = _order(json.dumps(order).encode(), streams)
            self.pid = int(_receive(self._ends))
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        self._child_created = True

    def _internal_poll(self, _deadstate: int | None = None, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._ends is not None and _is_readable(self._ends, 0):
            self._take_end()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            assert self._ends is not None
            if not _is_readable(self._ends, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._take_end()
        return self.returncode

    def let_go(self) -> None:
        """Stops looking at a process that is kept."""
        assert self._ends is not None
        self._ends.close()
        self._ends, self.returncode = None, 0

    def _take_end(self) -> None:
        """Learns how the process ended. Where the zygote died, so did all that it forked."""
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is not None or self._ends is None:
                return
            status = _receive(self._ends)
            self._ends.close()
            self._ends = None
            self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL


def run(
    words: Sequence[str],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """What `subprocess.run` does, for a process that is forked."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(words, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, out, err)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


# --- of the run ----------------------------------------------------------------------------------


def prepare() -> subprocess.Popen[bytes]:
    """Starts the zygote of this run, which imports nothing before it is asked for the first time.
    Processes that this one starts find it by their environment."""
    address = Path(tempfile.mkdtemp(prefix="noetl-zygote-", dir="/tmp")) / "socket"
    os.environ[ADDRESS] = str(address)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind(str(address))
        listening.listen(128)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", str(listening.fileno())],
            cwd=ROOT,
            pass_fds=[listening.fileno()],
            stdin=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends the zygote, and whatever it still has."""
    process.terminate()
    process.wait()
    shutil.rmtree(folder())
    os.environ.pop(ADDRESS)


def folder() -> Path:
    """A folder of this run, for what its processes share."""
    return Path(os.environ[ADDRESS]).parent


# --- between the two -----------------------------------------------------------------------------


def _order(message: bytes, streams: Sequence[int]) -> socket.socket:
    with contextlib.ExitStack() as opening:
        asking = opening.enter_context(socket.socket(socket.AF_UNIX))
        asking.connect(os.environ[ADDRESS])
        socket.send_fds(asking, [struct.pack("!I", len(message))], list(streams))
        asking.sendall(message)
        opening.pop_all()
        return asking


def _receive(stream: socket.socket) -> bytes:
    """The next line without its end; empty where the other side is gone."""
    line = bytearray()
    with contextlib.suppress(ConnectionError):
        while (byte := stream.recv(1)) not in (b"", b"\n"):
            line += byte
    return bytes(line)


def _is_readable(stream: socket.socket, timeout: float | None) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return bool(selector.select(timeout))


# --- the zygote itself ---------------------------------------------------------------------------


class Zygote:
    """Forks what it is asked for, says which process it is and how it ended, and kills what nobody
    waits for any more. It has one thread."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        #: By process: who asked for it.
        self._asking: dict[int, socket.socket] = {}
        #: What lives as long as the run.
        self._kept: set[int] = set()
        self._has_imported = False

    def serve(self) -> None:
        """Runs until it is told to end."""
        ended, wakes = socket.socketpair()
        for end in (ended, wakes):
            end.setblocking(False)
        signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector.register(ended, selectors.EVENT_READ, self._reap)
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        while True:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _stop(self, *_: object) -> NoReturn:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._asking.keys() - self._kept:
            _send(pid, signal.SIGKILL)
        for pid in self._kept:
            _send(pid, signal.SIGINT)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        os._exit(0)

    def _reap(self, ended: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            ended.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._kept.discard(pid)
                asking = self._asking.pop(pid, None)
                if asking is not None:
                    self._forget(asking, f"{status}\n")

    def _forget(self, asking: socket.socket, word: str = "") -> None:
        self._selector.unregister(asking)
        with contextlib.suppress(OSError):
            asking.sendall(word.encode())
        asking.close()

    def _accept(self, listening: socket.socket) -> None:
        if not self._has_imported:
            _import()
            self._has_imported = True
        asking, _ = listening.accept()
        head, streams, *_ = socket.recv_fds(asking, 4, 3)
        order = json.loads(_read(asking, *struct.unpack("!I", head)))
        pid = os.fork()
        if pid == 0:
            self._become(asking, order, streams)
        for stream in streams:
            os.close(stream)
        self._asking[pid] = asking
        if order["is_kept"]:
            self._kept.add(pid)
        self._selector.register(asking, selectors.EVENT_READ, lambda _: self._leave(pid))
        asking.sendall(f"{pid}\n".encode())

    def _leave(self, pid: int) -> None:
        """Who asked for a process is gone: so is the process, unless it is kept."""
        if pid not in self._kept:
            _send(pid, signal.SIGKILL)
        asking = self._asking.pop(pid, None)
        if asking is not None:
            self._forget(asking)

    def _become(self, asking: socket.socket, order: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            self._selector.close()
            for one in (self._listening, asking, *self._asking.values()):
                one.close()
            _settle(order, streams)
            code = _execute(order["words"])
        except BaseException:  # noqa: BLE001 - nothing of the zygote may run on in a fork
            traceback.print_exc()
        finally:
            os._exit(code)


def _read(stream: socket.socket, size: int) -> bytes:
    message = bytearray()
    while len(message) < size:
        part = stream.recv(size - len(message))
        if not part:
            break
        message += part
    return bytes(message)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _import() -> None:
    gc.disable()
    for name in MODULES:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()


def _settle(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Makes this fork look like a process that was started with these words."""
    from setproctitle import setproctitle

    # A run in the background ignores some of them, and so does this fork's parent.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order["session"]:
        os.setsid()
    die_with_parent()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 4096)
    _open_streams()
    faulthandler.register(SHOW_THREADS, file=2, all_threads=True)
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    os.chdir(order["cwd"])
    # gunicorn takes the folder that it was imported in for the one that it was started in.
    sys.modules["gunicorn.config"].Chdir.default = os.getcwd()  # type: ignore[attr-defined]
    sys.path[0] = order["cwd"]
    setproctitle(" ".join([sys.executable, "-m", *order["words"]]))


def _open_streams() -> None:
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _writer(1, "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace")  # type: ignore[misc]


def _writer(number: int, errors: str) -> io.TextIOWrapper:
    by_line = number == 2 or os.isatty(number)
    return open(number, "w", encoding="utf-8", errors=errors, buffering=1 if by_line else -1, closefd=False)


def _execute(words: Sequence[str]) -> int:
    """What `python -m WORDS` does, up to the exit code."""
    module, *arguments = words
    sys.argv = [module, *arguments]
    # What the zygote has imported of it is there for what that imports.
    for name in ("__main__", f"{module}.__main__"):
        sys.modules.pop(name, None)
    code = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        code = _exit_code(leaving.code)
    except KeyboardInterrupt:
        traceback.print_exc()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _flush()
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - what ends a program is shown as Python shows it
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return code if _flush() else 120


def _exit_code(said: object) -> int:
    if said is None:
        return 0
    if isinstance(said, int):
        return said & 0xFF
    print(said, file=sys.stderr)
    return 1


def _flush() -> bool:
    """Whether everything that was written has gone out."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    Zygote(socket.socket(fileno=int(sys.argv[1]))).serve()
