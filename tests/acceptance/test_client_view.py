"""What a client sees that knows only HTTP: true answers, events as they happen, and a server with
room for everybody.

`NOETL_TEST_ENDINGS` says how many endings are polled on PostgreSQL; half as many on SQLite.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import requests

from noetl.usecases import catalog
from tests import zygote
from tests.budget import budget
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import ROOT, Stack, environment, kill_all
from .test_up import left_behind

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

ENDINGS = budget("NOETL_TEST_ENDINGS", quick=160, full=320, long=20_000)
POLLERS = 2
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
    words = ["tests.acceptance.polling", str(port), "acceptance/short", str(endings // pollers), "4"]
    started = [zygote.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(pollers)]
    answers = [json.loads(poller.communicate()[0]) for poller in started]
    assert [one["wrong"] for one in answers] == [[]] * pollers
    assert sum(one["ended"] for one in answers) >= endings - 4 * pollers
    # Or nothing was tried: they were asked after before they had ended, and again behind it.
    assert sum(one["seen"] for one in answers) > endings // 10


def test_no_answer_about_an_ending_mixes_two_moments(stack: Stack) -> None:
    catalog.register(stack.rt, SHORT)
    poll(port_of(stack), ENDINGS, POLLERS)


@pytest.mark.full("PostgreSQL is tried")
def test_nor_does_one_of_a_stack_on_sqlite(tmp_path: Path) -> None:
    def noetl(*argv: str) -> str:
        variables = environment({"home": tmp_path / "home"})
        done = zygote.run(["noetl", *argv], env=variables, capture_output=True, text=True, check=True)
        return str(done.stdout)

    noetl("up", "-d", "--port", "0", "--no-flower")
    try:
        api = json.loads(noetl("status", "--json"))["api"]
        requests.post(f"{api}/api/catalog", json={"content": SHORT}, timeout=GUARD_S).raise_for_status()
        poll(urlsplit(api).port or 0, ENDINGS // 2, 2)
    finally:
        noetl("down")
        kill_all(left_behind(tmp_path / "home"))


class Streamed:
    """An event stream."""

    def __init__(self, port: int, execution: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_S)
        self._connection.request("GET", f"/api/executions/{execution}/events", headers=STREAM)
        self.answer = self._connection.getresponse()

    def kinds(self) -> Iterator[str]:
        """What the events are called, and comments as an empty text."""
        for line in self.answer:
            if line.startswith(b"event: "):
                yield line[7:].decode().strip()
            elif line.startswith(b":"):
                yield ""

    def close(self) -> None:
        self._connection.close()


def test_a_stream_is_told_of_events_and_does_not_look_for_them(stack: Stack) -> None:
    """It sends a comment when it has heard nothing for long: none stands between the events of a
    short execution."""
    catalog.register(stack.rt, SHORT)
    for _ in range(4):
        stream = Streamed(port_of(stack), stack.begin(SHORT))
        kinds = [*stream.kinds()]
        stream.close()
        assert kinds[-2:] == ["playbook.processed", "end"]
        assert "" not in kinds[1:], kinds


def start_short(stack: Stack) -> None:
    body = {"path": "acceptance/short"}
    requests.post(f"{stack.api}/api/executions", json=body, timeout=GUARD_S).raise_for_status()


def memory_of(stack: Stack) -> int:
    (worker,) = psutil.Process(stack.running["api"].pid).children()
    return int(worker.memory_info().rss)


def test_a_server_process_holds_300_streams_and_goes_on_answering(stack: Stack) -> None:
    catalog.register(stack.rt, SHORT)
    waits = stack.begin(GATED)
    until(lambda: stack.row(waits).status == "waiting", "the gate to be reached")
    start_short(stack)
    memory = memory_of(stack)
    streams = [Streamed(port_of(stack), waits) for _ in range(300)]
    try:
        assert {one.answer.status for one in streams} == {200}
        grown = memory_of(stack) - memory
        refused = requests.get(f"{stack.api}/api/executions/{waits}/events", headers=STREAM, timeout=GUARD_S)
        poll = requests.get(f"{stack.api}/api/executions/{waits}/result?wait=5", timeout=GUARD_S)
        for answer in (refused, poll):
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        start_short(stack)
        assert grown < 100 * 1024 * 1024, f"{grown / 300 / 1024:.0f} KiB for each stream"

        ends: list[str] = []
        readers = [
            threading.Thread(target=lambda one=one: ends.append([*one.kinds()][-1])) for one in streams
        ]
        for reader in readers:
            reader.start()
        requests.patch(f"{stack.api}/api/executions/{waits}/ctx", json={"go": True}, timeout=GUARD_S)
        for reader in readers:
            reader.join(GUARD_S)
        assert ends == ["end"] * 300
    finally:
        for one in streams:
            one.close()
    stack.wait([waits])
