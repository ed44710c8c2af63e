"""A child: waits for calls on its channel, runs them one by one, and says when it should be
replaced."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading  # noqa: F401 - imported ahead, so that its fork hooks stand before user code runs
from _thread import _count as running_threads
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from .... import processes
from ....facts import json
from . import python_code, requests

CHANNEL, OUT, ERR = 3, 4, 5

#: Address space (MB) that libraries reserve and do not use (allocators, stacks of threads). What is
#: used is bound by `memory_mb`.
RESERVED_MB = 4096
#: Peak memory (kB) above which a child is replaced after its call.
GROWN_KB = 256 * 1024
#: Processes and threads that one unprivileged user may have; root has no such limit.
USER_PROCESSES = 4096


def scratch(root: str, pid: int) -> str:
    """The directory of a child: its `$SCRATCH` and `$TMPDIR`, and where it starts unless it is
    said."""
    return os.path.join(root, str(pid))


def tables(directory: str) -> str:
    """Where a child with that scratch directory puts tables, which outlive its call until the
    worker has them."""
    return f"{directory}.tables"


def main(runner: int, root: str, channel: int, out: int, err: int) -> NoReturn:
    """Runs in the forked process and never returns."""
    status = 1
    try:
        _settle(runner, root, channel, out, err)
        ChildProcess(scratch(root, os.getpid())).serve()
        status = 0
    finally:
        # Not sys.exit: nothing of the runner's own clean-up may run here, nor may user code's.
        os._exit(status)


def _settle(runner: int, root: str, channel: int, out: int, err: int) -> None:
    # Before there is a group that can be asked to end.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    processes.die_with_parent(runner)
    processes.adopt_orphans()
    _arrange_descriptors(channel, out, err)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.getuid() != 0:
        _lower(resource.RLIMIT_NPROC, USER_PROCESSES)
    directory = scratch(root, os.getpid())
    os.mkdir(directory, 0o700)
    os.environ["TMPDIR"] = os.environ["SCRATCH"] = directory
    if processes.LINUX:
        # When memory runs out on the machine, user code goes before its worker.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("500")


def _arrange_descriptors(channel: int, out: int, err: int) -> None:
    """0 is empty, 1 and 2 are the pipes, 3 to 5 our own; nothing else stays open."""
    # Out of the way first: the numbers that came may be among those they are meant for.
    high = [os.dup(descriptor) for descriptor in (channel, out, err)]
    while min(high) <= ERR:
        high = [os.dup(descriptor) for descriptor in high]
    for descriptor, target in zip(high, (CHANNEL, OUT, ERR), strict=True):
        os.dup2(descriptor, target, inheritable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(OUT, 1)
    os.dup2(ERR, 2)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(ERR + 1, most if most > 0 else 1 << 20)


def _open_output(descriptor: int) -> io.TextIOWrapper:
    """stdout or stderr of user code: lines go out at once, so that they are seen although the code
    hangs or dies."""
    raw = io.BufferedWriter(io.FileIO(descriptor, "wb", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True)


def _lower(limit: int, value: int) -> None:
    hard = resource.getrlimit(limit)[1]
    if hard == resource.RLIM_INFINITY or value < hard:
        resource.setrlimit(limit, (value, value))


class ChildProcess:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.pid = os.getpid()
        self.environment = dict(os.environ)
        self.recursion = sys.getrecursionlimit()
        self.limited = False
        self.stdout, self.stderr = _open_output(1), _open_output(2)

    def serve(self) -> None:
        """Until the worker closes the channel."""
        python_code.rehearse()
        with contextlib.suppress(requests.ChannelClosed, OSError):
            while True:
                answer, ok = self.run(json.loads(requests.receive_frame(CHANNEL)))
                requests.send_frame(CHANNEL, b'{"retire":%d,%s}' % (self._advice(ok), answer))

    def run(self, request: dict[str, Any]) -> tuple[bytes, bool]:
        """The answer's members as JSON text, and whether the call went well."""
        self._prepare(request)
        if request["op"] == "python":
            answer, ok = python_code.run(request, tables(self.directory))
        else:
            answer, ok = run_shell(request)
        if os.getpid() != self.pid:
            # User code forked, and this is its fork that came to the end of the code.
            os._exit(0)
        self._finish()
        return answer, ok

    def _prepare(self, request: dict[str, Any]) -> None:
        if not self.limited:
            # Bound is what can be written to, so that an allocation beyond it fails by itself:
            # programs (node, java) and libraries (polars, duckdb) reserve much address space and
            # use little. Shared memory does not count as data, hence the second bound on code that
            # asks for it.
            _lower(resource.RLIMIT_DATA, request["memory_mb"] << 20)
            if request["op"] == "python":
                _lower(resource.RLIMIT_AS, request["memory_mb"] + RESERVED_MB << 20)
            _lower(resource.RLIMIT_FSIZE, request["file_mb"] << 20)
            self.limited = True
        self._enter_directory()
        os.environ.update(request["env"])
        os.dup2(OUT, 1)
        os.dup2(ERR, 2)
        # The same objects for all calls: a logging handler of the call before may still hold them.
        self.stdout = _open_output(1) if self.stdout.closed else self.stdout
        self.stderr = _open_output(2) if self.stderr.closed else self.stderr
        sys.stdout, sys.stderr = self.stdout, self.stderr

    def _enter_directory(self) -> None:
        try:
            os.chdir(self.directory)
        except FileNotFoundError:
            # The call before left files in it, so it was removed; or user code has removed it.
            os.mkdir(self.directory, 0o700)
            os.chdir(self.directory)

    def _finish(self) -> None:
        for stream in (sys.stdout, sys.stderr, self.stdout, self.stderr):
            # Whatever user code put in the place of stdout: its failure to flush is not the call's.
            with contextlib.suppress(Exception):
                stream.flush()
        signal.alarm(0)
        # What this call wanted to do before its end, the next one does not.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.setrecursionlimit(self.recursion)
        if os.environ != self.environment:
            os.environ.clear()
            os.environ.update(self.environment)
        self._empty_directory()

    def _empty_directory(self) -> None:
        """Removes the directory where anything is left in it.

        Most calls leave nothing, and to make it anew for each of them waits for the file system's
        journal beside a database: a loop of 1,000 items took twice its time."""
        try:
            left = bool(os.listdir(self.directory))
        except OSError:
            left = True
        if left:
            os.chdir("/")
            shutil.rmtree(self.directory, ignore_errors=True)

    @staticmethod
    def _advice(ok: bool) -> int:
        """What should become of this child: one of those of `requests`."""
        if processes.has_children():
            return requests.KILL
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > GROWN_KB
        return requests.REPLACE if grown or not ok or running_threads() else requests.KEEP


