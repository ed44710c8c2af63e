"""`examples/quantum/ionq_submit_poll.yaml` through the whole stack, while the worker that has
submitted its job is killed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.usecases import control, credentials, inspect
from noetl.usecases.ports import ENDED
from tests import services
from tests.quantum.ionq import KEY, IonQServer, serving
from tests.services import RedisServer
from tests.waiting import until

from .stack import ROOT, Stack, worker

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

EXAMPLE = (ROOT / "examples/quantum/ionq_submit_poll.yaml").read_text(encoding="utf-8")
QUANTUM = worker("quantum", "threads", 2, "quantum")
#: Short, so that what died is missed within seconds.
FAST = {"lease_s": 5, "heartbeat_s": 1, "resend_s": 5, "sweep_s": 0.3}


@pytest.fixture
def ionq() -> Iterator[IonQServer]:
    with serving() as server:
        yield server


@pytest.fixture
def stack(
    tmp_path: Path, broker: RedisServer, postgres_server: services.Postgres, postgres_template: str
) -> Iterator[Stack]:
    """A stack with one worker for circuits, which knows the vendor's key."""
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker.url, ("scheduler", "code", "sweeper"), FAST) as running:
        credentials.save(running.rt, "ionq", "bearer", {"token": KEY})
        running.launch("quantum", QUANTUM)
        running.await_ready("quantum")
        yield running
        running.check_logs()
    postgres_server.drop(url)


@pytest.mark.full("half a minute of waiting; test_jobs_crashes stands for it")
def test_a_job_outlives_the_worker_that_submitted_it_and_is_paid_for_once(
    stack: Stack, ionq: IonQServer
) -> None:
    ionq.queue_s = math.inf
    # A machine, so that there is a cost.
    execution = stack.begin(EXAMPLE, {"host": ionq.url, "target": "qpu.forte-1"})
    until(lambda: ionq.jobs, "the job to be at the vendor")
    stack.kill("quantum")
    assert stack.row(execution).status not in ENDED
    stack.launch("quantum", QUANTUM)
    stack.await_ready("quantum")
    ionq.queue_s = 0
    stack.wait([execution])

    report = stack.report(execution)
    (job,) = ionq.jobs.values()
    assert report.result["job"] == job.id
    assert set(report.result["histogram"]) <= {"000", "111"}
    assert sum(report.result["histogram"].values()) == 500
    assert report.result["cost"] == 1.5
    assert (len(ionq.paid()), job.fetched) == (1, 1)
    stack.check_log_of(execution)


WAITS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waits, path: tests/waits}
workload: {host: ""}
workflow:
  - step: start
    tool:
      kind: quantum
      builder: {name: ghz, qubits: 2}
      backend: {provider: ionq, host: "{{ workload.host }}", auth: ionq}
      repetitions: 10
"""


@pytest.mark.full("a stack of its own")
def test_a_cancelled_execution_ends_at_once_and_its_job_when_a_worker_of_its_queue_is_there(
    stack: Stack, ionq: IonQServer
) -> None:
    ionq.queue_s = math.inf
    execution = stack.begin(WAITS, {"host": ionq.url})
    until(lambda: ionq.jobs, "the job to be at the vendor")
    stack.kill("quantum")
    control.cancel(stack.rt, execution)
    assert stack.wait([execution])[execution].status == "cancelled"
    assert len(ionq.paid()) == 1

    stack.launch("quantum", QUANTUM)
    stack.await_ready("quantum")
    until(lambda: not ionq.paid(), "the job to be cancelled")
    until(lambda: inspect.events(stack.rt, execution)[-1].fact.type == "task.abandoned", "the log to say so")
    assert stack.row(execution).status == "cancelled"


@pytest.mark.full("a stack of its own for what tests/quantum hold, too")
def test_a_job_that_is_too_dear_is_never_sent(stack: Stack, ionq: IonQServer) -> None:
    execution = stack.begin(EXAMPLE, {"host": ionq.url, "budget": 1})
    row = stack.wait([execution])[execution]
    assert row.status == "failed"
    assert row.error is not None
    assert "would cost 7.0, and the budget is 1" in row.error["message"]
    assert ionq.jobs == {}
