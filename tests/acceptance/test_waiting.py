"""Executions that wait for a child or for an instant, far more than there are workers: one process
has them all.

`NOETL_TEST_WAITING` says how many (60). Half of them call a playbook that waits for somebody
outside, half have a task that is tried again in an hour. An hour passes, and somebody speaks, while
nothing of NoETL is alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.usecases import catalog, control
from noetl.usecases.start import StartRequest, start
from tests import services
from tests.budget import budget
from tests.services import RedisServer
from tests.waiting import until

from .playbooks import TWO_STEPS, head
from .stack import Stack

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.timeout(1800),
]

WAITING = budget("NOETL_TEST_WAITING", quick=60, full=60, long=2000)

#: One line for each time that a task really ran: `kind number`.
APPEND = """import os
        handle = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{kind} {n}\\n".encode())
        os.close(handle)"""

CALLER = (
    head("waits_for_a_child")
    + """
workload: {n: 0, effects: ""}
workflow:
  - step: start
    tool:
      kind: playbook
      path: acceptance/waits_outside
      input: {n: "{{ workload.n }}", effects: "{{ workload.effects }}"}
"""
)

CALLED = (
    head("waits_outside")
    + f"""
workload: {{n: 0, effects: ""}}
workflow:
  - step: start
    next: end
  - step: end
    spec: {{policy: {{admit: {{rules: [{{when: "{{{{ ctx.go }}}}", then: {{allow: true}}}}, {{else: {{then: {{allow: false}}}}}}]}}}}}}
    tool:
      kind: python
      input: {{n: "{{{{ workload.n }}}}", effects: "{{{{ workload.effects }}}}", kind: child}}
      code: |
        {APPEND}
        result = n * n
"""
)

DUE = (
    head("waits_for_an_hour")
    + f"""
workload: {{n: 0, effects: ""}}
workflow:
  - step: start
    tool:
      kind: python
      input: {{n: "{{{{ workload.n }}}}", effects: "{{{{ workload.effects }}}}", kind: "attempt{{{{ _attempt }}}}"}}
      code: |
        {APPEND}
        assert kind == "attempt2", "not yet"
        result = n * n
      spec:
        policy:
          rules:
            - {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 2, delay: 3600}}}}
            - {{else: {{then: {{do: continue}}}}}}
"""
)

#: Short, so that what died is missed within seconds.
FAST = {"lease_s": 10, "heartbeat_s": 2, "resend_s": 5, "sweep_s": 0.5}
PARTS = ("scheduler", "alone", "sweeper", "api")


@pytest.fixture
def small(
    tmp_path: Path, broker: RedisServer, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    """A stack with one worker process."""
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker.url, PARTS, FAST) as running:
        yield running
    postgres_server.drop(url)


def begin(stack: Stack, effects: Path) -> None:
    """Starts all of them, every second one a caller."""
    catalog.register(stack.rt, CALLED)
    paths = [catalog.register(stack.rt, text).path for text in (CALLER, DUE)]
    for number in range(WAITING):
        payload = {"n": number, "effects": str(effects)}
        start(stack.rt, StartRequest(paths[number % 2], payload=payload))


def statuses(stack: Stack) -> Counter[tuple[str, str]]:
    rows = stack.sql("SELECT path, status, count(*) FROM execution GROUP BY 1, 2")
    return Counter({(path.removeprefix("acceptance/"), status): count for path, status, count in rows})


def all_wait(stack: Stack) -> bool:
    """Nothing moves: callers and those that they called wait for somebody outside, the others for
    their hour."""
    outside = {(kind, "waiting"): WAITING // 2 for kind in ("waits_for_a_child", "waits_outside")}
    if not outside.items() <= statuses(stack).items():
        return False
    later = "due_at > now() + interval '10 minutes' AND sent_at IS NULL"
    commands = stack.sql(
        f"SELECT count(*), count(*) FILTER (WHERE {later}) FROM command WHERE state <> 'closed'"
    )
    return tuple(commands[0]) == (WAITING // 2, WAITING // 2)


def everybody_may_go_on(stack: Stack) -> None:
    """Somebody speaks to every child, and the hour is over."""
    for (child,) in stack.sql("SELECT execution_id FROM execution WHERE parent_id IS NOT NULL"):
        control.patch_ctx(stack.rt, str(child), {"go": True})
    stack.change("UPDATE command SET due_at = now() WHERE due_at IS NOT NULL")


def check(stack: Stack, effects: Path) -> None:
    """Each ran as often as it should, was called once, and has one end; no log has a gap."""
    assert Counter(effects.read_text().split("\n")[:-1]) == Counter(
        [f"child {n}" for n in range(0, WAITING, 2)]
        + [f"attempt{attempt} {n}" for n in range(1, WAITING, 2) for attempt in (1, 2)]
    )
    gaps = "SELECT execution_id FROM event GROUP BY 1 HAVING count(*) <> max(version) OR min(version) <> 1"
    assert stack.sql(gaps) == []
    for fact in ("child.requested", "child.ended", "step.done"):
        often = stack.sql(
            "SELECT execution_id, step_run_id, count(*) FROM event WHERE type = :type GROUP BY 1, 2"
            " HAVING count(*) <> 1",
            type=fact,
        )
        assert often == [], fact
    assert stack.sql("SELECT command_id FROM command WHERE state <> 'closed'") == []


@pytest.mark.full("a load; everything dies in test_faults.py, too")
def test_those_that_wait_hold_no_worker_and_go_on_after_everything_has_died(
    small: Stack, broker: RedisServer, tmp_path: Path
) -> None:
    effects = tmp_path / "effects"
    begin(small, effects)
    until(lambda: all_wait(small), f"{WAITING} executions to wait")
    assert small.run(TWO_STEPS).result == 2

    for part in PARTS:
        small.kill(part)
    broker.kill()
    broker.start()
    small.start(*PARTS)
    everybody_may_go_on(small)
    everything = {
        ("waits_for_a_child", "completed"),
        ("waits_outside", "completed"),
        ("waits_for_an_hour", "completed"),
    }
    until(lambda: {*statuses(small)} == everything | {("two_steps", "completed")}, "all to end")
    until(lambda: small.sql("SELECT 1 FROM command WHERE state <> 'closed' LIMIT 1") == [], "all to be told")
    check(small, effects)
    assert small.run(TWO_STEPS).result == 2
