"""A client that knows only HTTP, as a process: starts executions and asks after them, as often as
it can, until they end.

    polling.py PORT PATH COUNT ABREAST      prints {ended, seen, wrong: [...]}

`seen` counts the endings that it saw happen: it was told that an execution runs, and then that it
has ended.

Whatever it is told must be of one moment: who has completed has a result, has done its steps, and
its last event says so.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

ENDED = ("completed", "failed", "partial", "cancelled")
Answer = dict[str, Any]


def url_of(path: str) -> str:
    """`/../` leads out of the executions."""
    return f"/api{path[3:]}" if path.startswith("/../") else f"/api/executions{path}"


class Client:
    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

    def call(
        self, method: str, path: str, body: object = None, more: Answer | None = None
    ) -> tuple[Answer, str]:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": "application/json", **(more or {})}
        self._connection.request(method, url_of(path), data, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        return json.loads(text), answer.headers.get("ETag", "")


Question = Callable[[Client, str], tuple[str, bool]]


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


def of_logs(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/{run}/logs")
    printed = "".join(chunk["text"] for chunk in said["chunks"])
    return said["status"], said["next"] is None and (printed == "out\n" or said["status"] not in ENDED)


def of_list(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", "?path=acceptance/short&limit=1000")
    row = next((one for one in said["executions"] if one["execution_id"] == run), None)
    return ("gone", True) if row is None else _of_row(client, run, row)


def of_status(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/../workflows/status/{run}")
    return _of_row(client, run, said)


def _of_row(client: Client, run: str, row: Answer) -> tuple[str, bool]:
    """A row of an execution that has ended has its end and all of its events."""
    ended = row["status"] in ENDED
    if not ended:
        return row["status"], row["ended_at"] is None
    last, _ = client.call("GET", f"/{run}/events?limit=1")
    return row["status"], row["ended_at"] is not None and row["events"] == last["version"]


def of_workflow_result(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/../workflows/result/{run}")
    return said["status"], said["result"] == (1 if said["status"] in ENDED else None)


def of_long_poll(client: Client, run: str) -> tuple[str, bool]:
    said, _ = client.call("GET", f"/{run}/result?wait=1")
    return said["status"], said["result"] == (1 if said["status"] in ENDED else None)


QUESTIONS: tuple[Question, ...] = (
    of_result,
    of_report,
    of_state,
    of_events,
    of_logs,
    of_list,
    of_status,
    of_workflow_result,
)


def polled(client: Client, runs: list[str], ask: Question) -> Iterator[tuple[str, bool, bool]]:
    """What was asked, whether the answer was of one moment, and whether it is the first one behind
    an end that came while it was asked, until all of `runs` have ended. One question again and
    again: the shorter the time between two of them, the more likely one meets an ending."""
    before: set[str] = set()
    while runs:
        for run in list(runs):
            status, is_right = ask(client, run)
            has_ended = status in ENDED or status == "gone"
            yield f"{ask.__name__} {run} {status}", is_right, has_ended and run in before
            before.add(run)
            if has_ended:
                runs.remove(run)


def streamed(port: int, run: str) -> bool:
    """Whether a stream ends with the status of the execution, behind the last of its events, all of
    them in order."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", f"/api/executions/{run}/events", headers={"Accept": "text/event-stream"})
    kinds, versions, end = [], [], {}
    for line in connection.getresponse():
        if line.startswith(b"event: "):
            kinds.append(line[7:].decode().strip())
        elif line.startswith(b"data: "):
            end = json.loads(line[6:])
            versions.append(end.get("version"))
    connection.close()
    in_order = versions[:-1] == list(range(1, len(versions)))
    return in_order and kinds[-2:] == ["playbook.processed", "end"] and end["status"] == "completed"


def awaited(client: Client, path: str) -> bool:
    """Whether an execution that was waited for at its start has its result with its status."""
    said, _ = client.call("POST", "", {"path": path}, {"Prefer": "wait=30"})
    return said["status"] == "completed" and said["result"] == 1


def main(port: int, path: str, count: int, abreast: int) -> None:
    client, asks = Client(port), cycle(QUESTIONS)
    ended, seen, wrong = 0, 0, []
    while ended + abreast <= count:
        batch, ended = ended // abreast, ended + abreast
        runs = [client.call("POST", "", {"path": path})[0]["execution_id"] for _ in range(abreast)]
        found = [*polled(client, runs, next(asks))]
        seen += sum(is_seen for _, _, is_seen in found)
        answers = [(what, is_right) for what, is_right, _ in found]
        if batch % len(QUESTIONS) == 0:
            begun = client.call("POST", "", {"path": path})[0]["execution_id"]
            answers += [
                (f"stream {begun}", streamed(port, begun)),
                ("start that waits", awaited(client, path)),
                (f"long poll {begun}", of_long_poll(client, begun)[1]),
            ]
        wrong += [what for what, is_right in answers if not is_right]
    print(json.dumps({"ended": ended, "seen": seen, "wrong": wrong}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
