"""Who watches which execution: one thread of a process hears for all of them of what others commit,
and only while somebody watches. PostgreSQL notifies, SQLite counts."""

from __future__ import annotations

import logging
import selectors
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeAlias

import psycopg2

from noetl.errors import NoetlError
from noetl.store.connections import Connections
from noetl.store.engine import translate_cause
from noetl.store.installation import Installation
from noetl.usecases.ports import Mark, Transaction

log = logging.getLogger(__name__)

#: Blocks for at most so many seconds. The ids of executions that have changed; None: some have, and
#: who is not known.
Hear: TypeAlias = Callable[[float], frozenset[str] | None]

_CHANNEL: Final = "noetl_changed"
#: A payload must be shorter than 8,000 bytes. One that would be longer is left empty: everybody
#: looks.
MOST: Final = 7900
#: Seconds between two looks at SQLite's counter.
PACE_S: Final = 0.004


def find_channel(installation: Installation) -> str:
    """The channel of PostgreSQL on which an installation tells of changes."""
    return installation.qualify(_CHANNEL)


def make_notice(installation: Installation, execution_ids: Iterable[str]) -> bytes:
    """The statement that tells of these executions."""
    payload = ",".join(sorted(execution_ids))
    shown = payload if len(payload) <= MOST else ""
    return f"SELECT pg_notify('{find_channel(installation)}', '{shown}')".encode()


@contextmanager
def listen(connections: Connections) -> Iterator[Hear]:
    """Listens on a separate connection. Raises NoetlError where there is none, or it is lost."""
    with connections.translated():
        raw: Any = connections.detached()
        try:
            yield (
                _postgres(raw, connections.installation)
                if connections.dialect == "postgresql"
                else _sqlite(raw)
            )
        except (psycopg2.Error, sqlite3.Error) as error:
            # What waits in the pool is most likely as dead as this one.
            connections.engine.dispose()
            raise translate_cause(error, connections.place) from error
        finally:
            raw.close()


def _postgres(raw: Any, installation: Installation) -> Hear:
    raw.autocommit = True
    with raw.cursor() as cursor:
        cursor.execute(f"LISTEN {find_channel(installation)}")

    def hear(seconds: float) -> frozenset[str] | None:
        with selectors.DefaultSelector() as selector:
            selector.register(raw, selectors.EVENT_READ)
            selector.select(seconds)
        raw.poll()
        payloads = [one.payload for one in raw.notifies]
        raw.notifies.clear()
        return None if "" in payloads else frozenset(name for one in payloads for name in one.split(","))

    return hear


def _sqlite(raw: Any) -> Hear:
    def version() -> int:
        """Another one as soon as another connection, of any process, has committed."""
        (count,) = raw.execute("PRAGMA data_version").fetchone()
        return int(count)

    known = version()

    def hear(seconds: float) -> frozenset[str] | None:
        nonlocal known
        ends = time.monotonic() + seconds
        while True:
            # First, so that where others commit all the time a pause goes before each look.
            time.sleep(PACE_S)
            if (now := version()) != known:
                known = now
                return None  # a commit does not say whose it was
            if time.monotonic() >= ends:
                return frozenset()

    return hear


#: Seconds that are listened at once, so that a store that is closed need not wait for its thread.
SLICE_S: Final = 0.05
#: Seconds that the thread goes on listening without any waiter.
LINGER_S: Final = 10.0
#: Seconds before a connection that was lost is made again: at first, and at most.
RETRY_S: Final = (0.1, 2.0)


