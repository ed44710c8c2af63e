"""A proxy between client and server that breaks off connections."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.waiting import GUARD_S


@contextmanager
def losing_the_first_answer(url: str) -> Iterator[str]:
    """The URL of a proxy for `url`: its first request arrives there, and its answer nowhere."""
    lost = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            upstream = http.client.HTTPConnection(urlsplit(url).netloc, timeout=GUARD_S)
            upstream.request("POST", self.path, body, {**self.headers, "Host": urlsplit(url).netloc})
            answer = upstream.getresponse()
            said = answer.read()
            upstream.close()
            if not lost.is_set():
                lost.set()
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
