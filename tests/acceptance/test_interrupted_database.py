"""PostgreSQL is restarted, and crashes, while clients wait: streams go on without a gap, and long
polls are answered."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import pytest
import requests

from noetl.client import Client, Event, LogChunk
from noetl.store.migrate import upgrade
from noetl.usecases.ports import ENDED
from tests import services
from tests.services import RedisServer
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import Stack

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
    with Client(stack.api, tries=1000) as client:
        return ask(client)


def poll(stack: Stack, execution: str) -> requests.Response:
    """A long poll of somebody who does not try again, unless it was answered that nothing has
    ended yet."""
    while True:
        answer = requests.get(f"{stack.api}/api/executions/{execution}/result?wait=60", timeout=GUARD_S)
        if not answer.ok or answer.json()["status"] in ENDED:
            return answer


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
    until(lambda: state(stack, execution) == "waiting", "the gate to be reached")
    polled = in_background(lambda: poll(stack, execution))
    for how in (signal.SIGINT, signal.SIGQUIT):
        interrupt(stack, database, how)
        version = patched(stack, execution, {"tick": how})
        until(lambda wanted=version: wanted in seen, "the stream to tell what came behind")
    patched(stack, execution, {"go": True})
    told, chunks, outcome = streamed.result(GUARD_S), printed.result(GUARD_S), awaited.result(GUARD_S)
    answer = polled.result(GUARD_S)
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
        said = requests.patch(url, json=names, timeout=GUARD_S)
        assert said.status_code in (200, 503), said.text
        return int(said.json()["version"]) if said.ok else None

    return int(until(answer, "the database to be there again"))


def interrupt(stack: Stack, database: services.MortalPostgres, how: signal.Signals) -> None:
    """Takes the database away for a while; the API says so, and in its health."""
    database.stop(how)
    answer = requests.get(f"{stack.api}/api/executions", timeout=GUARD_S)
    health = requests.get(f"{stack.api}/api/health", timeout=GUARD_S)
    assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/problem+json")
    assert (health.status_code, health.json()["status"]) == (503, "down")
    database.start()
    until(lambda: requests.get(f"{stack.api}/api/health", timeout=GUARD_S).ok, "the API to be well again")
