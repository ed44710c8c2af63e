"""A small paginated HTTP server for the examples: Seattle's weather and US airports, as JSON.

    python examples/server.py                # http://127.0.0.1:8765
    python examples/server.py --port 0       # any free port; the URL is printed

    GET /weather?page=1&size=200           {rows, page, pages, next, total}; the last `next` is null
    GET /airports?state=AK&page=1&size=50  the same; all states without `state`
    GET /airports/states                   {states, total}
    GET /refusals?run=KEY                  {refused}: requests of that run that were answered 503
    GET /jobs?run=KEY                      {state}: `running` twice for that key, then `done`
    POST /token                            {access_token, ...}, for the form `client_secret=sesame`
    GET /private                           {total}, for the access token as bearer token; else 401
    POST /reports                          {state} for {"callback": ADDRESS}, which is called when
                                           the report is made: {state, rows}

A request that says `run=KEY` may meet trouble: about one page in seven is answered 503 once for
that key, and some of them twice. Which ones is a checksum of the request, so every run meets the
same trouble. The data are files of the `vega_datasets` wheel; nothing is fetched from the internet.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import sys
import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

DEFAULT_PORT = 8765
MAX_SIZE = 500
#: What `/token` asks for, and what it gives.
SECRET, TOKEN = "sesame", "seattle-2026"
#: Seconds that a report takes.
REPORT_S = 0.2
#: Runs whose trouble is remembered; the oldest is forgotten first.
MAX_RUNS = 1_000

Row = dict[str, Any]


class BadQuery(ValueError):
    """The query cannot be answered; the message says why."""


class NoData(RuntimeError):
    """The wheel with the data is not installed."""


def data_folder() -> Path:
    """Where the `vega_datasets` wheel keeps its files. Raises NoData."""
    spec = importlib.util.find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise NoData(
            "The examples need the vega_datasets package; install it: pip install 'noetl-celery[examples]'"
        )
    return Path(spec.origin).parent / "_data"


def read_weather(folder: Path) -> list[Row]:
    """One row a day: `{date: YYYY-MM-DD, precipitation, temp_max, temp_min, wind, weather}`.

    Precipitation is in mm, temperatures in °C, wind in m/s.
    """
    return [
        {
            "date": row["date"].replace("/", "-"),
            **{name: float(row[name]) for name in ("precipitation", "temp_max", "temp_min", "wind")},
            "weather": row["weather"],
        }
        for row in _csv(folder / "seattle-weather.csv")
    ]


def read_airports(folder: Path) -> list[Row]:
    """One row an airport: `{iata, name, city, state, country, latitude, longitude}`."""
    return [
        {**row, "latitude": float(row["latitude"]), "longitude": float(row["longitude"])}
        for row in _csv(folder / "airports.csv")
    ]


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def owed(request: str) -> int:
    """How often this request is refused before it is answered: 0, 1 or 2 times."""
    checksum = zlib.crc32(request.encode())
    if checksum % 21 == 0:
        return 2
    return 1 if checksum % 7 == 0 else 0


@dataclass
class Trouble:
    """Says which requests are refused, and how often. Safe to share between threads."""

    owed: Callable[[str], int] = owed
    _seen: OrderedDict[str, Counter[str]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuses(self, run: str, request: str) -> bool:
        """Whether `request`, made by `run`, is refused this time. Without a run nothing is."""
        if not run:
            return False
        with self._lock:
            seen = self._seen.setdefault(run, Counter())
            if len(self._seen) > MAX_RUNS:
                self._seen.popitem(last=False)
            if seen[request] >= self.owed(request):
                return False
            seen[request] += 1
            return True

    def refused(self, run: str) -> int:
        """How many requests of `run` were refused so far."""
        with self._lock:
            return sum(self._seen.get(run, Counter()).values())


@dataclass(frozen=True)
class Data:
    """Everything that is served."""

    weather: Sequence[Row]
    airports: Sequence[Row]

    @classmethod
    def load(cls, folder: Path) -> Data:
        return cls(read_weather(folder), read_airports(folder))

    def rows(self, path: str, query: Mapping[str, str]) -> Sequence[Row] | None:
        """The rows behind a path, unpaged. None: there is no such path."""
        match path:
            case "/weather":
                return self.weather
            case "/airports" if "state" in query:
                return [row for row in self.airports if row["state"] == query["state"]]
            case "/airports":
                return self.airports
            case _:
                return None

    def states(self) -> dict[str, Any]:
        """The states in alphabetical order, and the number of all airports."""
        return {"states": sorted({row["state"] for row in self.airports}), "total": len(self.airports)}


def page_of(rows: Sequence[Row], page: int, size: int) -> dict[str, Any]:
    """Page number `page`, from 1. No rows are one empty page. Raises BadQuery after the last."""
    pages = max(1, -(-len(rows) // size))
    if page > pages:
        raise BadQuery(f"There is no page {page}; the last one is {pages}.")
    return {
        "rows": rows[(page - 1) * size : page * size],
        "page": page,
        "pages": pages,
        "next": page + 1 if page < pages else None,
        "total": len(rows),
    }


def _number(query: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise BadQuery(f"'{name}' must be a whole number from 1 to {most}, not {text[:40]!r}.")
    return int(text)


def call_back(call: Request) -> None:
    """Whoever does not answer is not called again."""
    with suppress(OSError):
        urlopen(call, timeout=10).close()


class Handler(BaseHTTPRequestHandler):
    """Answers in JSON. Connections are kept alive; answers leave in one piece."""

    server: ExamplesServer
    protocol_version = "HTTP/1.1"
    # Without it the small second packet of an answer waits 40 ms for an acknowledgement.
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        try:
            self._answer(url.path, query)
        except BadQuery as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        match self.path:
            case "/token":
                return self._token(parse_qs(sent))
            case "/reports":
                return self._report(sent)
            case _:
                error = "There is nothing to post to but /token and /reports."
                return self._send(HTTPStatus.NOT_FOUND, {"error": error})

    def _report(self, sent: str) -> None:
        """Makes a report in a while, and then calls who asked for it."""
        try:
            address = str(json.loads(sent)["callback"])
            call = Request(address, method="POST", headers={"Content-Type": "application/json"})
        except (ValueError, KeyError, TypeError):
            error = 'Say where to call back: {"callback": ADDRESS}.'
            return self._send(HTTPStatus.BAD_REQUEST, {"error": error})
        call.data = json.dumps({"state": "done", "rows": len(self.server.data.weather)}).encode()
        threading.Timer(REPORT_S, call_back, [call]).start()
        return self._send(HTTPStatus.ACCEPTED, {"state": "accepted"})

    def _token(self, form: Mapping[str, list[str]]) -> None:
        if form.get("client_secret") != [SECRET]:
            return self._send(HTTPStatus.UNAUTHORIZED, {"error": "Wrong client secret."})
        return self._send(HTTPStatus.OK, {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})

    def _private(self) -> None:
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return self._send(HTTPStatus.OK, {"total": len(self.server.data.weather)})
        return self._send(HTTPStatus.UNAUTHORIZED, {"error": "Ask /token for a token."})

    def _job(self, run: str) -> None:
        if self.server.jobs.refuses(run, "job"):
            return self._send(HTTPStatus.OK, {"state": "running"})
        return self._send(HTTPStatus.OK, {"state": "done", "rows": len(self.server.data.weather)})

    def _answer(self, path: str, query: Mapping[str, str]) -> None:
        data, trouble = self.server.data, self.server.trouble
        run = query.get("run", "")
        if path == "/airports/states":
            return self._send(HTTPStatus.OK, data.states())
        if path == "/refusals":
            return self._send(HTTPStatus.OK, {"refused": trouble.refused(run)})
        if path == "/jobs":
            return self._job(run)
        if path == "/private":
            return self._private()
        rows = data.rows(path, query)
        if rows is None:
            known = "/weather, /airports, /airports/states, /refusals, /jobs and /private"
            return self._send(
                HTTPStatus.NOT_FOUND, {"error": f"There is no {path[:80]!r}; there are {known}."}
            )
        body = page_of(rows, _number(query, "page", 1, 999_999_999), _number(query, "size", 100, MAX_SIZE))
        if trouble.refuses(run, f"{path}?state={query.get('state', '')}&page={body['page']}"):
            return self._send(
                HTTPStatus.SERVICE_UNAVAILABLE, {"error": "Busy; try again."}, {"Retry-After": "0"}
            )
        return self._send(HTTPStatus.OK, body)

    def _send(
        self, status: HTTPStatus, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        if self.server.verbose:
            super().log_message(format, *args)


class ExamplesServer(ThreadingHTTPServer):
    """The server on a loopback port. `url` says where."""

    daemon_threads = True

    def __init__(self, port: int = 0, *, verbose: bool = False) -> None:
        self.data = Data.load(data_folder())
        self.trouble = Trouble()
        self.jobs = Trouble(lambda _: 2)
        self.verbose = verbose
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Serves the data of the examples on this machine.")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help="0 takes any free one (default: %(default)s)"
    )
    parser.add_argument("--verbose", action="store_true", help="print every request")
    options = parser.parse_args()
    try:
        server = ExamplesServer(options.port, verbose=options.verbose)
    except (NoData, OSError, OverflowError) as error:
        print(f"The examples' server cannot start on port {options.port}: {error}", file=sys.stderr)
        return 1
    print(server.url, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
