"""`Runner`: runs user code for the threads of one worker process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from ....facts import json
from ...kit import plain
from .control import Control, Lease, RunnerGone, RunnerSettings
from .exchange import Exchange, Listen, NoAnswer, ignore_output
from .requests import (
    KEEP,
    KILL,
    CodeLimits,
    FrameFile,
    KeepFrame,
    PrintedText,
    PythonRequest,
    RunnerReply,
    ShellRequest,
)
from .sandbox import NoSandbox, trouble

Request: TypeAlias = PythonRequest | ShellRequest
#: Who may share a child: the same owner with calls of the same sort and the same limits.
Key: TypeAlias = tuple[type[Request], str, CodeLimits]

#: Calls after which a child is replaced.
CALLS = 256

#: Interruptions remembered for calls that have not started.
IDLE_INTERRUPTS = 64


@dataclass(eq=False, slots=True)
class LeasedChild:
    """A leased child, the runner that it came from, and whose it is."""

    control: Control
    lease: Lease
    key: Key
    calls: int = 0
    interrupted: bool = False

    def interrupt(self) -> None:
        """Asks what runs in it to end, once, which is killed where it does not."""
        if self.interrupted:
            return
        self.interrupted = True
        try:
            self.control.terminate(self.lease.pid)
        except RunnerGone:
            self.control.abandon(self.lease)

    def alive(self) -> bool:
        """An idle child says nothing: whatever can be read from its channel is its end."""
        poller = select.poll()
        poller.register(self.lease.channel, select.POLLIN)
        return not poller.poll(0)


class Runner:
    """Starts its process with the first call, and again where that process died or this one forked.

    Thread-safe: every call has a child to itself. A child goes on to the next call of the same
    owner, with fresh globals, until a call fails, it has grown, threads or processes are left, or
    256 calls. Deadlines are instants of `clock`."""

    def __init__(self, settings: RunnerSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self.users = 1
        self._reset()
        _runners.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._control: Control | None = None
        self._idle: list[LeasedChild] = []
        self._busy: dict[LeasedChild, object] = {}
        self._interrupted: list[object] = []

    def call(
        self, request: Request, deadline_s: float, token: object = None, listen: Listen = ignore_output
    ) -> RunnerReply:
        """Runs one call. Raises RunnerGone where no child can be had, NoSandbox where no sandbox
        can, and what the request's `keep` raises.

        `token` is any object that `interrupt` can name the call by. `listen` takes what is printed,
        as it comes."""
        child = self._take((type(request), request.owner, request.limits), token)
        try:
            if child.interrupted:
                return self._give_up(child)
            with child.control.showing() as show:
                return self._converse(child, request, encode_request(request, show), deadline_s, listen)
        except BaseException:
            # Whatever was raised into this thread (as a soft time limit): nothing goes on.
            self._end(child, kill=True)
            child.lease.close()
            raise
        finally:
            with self._lock:
                self._busy.pop(child, None)

    def interrupt(self, token: object) -> None:
        """Ends the call of `token`: commands are asked to (SIGTERM), and code is where it asks for
        that; what has not ended after the grace is killed, and then answered as one whose process
        died. A call that is about to start is ended as soon as it has a process; one that has just
        ended is not harmed."""
        with self._lock:
            running = [child for child, whose in self._busy.items() if whose is token]
            others = [one for one in self._interrupted[-IDLE_INTERRUPTS:] if one is not token]
            self._interrupted = [*others, *([] if running else [token])]
            for child in running:
                child.interrupt()

    def _converse(
        self, child: LeasedChild, request: Request, message: bytes, deadline_s: float, listen: Listen
    ) -> RunnerReply:
        exchange = Exchange(child.lease, child.key[2], listen, self._clock)
        try:
            answer = exchange.run(message, deadline_s)
        except NoAnswer as error:
            ended = self._end(child, kill=error.status != "died")
            stdout, stderr = exchange.finish()
            child.lease.close()
            return RunnerReply(error.status, stdout, stderr, reason=str(error) or _describe(ended))
        if answer["retire"] == KILL:
            self._end(child, kill=True)
        stdout, stderr = exchange.finish()
        value = answer.get("value")
        if request.keep is not None and (written := answer.get("tables")):
            with child.control.tables(child.lease, len(written["sizes"])) as files:
                value = put_tables(value, written, files, request.keep)
        self._put_back(child, retire=answer["retire"] != KEEP)
        report = answer.get("error")
        return RunnerReply("error" if report else "ok", stdout, stderr, value, report or {})

    @staticmethod
    def _end(child: LeasedChild, *, kill: bool) -> int:
        try:
            return child.control.end(child.lease.pid, kill=kill)
        except RunnerGone:
            child.control.abandon(child.lease)
            return signal.SIGKILL

    def _take(self, key: Key, token: object) -> LeasedChild:
        child = self._idle_child(key) or self._fresh(key)
        with self._lock:
            self._busy[child] = token
            if token is not None and any(one is token for one in self._interrupted):
                child.interrupted = True
        return child

    def _give_up(self, child: LeasedChild) -> RunnerReply:
        """What is said of a call that was interrupted before it began."""
        ended, nothing = self._end(child, kill=True), PrintedText("", 0, truncated=False)
        child.lease.close()
        return RunnerReply("died", nothing, nothing, reason=_describe(ended))

    def _idle_child(self, key: Key) -> LeasedChild | None:
        while True:
            with self._lock:
                mine = next((child for child in reversed(self._idle) if child.key == key), None)
                if mine is None:
                    return None
                self._idle.remove(mine)
            if mine.alive():
                return replace(mine)  # of its own in `_busy`
            mine.lease.close()

    def _fresh(self, key: Key) -> LeasedChild:
        control = self._running(None)
        try:
            lease = control.lease()
        except RunnerGone:
            control = self._running(control)
            try:
                lease = control.lease()
            except RunnerGone:
                if self.settings.sandbox and (why := trouble()):
                    raise NoSandbox(why) from None
                raise
        return LeasedChild(control, lease, key)

    def _running(self, dead: Control | None) -> Control:
        """The runner process; started where there is none yet, or where it is the one that died."""
        with self._lock:
            if self._control is dead and dead is not None:
                dead.stop()
                self._control = None
            if self._control is None:
                self._control = Control(self.settings)
            return self._control

    def _put_back(self, child: LeasedChild, *, retire: bool) -> None:
        child.calls += 1
        with self._lock:
            self._busy.pop(child, None)  # no interrupt of this call meets the next one
            keeps = not retire and not child.interrupted and child.calls < CALLS
            self._idle += [child] if keeps else []
            dropped = [self._idle.pop(0)] if len(self._idle) > self.settings.idle else []
        for one in dropped if keeps else [child]:
            one.lease.close()

    def close(self) -> None:
        """Lets go; the last user's close ends the process with all of its children."""
        with self._lock:
            self.users -= 1
            if self.users > 0:
                return
            idle, self._idle = self._idle, []
            control, self._control = self._control, None
        for child in idle:
            child.lease.close()
        if control is not None:
            control.stop()

    def forget(self) -> None:
        """In a fork of the worker: closes what was inherited and begins anew."""
        for child in [*self._idle, *self._busy]:
            child.lease.close()
        if self._control is not None:
            self._control.forget()
        self._reset()


