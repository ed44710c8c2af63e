"""Executions that wait for a signal, or for time, beside one worker: nothing of NoETL has to be
alive for what they wait for to come, and each hears it once.

`NOETL_TEST_SIGNALLED` says how many (60; in the quick profile 30). A third waits for a signal by
its id, a third for one about its order, a third for a time that passes while nobody is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from noetl.usecases import catalog
from noetl.usecases.start import StartRequest, start
from tests import services
from tests.budget import budget
from tests.services import RedisServer
from tests.waiting import GUARD_S, until

from .hours import let_timers_come
from .playbooks import TWO_STEPS, head
from .stack import Stack

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.timeout(1800),
]

SIGNALLED = budget("NOETL_TEST_SIGNALLED", quick=30, full=60, long=5000)
FAST = {"lease_s": 10, "heartbeat_s": 2, "resend_s": 5, "sweep_s": 0.5}
PARTS = ("scheduler", "alone", "sweeper", "api")

WAITS = {
    "by_id": "any: {paid: {signal: {name: payment, match: {n: '{{ workload.n }}'}}}, late: {timer: 1d}}",
    "about": "signal: {name: payment, correlate: 'order-{{ workload.n }}'}",
    "later": "timer: 1h",
}


def playbook(kind: str) -> str:
    return (
        head(f"waits_{kind}")
        + f"""
workload: {{n: 0}}
workflow:
  - step: start
    tool:
      kind: wait
      {WAITS[kind]}
    next: heard
  - step: heard
    tool: {{kind: noop, input: {{heard: "{{{{ start }}}}"}}}}
"""
    )


@pytest.fixture
def small(
    tmp_path: Path, broker: RedisServer, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    """A stack with one worker process."""
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker.url, PARTS, FAST) as running:
        yield running
    postgres_server.drop(url)


def begin(stack: Stack) -> dict[str, list[tuple[int, str]]]:
    """All of them: number and id, by what they wait for."""
    paths = {kind: catalog.register(stack.rt, playbook(kind)).path for kind in WAITS}
    begun: dict[str, list[tuple[int, str]]] = {kind: [] for kind in WAITS}
    for n in range(SIGNALLED):
        kind = list(WAITS)[n % len(WAITS)]
        made = start(stack.rt, StartRequest(paths[kind], payload={"n": n}))
        begun[kind].append((n, made.execution_id))
    return begun


def all_wait(stack: Stack) -> bool:
    waiting = stack.sql("SELECT count(*) FROM execution WHERE waiting_for IS NOT NULL")[0][0]
    return bool(waiting == SIGNALLED) and not open_commands(stack)


def open_commands(stack: Stack) -> list[Any]:
    return stack.sql("SELECT command_id FROM command WHERE state <> 'closed'")


def tell(stack: Stack, begun: dict[str, list[tuple[int, str]]]) -> Counter[tuple[int, bool]]:
    """Every signal twice, as a service does that has not heard the first answer: the statuses of
    the answers, and whether the signal was there before."""
    by_id = [(f"executions/{execution}/signals/payment", n, {}) for n, execution in begun["by_id"]]
    about = [("signals/payment", n, {"correlate": f"order-{n}"}) for n, _ in begun["about"]]

    def send(sent: tuple[str, int, dict[str, str]]) -> tuple[int, bool]:
        path, n, more = sent
        body = {"payload": {"n": n}, "id": f"payment-{n}", **more}
        answer = requests.post(f"{stack.api}/api/{path}", json=body, timeout=GUARD_S)
        return answer.status_code, bool(answer.json().get("existing", False))

    with ThreadPoolExecutor(4) as threads:
        return Counter(one for _ in range(2) for one in threads.map(send, [*by_id, *about]))


def test_who_waits_holds_no_worker_and_hears_once_what_came_while_all_were_dead(
    small: Stack, broker: RedisServer
) -> None:
    begun = begin(small)
    until(lambda: all_wait(small), f"{SIGNALLED} executions to wait")
    small.run(TWO_STEPS)

    for name in ("scheduler", "alone", "sweeper"):
        small.kill(name)
    answers = tell(small, begun)
    assert {status for status, _ in answers} == {202}, answers
    small.kill("api")
    let_timers_come(small, [execution for _, execution in begun["later"]])
    broker.kill()
    broker.start()
    small.start(*PARTS)
    ids = [execution for several in begun.values() for _, execution in several]
    small.wait(ids)
    check(small, begun)


def check(stack: Stack, begun: dict[str, list[tuple[int, str]]]) -> None:
    for kind in ("by_id", "about"):
        for n, execution in begun[kind]:
            heard = stack.report(execution).result["heard"]
            assert (heard["payload"], heard["id"]) == ({"n": n}, f"payment-{n}")
    for _, execution in begun["later"]:
        assert stack.report(execution).result["heard"]["at"]
    for fact in ("wait.matched", "playbook.processed"):
        often = stack.sql(
            "SELECT execution_id, count(*) FROM event WHERE type = :type GROUP BY 1 HAVING count(*) <> 1",
            type=fact,
        )
        assert often == [], fact
    received = stack.sql("SELECT count(*) FROM event WHERE type = 'signal.received'")[0][0]
    assert received == len(begun["by_id"]) + len(begun["about"])
    # Each hears of the instant that it waited for, whoever was alive then.
    fired = stack.sql(
        "SELECT s.execution_id FROM event s JOIN event m ON m.execution_id = s.execution_id"
        " AND m.type = 'wait.matched' WHERE s.type = 'timer.scheduled'"
        " AND CAST(s.payload AS json)->>'due_at' = CAST(m.payload AS json)->'result'->>'at'"
    )
    assert len(fired) == len(begun["later"])
    assert open_commands(stack) == []
