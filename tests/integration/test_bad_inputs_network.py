"""Addresses that nobody may reach, and servers that never end: the task fails with a limit, memory
stays flat."""

from __future__ import annotations

import resource
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

Run = Callable[..., dict[str, Any]]


#: Seconds between two bytes of a server that never ends.
DRIP_S = 0.2


@cache
def _bomb(megabytes: int) -> bytes:
    press = zlib.compressobj(1, wbits=31)
    return b"".join(press.compress(b"0" * (1 << 20)) for _ in range(megabytes)) + press.flush()


class Hostile(BaseHTTPRequestHandler):
    """What no service would send."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        try:
            getattr(self, self.path.strip("/").partition("?")[0])()
        except OSError:
            self.close_connection = True  # the client has seen enough

    def _head(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def endless(self) -> None:
        self._head(Content_Type="text/plain", Transfer_Encoding="chunked")
        chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
        while True:
            self.wfile.write(chunk)

    def gigabyte(self) -> None:
        self._head(Content_Type="text/plain", Content_Length=str(1 << 30))
        for _ in range(1 << 10):
            self.wfile.write(b"x" * (1 << 20))

    def bomb(self) -> None:
        body = _bomb(300)
        self._head(Content_Type="text/plain", Content_Encoding="gzip", Content_Length=str(len(body)))
        self.wfile.write(body)

    def round(self) -> None:
        self._head(302, Location=self.path, Content_Length="0")

    def drip(self) -> None:
        self._head(Content_Type="text/plain", Content_Length="100000")
        while not self.server.stopping.wait(DRIP_S):
            self.wfile.write(b"x")
            self.wfile.flush()

    def deep(self) -> None:
        body = b"[" * 100_000 + b"]" * 100_000
        self._head(Content_Type="application/json", Content_Length=str(len(body)))
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hostile)
        self.stopping = threading.Event()

    def handle_error(self, *_: object) -> None:
        """Clients that hang up are the point here."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    opened = Server()
    threading.Thread(target=opened.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{opened.server_port}"
    opened.stopping.set()
    opened.shutdown()
    opened.server_close()


def _memory_mb() -> float:
    """At its peak."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("endless", "limit"),
        ("gigabyte", "limit"),
        ("bomb", "limit"),
        ("round", "limit"),
        ("drip", "timeout"),
        ("deep", "limit"),
    ],
)
def test_a_server_that_never_ends_is_a_limit(error: Run, server: str, path: str, kind: str) -> None:
    body = (
        'workflow: [{step: start, tool: {name: get, kind: http, url: "{{ url }}", timeout: "{{ timeout }}"}}]'
    )
    before = _memory_mb()
    found = error(body, url=f"{server}/{path}", timeout=1 if path == "drip" else 3600)
    assert (found["step"], found["task"], found["kind"]) == ("start", "get", kind)
    assert _memory_mb() - before < 200


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """An engine whose tasks may not reach private networks."""
    with bootstrap.local(
        Settings(home=tmp_path_factory.mktemp("walled"), allow_private_networks=False)
    ) as opened:
        yield opened


INNER = [
    "127.0.0.1", "2130706433", "0x7f.1", "127.1", "0177.0.0.1", "１２７.0.0.1", "127。0。0。1", "[::1]",
    "[::ffff:169.254.169.254]", "[64:ff9b::7f00:1]", "100.64.0.1", "0.0.0.0", "localhost",
]  # fmt: skip


def test_inner_addresses_are_blocked_where_private_networks_are_not_allowed(
    run_in: Callable[[Runtime], Run], walled: Runtime, server: str
) -> None:
    port = server.rpartition(":")[2]
    body = """
    workflow:
      - step: start
        loop: {in: "{{ hosts }}", iterator: host, spec: {mode: parallel, policy: {failure: {mode: best_effort}}}}
        tool: {kind: http, url: "http://{{ host }}:{{ port }}/endless", timeout: 3600}
    """
    report = run_in(walled)(body, hosts=INNER, port=port)
    result = report["result"]
    assert result["results"] == [None] * len(INNER)
    assert {error["kind"] for error in result["errors"]} == {"client_error"}
    for host, error in zip(INNER, result["errors"], strict=True):
        assert host.strip("[]") in error["message"] or not host.isascii(), error
