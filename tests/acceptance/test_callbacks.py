"""A service that was handed the address of a task calls it: at once, later, twice, and while nobody
works but the server. The address is found nowhere but with the service."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import requests

from tests import httpd, services
from tests.ports import free_port
from tests.services import RedisServer
from tests.waiting import GUARD_S, until

from .playbooks import head
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

PARTS = ("scheduler", "alone", "sweeper", "api")
FAST = {"lease_s": 10, "heartbeat_s": 2, "resend_s": 5, "sweep_s": 0.5, "log_level": "DEBUG"}

ORDERS = (
    head("orders")
    + """
workload: {there: "", how: later}
workflow:
  - step: orders
    tool:
      - post:
          kind: http
          method: POST
          url: "{{ workload.there }}/orders"
          json: {callback: "{{ callback.paid.url }}", how: "{{ workload.how }}"}
      - tells:
          kind: python
          input: {url: "{{ callback.paid.url }}", text: "call {{ callback.paid.url }} then"}
          code: |
            import sys
            print("the address is", url); print(text, file=sys.stderr)
            result = {"url": url, "token": url.rpartition("/")[2]}
      - fails:
          kind: python
          input: {url: "{{ callback.paid.url }}"}
          code: "raise ValueError('no service at ' + url)"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - paid: {kind: wait, any: {called: {callback: {}}, late: {timer: 10m}}}
"""
)


class Shop(httpd.Server):
    """Takes orders, and calls back as it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.answers: list[requests.Response] = []
        self.routes["/orders"] = self._take_order

    def _take_order(self, handler: httpd.Handler) -> None:
        order = json.loads(handler.body)
        self.addresses.append(order["callback"])
        if order["how"] == "at once":
            self.call(0, {"paid": 1})
        # It repeats what it was told, as services do.
        handler.json({"accepted": order}, 202, location=order["callback"])

    def call(self, number: int, payload: object) -> requests.Response:
        answer = requests.post(self.addresses[number], json=payload, timeout=GUARD_S)
        self.answers.append(answer)
        return answer


@pytest.fixture
def shop() -> Iterator[Shop]:
    server = Shop()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(server.serve_forever, 0.02)
        yield server
        httpd.stopped(server)


@pytest.fixture
def stack(
    tmp_path: Path, broker: RedisServer, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    url, port = postgres_server.create(postgres_template), free_port()
    with Stack(tmp_path / "stack", url, broker.url, PARTS, {**FAST, "port": port}, _port=port) as running:
        yield running
    postgres_server.drop(url)


def begin(stack: Stack, shop: Shop, how: str) -> str:
    """An execution that the service has heard of."""
    known = len(shop.addresses)
    run = stack.begin(ORDERS, {"there": shop.url, "how": how})
    until(lambda: len(shop.addresses) > known, "the order")
    return run


def waits(stack: Stack, run: str) -> bool:
    return bool(stack.row(run).status == "waiting")


def paid(stack: Stack, run: str) -> Any:
    stack.wait([run])
    stack.check_log_of(run)
    calls = stack.sql(
        "SELECT count(*) FROM event WHERE execution_id = :id AND type = 'callback.received'", id=int(run)
    )
    assert calls[0][0] == 1
    return stack.report(run).result["payload"]


def test_a_service_calls_back_at_once_later_twice_and_while_nobody_works(stack: Stack, shop: Shop) -> None:
    at_once = begin(stack, shop, "at once")
    assert paid(stack, at_once) == {"paid": 1}
    assert shop.answers[0].status_code == 202

    later = begin(stack, shop, "later")
    until(lambda: waits(stack, later), "the wait")
    assert shop.call(1, {"paid": 2}).status_code == 202
    assert paid(stack, later) == {"paid": 2}

    twice = begin(stack, shop, "later")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: shop.call(2, {"paid": n}), range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["at"] for answer in answers}) == 1
    assert paid(stack, twice)["paid"] in range(8)

    alone = begin(stack, shop, "later")
    until(lambda: waits(stack, alone), "the wait")
    for name in ("scheduler", "alone", "sweeper"):
        stack.kill(name)
    assert shop.call(3, {"paid": 3}).status_code == 202
    stack.start("scheduler", "alone", "sweeper")
    assert paid(stack, alone) == {"paid": 3}

    gone = begin(stack, shop, "later")
    until(lambda: waits(stack, gone), "the wait")
    requests.post(f"{stack.api}/api/executions/{gone}/cancel", json={}, timeout=GUARD_S).raise_for_status()
    stack.wait([gone])
    refused = shop.call(4, {})
    assert (refused.status_code, "has ended (cancelled)" in refused.json()["detail"]) == (409, True)
    again = requests.post(f"{stack.api}/api/executions/{gone}/retry", json={}, timeout=GUARD_S)
    retried = str(again.json()["execution_id"])
    until(lambda: waits(stack, retried), "the wait of the retry")
    assert shop.call(4, {"paid": 4}).status_code == 202
    assert paid(stack, retried) == {"paid": 4}
    assert len(shop.addresses) == 5

    foreign = requests.post(f"{shop.addresses[0]}x", json={}, timeout=GUARD_S)
    assert (foreign.status_code, requests.get(shop.addresses[0], timeout=GUARD_S).status_code) == (404, 405)
    stack.expected.append("ValueError: no service at")
    stack.check_logs()
    tokens = [address.rpartition("/")[2].encode() for address in shop.addresses]
    secrets = [*tokens, *(token.partition(b".")[2] for token in tokens)]
    seen = list(places(stack, [at_once, later, twice, alone, gone, retried]))
    assert len(seen) > 150
    assert sorted({place for place, text in seen if any(one in text for one in secrets)}) == []
    assert any(b"the address is ***" in text for _, text in seen), "what code prints is kept"


def places(stack: Stack, executions: list[str]) -> Iterator[tuple[str, bytes]]:
    """Everything that an address could have got to, with how the place is called."""
    for (table,) in stack.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'"):
        for (row,) in stack.sql(f'SELECT t::text FROM "{table}" t'):
            yield f"table {table}", row.encode()
    with redis.Redis.from_url(stack.broker) as client:
        for key in client.scan_iter():
            yield f"redis {key!r}", key + (client.dump(key) or b"")
    for file in filter(Path.is_file, stack.home.rglob("*")):
        data = file.read_bytes()
        yield f"file {file}", gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    for execution in executions:
        here = f"{stack.api}/api/executions/{execution}"
        for part in ("", "/events?limit=500", "/state", "/result", "/logs", "/explain", "/export"):
            yield f"GET {part}", requests.get(f"{here}{part}", timeout=GUARD_S).content
        yield "page", requests.get(f"{stack.api}/executions/{execution}", timeout=GUARD_S).content