_runners: weakref.WeakSet[Runner] = weakref.WeakSet()
_shared_lock = threading.Lock()


def shared_runner(settings: RunnerSettings) -> Runner:
    """The process's runner with these settings: one for all tools. Each user closes it once."""
    with _shared_lock:
        for runner in _runners:
            if runner.settings == settings and runner.users > 0:
                runner.users += 1
                return runner
        return Runner(settings)


def _forget_all() -> None:
    global _shared_lock  # noqa: PLW0603 - another thread may have held it at the fork
    _shared_lock = threading.Lock()
    for runner in list(_runners):
        runner.forget()


os.register_at_fork(after_in_child=_forget_all)


def encode_request(request: Request, show: Callable[[Path], Path]) -> bytes:
    """The message of a request, as JSON; `show` is how its files are called where it is read."""
    return json.dumps(request.message(show), typed=True, default=_convert).encode()


def put_tables(value: Any, written: Mapping[str, Any], files: Sequence[Path], keep: KeepFrame) -> Any:
    """`value` with what stands for its tables in their places: what `keep` makes of each file."""
    kept = [keep(FrameFile(file, *size)) for file, size in zip(files, written["sizes"], strict=True)]

    def put(inner: Any) -> Any:
        if isinstance(inner, list):
            return [put(item) for item in inner]
        if not isinstance(inner, dict):
            return inner
        if inner.keys() == {written["mark"]}:
            return kept[inner[written["mark"]]]
        return {key: put(item) for key, item in inner.items()}

    return put(value)


def _convert(value: Any) -> Any:
    """What a call hands over beyond JSON: views of the context become mappings, functions
    nothing."""
    with contextlib.suppress(TypeError):
        return plain.convert(value)
    return None


def _describe(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"its process ended with exit status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process was ended by {name}"
