"""The server that the corpus calls: it echoes, pages in four ways, fails twice for each name, and
refuses the rest."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

#: What is always answered.
FIXED: Mapping[str, Any] = {
    "/listed": {"items": [1, 2]},
    "/letter": {"body": "Dear all", "to": "everybody"},
    "/stops": {"stops": [{"id": 4, "name": "Quay"}, {"id": 2, "name": "Mole"}]},
}


class Handler(BaseHTTPRequestHandler):
    seen: ClassVar[dict[str, int]] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        match url.path:
            case "/echo":
                self._answer(200, {"query": query})
            case "/page":
                page = int(query["page"])
                rows = [page * 10 + number for number in range(3)]
                self._answer(200, {"rows": rows, "next": page + 1 if page < 3 else None})
            case "/orders":
                self._orders(int(query["page"]), int(query["size"]))
            case "/offset":
                start, limit = int(query["offset"]), int(query["limit"])
                users = [{"id": number} for number in range(start, min(start + limit, 25))]
                self._answer(200, {"users": users, "has_more": start + limit < 25})
            case "/flaky":
                tries = self.seen[query["name"]] = self.seen.get(query["name"], 0) + 1
                self._answer(503 if tries < 3 else 200, {"seen": tries})
            case "/linked":
                self._linked(int(query.get("page", "1")), query.get("name", ""))
            case "/big":
                self._answer(200, {"rows": [{"x": number, "pad": "p" * 300} for number in range(1200)]})
            case fixed if fixed in FIXED:
                self._answer(200, FIXED[fixed])
            case _:
                self._answer(404, {"detail": "no such thing"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._answer(201, {"got": body, "mark": self.headers.get("x-mark")})

    def _orders(self, page: int, size: int) -> None:
        """A page of 35 orders, in the envelope that many services have."""
        orders = [{"id": number} for number in range(35)][(page - 1) * size : page * size]
        self._answer(200, {"data": orders, "paging": {"page": page, "hasMore": page * size < 35}})

    def _linked(self, page: int, name: str) -> None:
        """Three pages, each refused once."""
        place = f"{name}/{page}"
        self.seen[place] = self.seen.get(place, 0) + 1
        following = {"Link": f'</linked?name={name}&page={page + 1}>; rel="next"'} if page < 3 else {}
        if self.seen[place] == 1:
            self._answer(503, {}, {"Retry-After": "0"})
        else:
            self._answer(200, [page * 10 + number for number in range(3)], following)

    def _answer(self, status: int, value: Any, headers: Mapping[str, str] = {}) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@contextmanager
def serving() -> Iterator[str]:
    """Yields the address of a server that lives as long as the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
