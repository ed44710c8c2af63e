"""A long sweep on a pool of workers of its own: a worker is killed in the middle, and nobody can
tell from the result."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Where
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.tool import Quantum
from noetl.tools.kit.base import Services
from noetl.usecases.ports import ENDED
from tests import services

from .playbooks import head
from .stack import RedisServer, Stack, eventually, worker

pytestmark = [pytest.mark.acceptance, pytest.mark.postgres, pytest.mark.redis]

POOL = worker("quantum.ionq", "threads", 1, "pool")
#: Short, so that what died is missed within seconds.
FAST = {"lease_s": 5, "heartbeat_s": 1, "resend_s": 5, "sweep_s": 0.3}
POINTS = 9
#: Seconds of a point, at least: the first six are kept, and some are left to be run behind them.
POINT_S = 2.0

SWEEP = (
    head("sweep")
    + """
workload: {repetitions: 10, axes: {}}
workflow:
  - step: start
    tool:
      kind: quantum
      builder: {name: hardware_efficient, qubits: 2, layers: 1}
      params: {zip: "{{ workload.axes }}"}
      noise: {depolarize: 0.05}
      repetitions: "{{ workload.repetitions }}"
      seed: 11
      spec: {queue: quantum.ionq}
"""
)


@pytest.fixture
def stack(tmp_path: Path, postgres_server: services.Postgres, postgres_template: str) -> Iterator[Stack]:
    broker = RedisServer(tmp_path / "broker")
    broker.start()
    url = postgres_server.create(postgres_template)
    with Stack(tmp_path / "stack", url, broker.url, ("scheduler", "sweeper"), FAST) as running:
        running.launch("pool", POOL)
        running.await_ready("pool")
        yield running
        running.check_logs()
    broker.kill()
    postgres_server.drop(url)


def axes() -> dict[str, Any]:
    return {f"theta{number}": {"linspace": [0, number + 1, POINTS]} for number in range(8)}


def here(repetitions: int, points: int = POINTS) -> Any:
    """The points of the same sweep in this process, without a stop."""
    tool = Quantum(Services())
    given = {"builder": {"name": "hardware_efficient", "qubits": 2, "layers": 1}, "params": {"zip": axes()}}
    given |= {
        "noise": {"depolarize": 0.05},
        "repetitions": repetitions,
        "seed": 11,
        "limits": {"max_points": points},
    }
    came = tool.run(
        Call("quantum", {}, {}, {}, Where("1", "s#1", "s"), "t", 1, "k"), QuantumConfig.model_validate(given)
    )
    tool.close()
    assert isinstance(came, Outcome)
    return came.result["points"]


def quickest(repetitions: int) -> float:
    """Seconds of one point: the least of several, in time of this process alone. What else has the
    processor would make points look longer than they are, and the sweep end before it is killed."""
    took = []
    for _ in range(8):
        began = time.process_time()
        here(repetitions, 1)
        took.append(time.process_time() - began)
    return min(took)


@pytest.mark.full("a kill of a simulation of seconds")
def test_a_sweep_goes_on_behind_its_checkpoint_when_its_worker_was_killed(stack: Stack) -> None:
    repetitions = max(50, int(50 * POINT_S / quickest(50)))
    execution = stack.begin(SWEEP, {"repetitions": repetitions, "axes": axes()})

    def checkpoints() -> list[Any]:
        found = stack.sql(
            "SELECT payload FROM event WHERE execution_id = :id AND type = 'task.checkpointed' ORDER BY "
            "version",
            id=int(execution),
        )
        return [json.loads(row[0]) for row in found]

    eventually(checkpoints, "the sweep to keep its first points", 120)
    stack.kill("pool")
    assert stack.row(execution).status not in ENDED
    stack.launch("pool", POOL)
    stack.await_ready("pool")
    stack.wait([execution], 240)

    result = stack.report(execution).result
    assert 0 < checkpoints()[0]["checkpoint"]["done"] < POINTS
    assert result["complete"] is True
    assert [point["histogram"] for point in result["points"]] == [
        point["histogram"] for point in here(repetitions)
    ]
    stack.check_log_of(execution)
