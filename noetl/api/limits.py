"""Limits of requests: how many are answered at once, how many may wait for something to happen, and
how long a body may take to arrive.

A server has a thread for each request, and one that waits (an event stream, a long poll) keeps its
thread for long. So there are many threads; what works is bounded here, and what waits has other
places. gunicorn's threads wait for bodies without end, so a client that sends a byte now and then
would keep one to itself. Closing the reading half of the connection wakes the reader; the answer
still goes out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from gunicorn.http.errors import ParseException
from werkzeug.exceptions import BadRequest, RequestTimeout
from werkzeug.wsgi import ClosingIterator

from noetl.errors import Unavailable

if TYPE_CHECKING:
    from _typeshed.wsgi import InputStream, StartResponse, WSGIApplication, WSGIEnvironment

_LEAVE: Final = "noetl.leave"


class RequestLimit:
    """WSGI middleware: at most so many requests are answered at once; the others wait for their
    turn."""

    def __init__(self, app: WSGIApplication, most: int) -> None:
        self._app = app
        self._turns = threading.BoundedSemaphore(most)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        self._turns.acquire()
        held = [self._turns]

        def leave() -> None:
            """Ends the turn, once: called again it does nothing."""
            if held:
                held.pop().release()

        environ[_LEAVE] = leave
        try:
            return ClosingIterator(self._app(environ, start_response), leave)
        except BaseException:
            leave()
            raise


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
                "try again, or ask without waiting."
            )
        environ.get(_LEAVE, lambda: None)()

    def release(self) -> None:
        self._free.release()

    @contextlib.contextmanager
    def hold(self, environ: WSGIEnvironment) -> Iterator[None]:
        """`take`, for as long as the block runs."""
        self.take(environ)
        try:
            yield
        finally:
            self.release()


class BodyDeadline:
    """WSGI middleware: a body that has not arrived after `seconds` is answered by 408.

    Only under servers that hand over the connection (`gunicorn.socket`).
    """

    def __init__(self, app: WSGIApplication, seconds: float) -> None:
        self._app = app
        self._seconds = seconds

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        connection = environ.get("gunicorn.socket")
        length = int(environ.get("CONTENT_LENGTH") or 0)
        chunked = "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "").lower()
        if isinstance(connection, socket.socket) and (length > 0 or chunked):
            environ["wsgi.input"] = _Body(
                environ["wsgi.input"], None if chunked else length, connection, self._seconds
            )
        return self._app(environ, start_response)


class _Body:
    """A body with a deadline. The deadline holds beyond the answer: servers read what the handler
    left."""

    def __init__(
        self, inner: InputStream, expected: int | None, connection: socket.socket, seconds: float
    ) -> None:
        self._inner = inner
        self._left = expected
        self._connection = connection
        self._seconds = seconds
        self._late = threading.Event()
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def _expire(self) -> None:
        self._late.set()
        # It may have been closed meanwhile.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def read(self, size: int = -1, /) -> bytes:
        return self._read(self._inner.read, size)

    def readline(self, size: int = -1, /) -> bytes:
        return self._read(self._inner.readline, size)

    def readlines(self, *_: int) -> list[bytes]:
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        while line := self.readline():
            yield line

    def _read(self, read: Callable[[int], Any], size: int) -> bytes:
        """Raises RequestTimeout, and BadRequest for anything that is not a chunk."""
        try:
            data: bytes = read(size)
        except OSError as error:
            if self._late.is_set():
                raise self._timeout() from error
            raise
        except ParseException as error:
            self._timer.cancel()
            raise BadRequest(f"The body cannot be read: {error}.") from error
        if self._late.is_set():
            raise self._timeout()
        if self._left is not None:
            self._left -= len(data)
        if self._left == 0 or (not data and size != 0):
            self._timer.cancel()
        return data

    def _timeout(self) -> RequestTimeout:
        return RequestTimeout(f"The body did not arrive within {self._seconds:g} s; send it again, at once.")