class Waiter:
    """`noetl.usecases.ports.Watch`."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._woken_at = time.monotonic()

    @property
    def woken_at(self) -> float:
        return self._woken_at

    def wait(self, seconds: float) -> bool:
        changed = self._changed.wait(max(seconds, 0.0))
        # Cleared before the caller looks: what is committed from now on wakes it again.
        self._changed.clear()
        return changed

    def wake(self, at: float) -> None:
        self._woken_at = at
        self._changed.set()


def _wake(waiters: Iterable[Waiter]) -> None:
    now = time.monotonic()
    for one in waiters:
        one.wake(now)


class Watches:
    """The waiters of one process. Without an ear somebody else calls `wake`."""

    def __init__(
        self,
        ear: Callable[[], AbstractContextManager[Hear]] | None = None,
        read: Callable[[], AbstractContextManager[Transaction]] | None = None,
        look_s: float = 0.0,
    ) -> None:
        self._ear = ear
        self._read = read
        self._look_s = look_s
        self.forget()

    def forget(self) -> None:
        """After a fork: those who wait, and the thread, are the parent's."""
        self._lock = threading.Lock()
        self._waiters: dict[str, set[Waiter]] = {}
        #: Those who wait for whatever changes.
        self._of_all: set[Waiter] = set()
        self._marks: dict[str, Mark] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    @contextmanager
    def watch(self, *execution_ids: str) -> Iterator[Waiter]:
        waiter = Waiter()
        with self._lock:
            for one in execution_ids:
                self._waiters.setdefault(one, set()).add(waiter)
            if not execution_ids:
                self._of_all.add(waiter)
            if self._ear is not None and self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, args=(self._ear,), name="noetl-watch", daemon=True
                )
                self._thread.start()
        try:
            yield waiter
        finally:
            with self._lock:
                self._of_all.discard(waiter)
                for one in set(execution_ids):
                    self._remove(one, waiter)

    def _remove(self, execution_id: str, waiter: Waiter) -> None:
        left = self._waiters[execution_id]
        left.discard(waiter)
        if not left:
            del self._waiters[execution_id]
            self._marks.pop(execution_id, None)

    def wake(self, execution_ids: Iterable[str]) -> None:
        """Those who wait for one of these executions, or for any, look again."""
        changed = list(execution_ids)
        with self._lock:
            found = {waiter for one in changed for waiter in self._waiters.get(one, ())}
            if changed:
                found |= self._of_all
        _wake(found)

    def _wake_of_all(self) -> None:
        """Something has changed, and of which execution is not known."""
        with self._lock:
            found = list(self._of_all)
        _wake(found)

    def _wake_everybody(self) -> None:
        with self._lock:
            found = self._of_all.union(*self._waiters.values())
        _wake(found)

    def close(self) -> None:
        """Ends the thread; who waits still is woken once."""
        self._closed.set()
        self._wake_everybody()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2 * SLICE_S)

    def _list_watched(self) -> list[str]:
        with self._lock:
            return list(self._waiters)

    # --- the thread that listens ---

    def _run(self, ear: Callable[[], AbstractContextManager[Hear]]) -> None:
        try:
            self._serve(ear)
        except BaseException:
            # A defect. The next waiter starts a new thread; those of this one look again.
            with self._lock:
                self._thread = None
            self._wake_everybody()
            raise

    def _serve(self, ear: Callable[[], AbstractContextManager[Hear]]) -> None:
        pause, most = RETRY_S
        while self._goes_on(until=0.0):
            try:
                with ear() as hear:
                    # Commits before this moment were not heard.
                    self._wake_everybody()
                    pause = RETRY_S[0]
                    self._listen(hear)
                    return
            except NoetlError as error:
                log.warning("Changes are not heard of: %s", error)
            self._closed.wait(pause)
            pause = min(2 * pause, most)
            if self._look_s:
                self._look()

    def _listen(self, hear: Hear) -> None:
        """Until there has been no waiter for a while. Raises NoetlError where the connection is
        lost."""
        looked = now = time.monotonic()
        until = now + LINGER_S
        while self._goes_on(until):
            heard = hear(SLICE_S)
            now = time.monotonic()
            if self._waiters or self._of_all:
                until = now + LINGER_S
            if heard:
                self.wake(heard)
            if heard is None:
                self._wake_of_all()
            if heard is None or (self._look_s and now - looked >= self._look_s):
                looked = now
                self._look()

    def _goes_on(self, until: float) -> bool:
        """Whether somebody waits, or it is not yet `until`; else the thread is on its way out."""
        with self._lock:
            if not self._closed.is_set() and (self._waiters or self._of_all or time.monotonic() < until):
                return True
            # Under the lock, so that who comes next sees that a new thread is needed.
            self._thread = None
            return False

    def _look(self) -> None:
        """Wakes those whose execution is no longer as it was at the last look."""
        ids = self._list_watched()
        if not ids or self._read is None:
            return
        try:
            with self._read() as tx:
                marks = tx.executions.marks(ids)
        except NoetlError as error:
            log.warning("Executions that are watched cannot be looked at: %s", error)
            return
        self.wake(self._changed(marks))

    def _changed(self, marks: Mapping[str, Mark]) -> list[str]:
        with self._lock:
            changed = [one for one, mark in marks.items() if self._marks.get(one) != mark]
            self._marks.update((one, mark) for one, mark in marks.items() if one in self._waiters)
        return changed
