"""How many executions a client can have acknowledged, over HTTP: one at a time, over eight
connections, in batches.

`python -m benchmarks.starts [--reps N]` runs the API server as `noetl server` starts it, with a
scheduler, a worker and a sweeper behind it, on PostgreSQL and Redis. The client knows nothing but
HTTP. What was acknowledged is counted in the list of executions afterwards, so that a server which
forgets gains nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.report import starts as table
from benchmarks.servers import Servers, process, servers, until
from noetl.cli.services import server_argv, worker_argv
from noetl.config import Settings
from noetl.store.migrate import upgrade
from tests.ports import free_port

PATH = "benchmarks/starts"
#: Executions that one sample starts.
SINGLE, PARALLEL, BATCH = 200, 1000, 1000
CONNECTIONS = 8
PLAYBOOK = {
    "apiVersion": "noetl.io/v2",
    "kind": "Playbook",
    "metadata": {"name": "starts", "path": PATH},
    "workflow": [{"step": "only", "tool": {"kind": "noop", "input": {"n": "{{ payload.n }}"}}}],
}


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def send(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of the answer. Raises RuntimeError for any status of 400 or above."""
        text = json.dumps(body) if body is not None else None
        self._connection.request(method, path, text, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {said[:300]!r}")
        return json.loads(said)


def measure(reps: int) -> dict[str, Any]:
    """`reps` samples of each way, in starts a second. Raises services.Missing and NotDurable."""
    with (
        servers() as ours,
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as home,
        serving(ours, Path(home)) as api,
    ):
        port = api.port
        client = Client(port)
        client.send("POST", "/api/catalog", {"content": json.dumps(PLAYBOOK)})
        ways: dict[str, Callable[[], int]] = {
            "one connection": lambda: _one_by_one(port, SINGLE),
            "eight connections": lambda: _side_by_side(port, PARALLEL, CONNECTIONS),
            "batches of 1,000": lambda: _batches(port, 2, BATCH),
        }
        samples: dict[str, list[float]] = {name: [] for name in ways}
        started = 0
        for rep in range(reps + 1):
            for name, way in ways.items():
                began = time.perf_counter()
                count = way()
                spent = time.perf_counter() - began
                started += count
                if rep:
                    samples[name].append(round(count / spent, 1))
                wait_for_completed(port, started)
        return {"samples": samples, "started": started, "load1": machine.load()}


def _one_by_one(port: int, count: int) -> int:
    client = Client(port)
    for number in range(count):
        client.send("POST", "/api/executions", {"path": PATH, "payload": {"n": number}})
    return count


def _side_by_side(port: int, count: int, connections: int) -> int:
    threads = [
        threading.Thread(target=_one_by_one, args=(port, count // connections)) for _ in range(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return count // connections * connections


def _batches(port: int, count: int, size: int) -> int:
    client = Client(port)
    for batch in range(count):
        items = [
            {"path": PATH, "payload": {"n": number}, "idempotency_key": f"{time.time_ns()}-{batch}-{number}"}
            for number in range(size)
        ]
        answers = client.send("POST", "/api/executions/batch", {"executions": items})["executions"]
        refused = [answer for answer in answers if answer["status"] != 202]
        if refused or len(answers) != size:
            raise RuntimeError(f"{len(answers)} answers, {len(refused)} refused: {refused[:1]}")
    return count * size


def wait_for_completed(port: int, count: int) -> None:
    """Waits until as many executions as were acknowledged have completed. Raises TimeoutError."""
    until(f"{count} executions", lambda: _completed(Client(port)) == count, 300)


def _completed(client: Client) -> int:
    found, before = 0, ""
    while True:
        page = client.send("GET", f"/api/executions?limit=1000&status=completed&path={PATH}{before}")
        found += len(page["executions"])
        if page["next"] is None:
            return found
        before = f"&before={page['next']}"


@dataclass(frozen=True)
class Api:
    """Where the API server listens, and the processes by name."""

    port: int
    pids: dict[str, int]


@contextlib.contextmanager
def serving(ours: Servers, home: Path) -> Iterator[Api]:
    """The API server, and what runs the executions behind it."""
    settings = Settings(home=home, database_url=ours.database_url, broker_url=f"{ours.redis_url}/0")
    upgrade(settings.database)
    port = free_port()
    commands = {
        "server": ["gunicorn", *server_argv("127.0.0.1", port)],
        "scheduler": ["celery", *worker_argv("scheduler", "solo", 1, "scheduler")],
        "code": ["celery", *worker_argv("python,default", "threads", 2, "code")],
        "sweeper": ["noetl", "sweeper"],
    }
    environment = {**os.environ, **settings.as_environ()}
    with contextlib.ExitStack() as running:
        pids = {
            name: running.enter_context(process(argv, home / f"{name}.log", environment)).pid
            for name, argv in commands.items()
        }
        until("the API", lambda: _answers(port))
        yield Api(port, pids)


def _answers(port: int) -> bool:
    try:
        return bool(Client(port).send("GET", "/api/health"))
    except (OSError, http.client.HTTPException, RuntimeError):
        return False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts", description=__doc__)
    parser.add_argument("--reps", type=int, default=3, help="samples of each (default: 3)")
    args = parser.parse_args(argv)
    print(table(measure(args.reps)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
