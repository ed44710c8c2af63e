"""Workers die with SIGKILL while they submit, poll and fetch jobs: each command has one paid job,
and each result is there once. See `mortal` for how often they die."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import services
from tests.quantum.ionq import KEY, IonQServer, serving

from .mortal import KILLS, SEED, is_whole, kept_open, kill_process, kill_worker, mortal_stack, progress
from .places import reach
from .playbooks import head
from .stack import Stack

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

#: Executions that run at any time while workers die.
OPEN = 3
#: Jobs of an execution: a sweep of two points, and a submission of one.
JOBS = 3
#: What workers import before they fork, so that a process that comes in the place of another one
#: has Cirq already.
LOADED = ["-I", "noetl.quantum.actions,noetl.quantum.backends.ionq,cirq_ionq"]

PLAYBOOK = (
    head("kills")
    + """
workload: {host: "", key: ""}
workflow:
  - step: start
    tool:
      kind: quantum
      backend: &ionq
        provider: ionq
        host: "{{ workload.host }}"
        auth: {type: bearer, token: "{{ workload.key }}"}
        options: {settle_s: 1, requests_per_minute: 100000}
      qasm: &circuit |
        OPENQASM 3.0;
        include "stdgates.inc";
        input float t;
        qubit q;
        bit c;
        rx(t) q;
        c = measure q;
      params: {list: [{t: 0}, {t: pi}]}
      repetitions: 10
      polling: {every: 0.2, max: 0.5}
    next: parts
  - step: parts
    tool:
      - {name: submit, kind: quantum, action: submit, backend: *ionq, qasm: *circuit, params: {t: pi}, repetitions: 10}
      - {name: poll, kind: quantum, action: poll, backend: *ionq, job: "{{ submit }}", polling: {every: 1.1}}
      - {name: fetch, kind: quantum, action: fetch, backend: *ionq, job: "{{ submit }}"}
    next: end
  - step: end
    tool:
      kind: noop
      input: {sweep: "{{ start.points | map(attribute='histogram') | list }}", part: "{{ parts.histogram }}"}
"""
)


@pytest.fixture
def ionq() -> Iterator[IonQServer]:
    with serving() as server:
        server.queue_s, server.run_s, server.lag_s = 0.4, 0.2, 0.2
        yield server


@pytest.fixture
def mortal(
    tmp_path: Path, postgres_server: services.Postgres, postgres_template: str, broker_of_module: str
) -> Iterator[Stack]:
    queues = "quantum,python,default"
    with mortal_stack(
        tmp_path / "home", postgres_server, postgres_template, broker_of_module, queues, LOADED
    ) as running:
        yield running


def is_idle(stack: Stack) -> bool:
    return stack.sql("SELECT 1 FROM execution WHERE ended_at IS NULL LIMIT 1") == []


def kill_one(stack: Stack, ionq: IonQServer, chance: random.Random, number: int) -> str:
    """SIGKILL to a process, or a whole worker, when some more requests have come in, or nobody has
    any more to ask. Yields the last request."""
    enough = len(ionq.asked) + chance.randint(1, 8)
    reach(stack, lambda: len(ionq.asked) >= enough or is_idle(stack), "requests of workers")
    last = " ".join(ionq.asked[-1])
    if is_whole(number):
        kill_worker(stack, chance)
    else:
        kill_process(stack, chance)
    return "results" if "results" in last else last.split("/")[0]


@pytest.mark.full("kills once more, of jobs")
@pytest.mark.timeout(900 + 30 * KILLS)
def test_whatever_dies_each_command_has_one_paid_job_and_each_result_is_there_once(
    mortal: Stack, ionq: IonQServer
) -> None:
    print(f"seed {SEED}, {KILLS} kills")
    chance, payload = random.Random(SEED), {"host": ionq.url, "key": KEY}
    begun: list[str] = []
    struck: Counter[str] = Counter()
    for number in range(KILLS):
        kept_open(mortal, begun, OPEN, lambda: mortal.begin(PLAYBOOK, payload))
        struck[kill_one(mortal, ionq, chance, number)] += 1
        progress(number, 10)
    mortal.wait(begun)

    print(
        f"{KILLS} kills, {len(begun)} executions, {len(ionq.jobs)} jobs, {len(ionq.paid())} paid; after "
        f"{struck}"
    )
    assert {mortal.row(one).status for one in begun} == {"completed"}
    assert len(ionq.paid()) == len(set(ionq.tokens())) == JOBS * len(begun)
    wanted: Any = {"sweep": [{"0": 10}, {"1": 10}], "part": {"1": 10}}
    assert all(mortal.report(one).as_json()["result"] == wanted for one in begun)
    for one in begun:
        mortal.check_log_of(one)
