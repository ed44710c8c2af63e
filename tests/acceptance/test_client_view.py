"""What a client sees that knows only HTTP: true answers, events as they happen, and a server with
room for everybody.

`NOETL_TEST_ENDINGS` says how many endings are polled on PostgreSQL; half as many on SQLite.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from noetl.usecases import catalog
from tests import pace
from tests.budget import budget

from .playbooks import head
from .stack import Stack, environment, eventually, kill_all
from .test_up import left_behind

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

ENDINGS = budget("NOETL_TEST_ENDINGS", quick=400, full=1600, long=20_000)
POLLERS = 4
STREAM = {"Accept": "text/event-stream"}

SHORT = (
    head("short")
    + """
workflow:
  - step: last
    tool: {kind: python, code: "print('out')\\nresult = 1"}
    set: {ctx.n: "{{ result }}"}
"""
)
GATED = (
    head("gated")
    + """
workflow:
  - step: start
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
"""
)


def port_of(stack: Stack) -> int:
    port = urlsplit(stack.api).port
    assert port is not None
    return port


def poll(port: int, endings: int, pollers: int) -> None:
    """Fails where one of some processes that ask all the time is told of two moments at once."""
    script = Path(__file__).with_name("polling.py")
    told = [str(port), "acceptance/short", str(endings // pollers), "4"]
    started = [
        subprocess.Popen([sys.executable, str(script), *told], stdout=subprocess.PIPE, text=True)
        for _ in range(pollers)
    ]
    answers = [json.loads(poller.communicate(timeout=540)[0]) for poller in started]
    assert [one["wrong"] for one in answers] == [[]] * pollers
    assert sum(one["ended"] for one in answers) >= endings - pollers
    # Most of them were seen to happen: between two answers that lay close together.
    assert sum(one["close"] for one in answers) > endings // 2


def test_no_answer_about_an_ending_mixes_two_moments(stack: Stack) -> None:
    catalog.register(stack.rt, SHORT)
    poll(port_of(stack), ENDINGS, POLLERS)


@pytest.mark.full("PostgreSQL is tried")
def test_nor_does_one_of_a_stack_on_sqlite(tmp_path: Path) -> None:
    def noetl(*argv: str) -> str:
        command = [sys.executable, "-m", "noetl", *argv]
        return subprocess.run(
            command,
            env=environment({"home": tmp_path / "home"}),
            capture_output=True,
            text=True,
            timeout=90,
            check=True,
        ).stdout

    noetl("up", "-d", "--port", "0", "--no-flower")
    try:
        api = json.loads(noetl("status", "--json"))["api"]
        requests.post(f"{api}/api/catalog", json={"content": SHORT}, timeout=30).raise_for_status()
        poll(urlsplit(api).port or 0, ENDINGS // 2, 2)
    finally:
        noetl("down")
        kill_all(left_behind(tmp_path / "home"))


class Streamed:
    """An event stream, and when each of its events arrived."""

    def __init__(self, port: int, execution: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", f"/api/executions/{execution}/events", headers=STREAM)
        self.answer = self._connection.getresponse()

    def __iter__(self) -> Iterator[tuple[datetime, str, dict]]:
        kind = ""
        for line in self.answer:
            if line.startswith(b"event: "):
                kind = line[7:].decode().strip()
            elif line.startswith(b"data: "):
                yield datetime.now(UTC), kind, json.loads(line[6:])

    def close(self) -> None:
        self._connection.close()


def test_a_stream_tells_an_event_within_milliseconds(stack: Stack) -> None:
    """Behind the instant that stands in the event: that of the decision, before it was written and
    committed."""
    catalog.register(stack.rt, SHORT)
    late = []
    for _ in range(21):
        stream = Streamed(port_of(stack), stack.begin(SHORT))
        for at, kind, event in stream:
            if kind == "playbook.processed":
                late.append((at - datetime.fromisoformat(event["recorded_at"])).total_seconds())
        stream.close()
    assert len(late) == 21
    pace.check(statistics.median(late), 0.02)


def median_start(stack: Stack, count: int = 15) -> float:
    """Seconds that a start takes, over HTTP."""
    took = []
    with requests.Session() as session:
        for _ in range(count):
            began = time.perf_counter()
            session.post(f"{stack.api}/api/executions", json={"path": "acceptance/short"}, timeout=30)
            took.append(time.perf_counter() - began)
    return statistics.median(took)


def memory_of(stack: Stack) -> int:
    (worker,) = psutil.Process(stack.running["api"].pid).children()
    return int(worker.memory_info().rss)


def test_a_server_process_holds_300_streams_and_goes_on_answering(stack: Stack) -> None:
    catalog.register(stack.rt, SHORT)
    waits = stack.begin(GATED)
    eventually(lambda: stack.row(waits).status == "waiting", "the gate to be reached")
    before, memory = median_start(stack), memory_of(stack)
    streams = [Streamed(port_of(stack), waits) for _ in range(300)]
    try:
        assert {one.answer.status for one in streams} == {200}
        grown = memory_of(stack) - memory
        refused = requests.get(f"{stack.api}/api/executions/{waits}/events", headers=STREAM, timeout=30)
        poll = requests.get(f"{stack.api}/api/executions/{waits}/result?wait=5", timeout=30)
        for answer in (refused, poll):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        pace.check(median_start(stack), 2 * before + 0.01)
        assert grown < 100 * 1024 * 1024, f"{grown / 300 / 1024:.0f} KiB for each stream"

        ends: list[str] = []
        readers = [threading.Thread(target=lambda one=one: ends.append([*one][-1][1])) for one in streams]
        for reader in readers:
            reader.start()
        requests.patch(f"{stack.api}/api/executions/{waits}/ctx", json={"go": True}, timeout=30)
        for reader in readers:
            reader.join(60)
        assert ends == ["end"] * 300
    finally:
        for one in streams:
            one.close()
    stack.wait([waits])