def run_shell(request: Mapping[str, Any]) -> tuple[bytes, bool]:
    """The answer: `"value": {exit_code, command}`, or `"error"` where a command could not be
    started.

    `exit_code` is that of the last command that ran, negative for a signal; `command` is its index.
    What they print goes to the pipes that this process has as stdout and stderr. SIGTERM is for
    them: this process outlives it, so that they may end as they like, and begins no further one.
    """
    ended = {"exit_code": 0, "command": 0}
    asked: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    try:
        for index, argv in enumerate(request["commands"]):
            exit_code = -asked[0] if asked else _run_command(argv, request, asked)
            ended = {"exit_code": exit_code, "command": index}
            if exit_code:
                break
    except (OSError, ValueError) as error:
        return b'"error":' + json.dumps(_report_start(error, argv, request)).encode(), False
    finally:
        signal.signal(signal.SIGTERM, before)
    return b'"value":' + json.dumps(ended).encode(), ended["exit_code"] == 0


def _run_command(argv: list[str], request: Mapping[str, Any], asked: Sequence[int]) -> int:
    stdin = request["stdin"]
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        cwd=request["cwd"],
    ) as process:
        if asked:
            # It came before there was anybody to hear it.
            process.terminate()
        process.communicate(None if stdin is None else stdin.encode())
        return process.returncode


def _report_start(error: OSError | ValueError, argv: list[str], request: Mapping[str, Any]) -> dict[str, Any]:
    cwd = request["cwd"]
    if isinstance(error, ValueError):
        message = f"The command cannot be started: {error}."
    elif cwd and error.filename == cwd:
        message = f"The directory '{cwd}' (cwd) cannot be entered: {error.strerror}."
    else:
        message = f"The command '{argv[0]}' cannot be started: {error.strerror}."
    return {"type": type(error).__name__, "message": message, "kind": "shell"}
