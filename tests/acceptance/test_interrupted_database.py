"""PostgreSQL is restarted, and crashes, while clients wait: streams go on without a gap, and long
polls are answered."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests

from noetl.client import Client, Event, LogChunk
from noetl.store.migrate import upgrade
from tests import services

from .playbooks import head
from .stack import RedisServer, Stack, eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

T = TypeVar("T")

GATED = (
    head("interrupted")
    + """
workflow:
  - step: talk
    tool: {kind: python, code: "print('before')"}
    next: gate
  - step: gate
    spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: python, code: "print('behind')\\nresult = 42"}
"""
)
#: Seconds that the database is away.
AWAY_S = 1.5


@pytest.fixture
def database() -> Iterator[services.MortalPostgres]:
    try:
        with services.mortal_postgres() as running:
            yield running
    except services.Missing as missing:
        pytest.skip(f"a PostgreSQL of its own is needed: {missing}")


@pytest.fixture
def stack(tmp_path: Path, broker: RedisServer, database: services.MortalPostgres) -> Iterator[Stack]:
    url = database.server.create()
    upgrade(url)
    # Whoever hears nothing is not saved by looking at intervals.
    settings = {"sweep_s": 0.5, "watch_s": 0}
    with Stack(
        tmp_path / "stack", url, broker.url, ("scheduler", "alone", "sweeper", "api"), settings
    ) as running:
        yield running


def patient(stack: Stack, ask: Callable[[Client], T]) -> T:
    with Client(stack.api, tries=30) as client:
        return ask(client)


def poll(stack: Stack, execution: str) -> requests.Response:
    """One long poll of somebody who does not try again."""
    return requests.get(f"{stack.api}/api/executions/{execution}/result?wait=60", timeout=90)


def test_streams_and_long_polls_outlive_a_restart_and_a_crash_of_postgresql(
    stack: Stack, database: services.MortalPostgres
) -> None:
    execution = patient(stack, lambda client: client.start(client.register(GATED).path).execution_id)
    seen: list[int] = []

    def events(client: Client) -> list[Event]:
        found = []
        for event in client.events(execution):
            seen.append(event.version)
            found.append(event)
        return found

    def logs(client: Client) -> list[LogChunk]:
        return [*client.logs(execution)]

    streamed = in_background(lambda: patient(stack, events))
    printed = in_background(lambda: patient(stack, logs))
    awaited = in_background(lambda: patient(stack, lambda client: client.wait(execution)))
    eventually(lambda: state(stack, execution) == "waiting", "the gate to be reached")
    polled = in_background(lambda: poll(stack, execution))
    for how in (signal.SIGINT, signal.SIGQUIT):
        interrupt(stack, database, how)
        version = patched(stack, execution, {"tick": how})
        eventually(lambda wanted=version: wanted in seen, "the stream to tell what came behind", 20)
    patched(stack, execution, {"go": True})
    told, chunks, outcome = streamed.result(90), printed.result(90), awaited.result(90)
    answer = polled.result(90)
    assert [event.version for event in told] == list(range(1, len(told) + 1))
    assert told[-1].type == "playbook.processed"
    assert "".join(chunk.text for chunk in chunks) == "before\nbehind\n"
    assert (outcome.status, outcome.result) == ("completed", 42)
    # In the middle of it the server may have looked in vain: then it said so, and when to come
    # again.
    if answer.status_code == 503:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.headers["Retry-After"] == "1"
    else:
        assert (answer.status_code, answer.json()["result"]) == (200, 42)


def in_background(call: Callable[[], T]) -> Future[T]:
    """What `call` returns, once it does. Its thread keeps nobody from ending."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the result gets it
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


def state(stack: Stack, execution: str) -> str:
    return str(patient(stack, lambda client: client.result(execution)).status)


def patched(stack: Stack, execution: str, names: dict[str, Any]) -> int:
    """The version behind the patch."""
    url = f"{stack.api}/api/executions/{execution}/ctx"

    def answer() -> int | None:
        said = requests.patch(url, json=names, timeout=30)
        assert said.status_code in (200, 503), said.text
        return int(said.json()["version"]) if said.ok else None

    return int(eventually(answer, "the database to be there again"))


def interrupt(stack: Stack, database: services.MortalPostgres, how: signal.Signals) -> None:
    """Takes the database away for a while; the API says so, and in its health."""
    database.stop(how)
    gone = time.monotonic()
    answer = requests.get(f"{stack.api}/api/executions", timeout=30)
    health = requests.get(f"{stack.api}/api/health", timeout=30)
    assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/problem+json")
    assert (health.status_code, health.json()["status"]) == (503, "down")
    time.sleep(max(0.0, AWAY_S - (time.monotonic() - gone)))
    database.start()
    eventually(lambda: requests.get(f"{stack.api}/api/health", timeout=30).ok, "the API to be well again")
