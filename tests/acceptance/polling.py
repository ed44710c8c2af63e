"""A client that knows only HTTP, as a process: starts executions and asks after them, as often as it can, until they end.

    polling.py PORT PATH COUNT ABREAST      prints {ended, close, wrong: [...]}

`close` counts the endings that it saw happen: it asked before one, and again within `CLOSE_S` behind it.

Whatever it is told must be of one moment: who has completed has a result, has done its steps, and its last event says so.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

#: Seconds between the last answer before an end and the first one behind it.
CLOSE_S = 0.1

ENDED = ("completed", "failed", "partial", "cancelled")
Answer = dict[str, Any]


class Client:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(self, method: str, path: str, body: object = None) -> tuple[Answer, str]:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, f"/api/executions{path}", data, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text), answer.headers.get("ETag", "")


def of_result(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/{run}/result")
    return said["status"], said["result"] == (1 if said["status"] in ENDED else None)


def of_report(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/{run}")
    done = said["steps"].get("last", {}).get("status") == "done" and said["ctx"].get("n") == 1
    ended = said["status"] in ENDED
    return said["status"], (said["ended_at"] is not None) is ended and (
        not ended or (done and said["result"] == 1)
    )


def of_state(client: Client, run: str) -> tuple[str, bool]:
    said, tag = client.call("GET", f"/{run}/state")
    ended = said["status"] in ENDED
    rests = said["marking"] == {"tokens": [], "running": []}
    done = rests and said["steps"].get("last", {}).get("result") == 1
    return said["status"], tag == f'"{said["version"]}"' and (done or not ended)


def of_events(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/{run}/events?limit=1000")
    versions = [event["version"] for event in said["events"]]
    ended = said["status"] in ENDED
    last = said["events"][-1]["type"] == "playbook.processed"
    return said["status"], versions == list(range(1, said["version"] + 1)) and last is ended is said["idle"]


QUESTIONS: tuple[Callable[[Client, str], tuple[str, bool]], ...] = (of_result, of_report, of_state, of_events)


@dataclass(frozen=True)
class Poll:
    """An answer: to which question, whether it was of one moment, and whether it is the first one close behind an end."""

    what: str
    is_right: bool
    is_close: bool


def polled(client: Client, runs: list[str]) -> Iterator[Poll]:
    """Asks after `runs` in turn until all of them have ended."""
    asks = cycle(QUESTIONS)
    before: dict[str, float] = {}
    while runs:
        for run in list(runs):
            ask = next(asks)
            status, is_right = ask(client, run)
            now, ended = time.monotonic(), status in ENDED
            is_close = ended and now - before.get(run, -CLOSE_S) <= CLOSE_S
            yield Poll(f"{ask.__name__} {run} {status}", is_right, is_close)
            before[run] = now
            if ended:
                runs.remove(run)
        # Another question to each of them in the next round.
        next(asks)


def main(port: int, path: str, count: int, abreast: int) -> None:
    client = Client(port)
    close, wrong = 0, []
    for _ in range(0, count, abreast):
        runs = [client.call("POST", "", {"path": path})[0]["execution_id"] for _ in range(abreast)]
        for poll in polled(client, runs):
            close += poll.is_close
            if not poll.is_right:
                wrong.append(poll.what)
    print(json.dumps({"ended": count, "close": close, "wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
