"""Tasks of kind quantum on a machine elsewhere, from their first call to their result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pytest

from noetl.errors import ToolError
from noetl.facts.outcome import Outcome
from noetl.pipeline.model import Call, Later, Where
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.session import Clocks
from noetl.quantum.tool import Quantum
from noetl.results import open_results
from noetl.tools.kit.base import Services

from .ionq import KEY, IonQServer
from .vendor import Clock

Run: TypeAlias = Callable[..., Any]


@pytest.fixture
def turned() -> str:
    import cirq
    import sympy

    q = cirq.LineQubit.range(2)
    t = sympy.Symbol("t")
    return cirq.to_json(cirq.Circuit(cirq.rx(t)(q[0]), cirq.CNOT(*q), cirq.measure(*q, key="m")))


@pytest.fixture
def tool(services: Services, tmp_path: Any, clock: Clock) -> Iterator[Quantum]:
    kept = replace(services, results=open_results(str(tmp_path / "results")))
    tool = Quantum(kept, Clocks(clock, clock.seconds))
    yield tool
    tool.close()


@pytest.fixture
def backend(ionq: IonQServer) -> dict[str, Any]:
    options = {"requests_per_minute": 100_000}
    return {"provider": "ionq", "auth": "main", "host": ionq.url, "options": options}


@pytest.fixture
def run(tool: Quantum, clock: Clock) -> Run:
    """Makes the calls of a task until it is done; the time between them passes at once."""
    return partial(_run, tool, clock)


def _run(tool: Quantum, clock: Clock, key: str = "k", **config: Any) -> Any:
    given = QuantumConfig.model_validate(config)
    call = Call("quantum", {}, {}, {}, Where("7", "s#1", "s", event="7.3"), "t", 1, key)
    while isinstance(came := tool.run(call, given), Later):
        clock.move(came.seconds)
        call = replace(call, checkpoint=json.loads(json.dumps(came.checkpoint)))
    assert isinstance(came, Outcome)
    json.dumps(came.result)
    return came.result


def test_a_sweep_is_a_job_for_each_point_and_comes_back_as_on_a_simulator(
    run: Run, ionq: IonQServer, backend: dict[str, Any], turned: str
) -> None:
    asked = {"cirq_json": turned, "params": {"product": {"t": [0, "pi"]}}, "repetitions": 100}

    result = run(**asked, backend=backend, observables=["Z0 Z1", "X0"])

    assert [point["histogram"] for point in result["points"]] == [{"00": 100}, {"11": 100}]
    assert [point["means"]["Z0 Z1"] for point in result["points"]] == [1.0, 1.0]
    assert len(result["job"]["ids"]) == len(ionq.jobs) == 6
    assert result["provenance"]["compiler"]["gateset"] == "ionq"
    assert result["complete"] is True
    assert {name: result["provenance"][name] for name in ("execution_id", "run_id", "event")} == {
        "execution_id": "7",
        "run_id": "s#1",
        "event": "7.3",
    }


def test_a_cost_that_is_too_high_sends_nothing_and_one_between_sends_what_it_pays_for(
    run: Run, ionq: IonQServer, backend: dict[str, Any], turned: str
) -> None:
    asked = {
        "cirq_json": turned,
        "params": {"product": {"t": [0, "pi", 1]}},
        "repetitions": 100,
        "backend": backend,
    }
    told = run(action="estimate", **asked)
    assert (told["points"], told["orders"]) == (3, 3)

    with pytest.raises(ToolError) as caught:
        run(**asked, limits={"max_cost": told["cost"] / 10})
    assert (caught.value.type, len(ionq.jobs)) == ("OverCost", 0)

    result = run(**asked, limits={"max_cost": told["cost"] * 0.7})
    assert (result["complete"], result["next"], len(ionq.jobs)) == (False, 2, 2)
    rest = run("other", **asked, resume=result)
    assert (rest["complete"], len(rest["points"]), len(ionq.jobs)) == (True, 3, 3)


def test_the_parts_of_a_run_are_tasks_of_their_own(
    run: Run, ionq: IonQServer, backend: dict[str, Any], turned: str
) -> None:
    asked = {"cirq_json": turned, "params": {"t": "pi"}, "repetitions": 100, "backend": backend}

    job = run("one", action="submit", **asked)
    polled = run("two", action="poll", job=job)
    result = run("three", action="fetch", job=job)

    assert (polled["status"], polled["ready"]) == ("done", True)
    assert result["histogram"] == {"11": 100}
    assert result["job"]["id"] == next(iter(job["job"]["jobs"].values()))["id"]
    assert len(ionq.jobs) == 1


def test_what_a_machine_measured_is_verified_without_a_second_job(
    run: Run, ionq: IonQServer, backend: dict[str, Any], turned: str
) -> None:
    result = run(cirq_json=turned, params={"t": "pi"}, repetitions=100, backend=backend)

    told = run("other", action="verify", of=result)

    assert (told["verified"], told["repeated"], len(ionq.jobs)) == (True, False, 1)


def test_no_secret_is_in_what_a_task_leaves(
    run: Run, ionq: IonQServer, backend: dict[str, Any], turned: str
) -> None:
    inline = {**backend, "auth": {"type": "bearer", "token": KEY}}
    result = run(cirq_json=turned, params={"t": "pi"}, backend=inline)

    assert KEY not in json.dumps(result)
