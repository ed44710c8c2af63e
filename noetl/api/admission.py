"""How many requests are answered at once, and how many may wait for something to happen.

A server has a thread for each request, and one that waits (an event stream, a long poll) keeps its
own for long. So there are many threads; what works is bounded here, and what waits has places of
its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from werkzeug.wsgi import ClosingIterator

from noetl.errors import Unavailable

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LEAVE: Final = "noetl.leave"


class RequestLimit:
    """WSGI middleware: at most so many requests are answered at once; the others wait for their
    turn."""

    def __init__(self, app: WSGIApplication, most: int) -> None:
        self._app = app
        self._turns = threading.BoundedSemaphore(most)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        leave = environ[_LEAVE] = self._enter()
        try:
            return ClosingIterator(self._app(environ, start_response), leave)
        except BaseException:
            leave()
            raise

    def _enter(self) -> Callable[[], None]:
        """Waits for a turn. Returns what ends it, once: called again it does nothing."""
        self._turns.acquire()
        held = [self._turns]

        def leave() -> None:
            if held:
                held.pop().release()

        return leave


class WaitingPlaces:
    """The places of requests that wait."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = threading.Semaphore(count)

    def take(self, environ: WSGIEnvironment) -> None:
        """A place for the request, which gives its turn (see `RequestLimit`) to another one. Raises
        Unavailable."""
        if not self._free.acquire(blocking=False):
            raise Unavailable(
                f"All {self._count} places of this process for event streams and long polls are taken; "
                "try again, or ask"
                " without waiting."
            )
        environ.get(_LEAVE, lambda: None)()

    def release(self) -> None:
        self._free.release()

    @contextmanager
    def held(self, environ: WSGIEnvironment) -> Iterator[None]:
        """`take`, for as long as the block runs."""
        self.take(environ)
        try:
            yield
        finally:
            self.release()
