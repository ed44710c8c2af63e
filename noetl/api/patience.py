"""How long a request's body may take to arrive.

gunicorn's threads wait for bodies without end, so a client that sends a byte now and then would
keep one to itself. Closing the reading half of the connection wakes whoever reads; the answer still
goes out.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gunicorn.http.errors import ParseException
from werkzeug.exceptions import BadRequest, RequestTimeout

if TYPE_CHECKING:
    from _typeshed.wsgi import InputStream, StartResponse, WSGIApplication, WSGIEnvironment


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
            expected = None if chunked else length
            environ["wsgi.input"] = _Body(environ["wsgi.input"], expected, connection, self._seconds)
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
        """Raises RequestTimeout, and BadRequest for chunks that are none."""
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
