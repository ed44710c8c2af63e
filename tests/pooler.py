"""A pooler between a client and PostgreSQL, as far as it can be seen: it passes on no `options`, as
PgBouncer does with `ignore_startup_parameters = options`."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from sqlalchemy import make_url

#: What a message of the protocol begins with: its size and its version.
_HEAD = struct.Struct("!ii")


@contextmanager
def open_pooler(url: str) -> Iterator[str]:
    """The URL under which the database at `url` is reached through it."""
    parsed = make_url(url)

    class Handler(_Handler):
        address = (str(parsed.host), parsed.port)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        there = parsed.set(port=server.server_address[1])
        plain = there.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        yield plain.render_as_string(hide_password=False)
        server.shutdown()


class _Handler(socketserver.BaseRequestHandler):
    address: tuple[str, int | None]

    def handle(self) -> None:
        with closing(socket.create_connection(self.address)) as server:
            server.sendall(self._read_startup())
            answering = threading.Thread(target=_copy, args=(server, self.request))
            answering.start()
            _copy(self.request, server)
            answering.join()

    def _read_startup(self) -> bytes:
        size, version = _HEAD.unpack(self.request.recv(_HEAD.size, socket.MSG_WAITALL))
        words = self.request.recv(size - _HEAD.size, socket.MSG_WAITALL).split(b"\0")
        named = zip(words[::2], words[1::2], strict=False)
        kept = b"".join(b"%s\0%s\0" % pair for pair in named if pair[0] not in (b"options", b"")) + b"\0"
        return _HEAD.pack(len(kept) + _HEAD.size, version) + kept


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(65536):
            target.sendall(block)
        target.shutdown(socket.SHUT_WR)
