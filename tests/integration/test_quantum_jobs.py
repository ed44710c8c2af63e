"""Playbooks whose circuits run at IonQ, on a mock of its API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from noetl.facts.events import TaskAbandoned
from noetl.usecases import catalog, control, inspect
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.quantum.ionq import KEY, IonQServer, serving
from tests.waiting import until

from .conftest import Run

BELL = """
        qasm: |
          OPENQASM 2.0;
          include "qelib1.inc";
          qreg q[2];
          creg c[2];
          h q[0];
          cx q[0], q[1];
          measure q -> c;
        repetitions: 10"""

PARTS = f"""
workload: {{host: "", key: ""}}
workflow:
  - step: start
    tool:
      - name: submit
        kind: quantum
        action: submit
        backend: &ionq
          provider: ionq
          host: "{{{{ workload.host }}}}"
          auth: {{type: bearer, token: "{{{{ workload.key }}}}"}}
          options: {{settle_s: 0.2, requests_per_minute: 100000}}
{BELL}
      - {{name: poll, kind: quantum, action: poll, job: "{{{{ submit }}}}", backend: *ionq, polling: {{every: 0.05}}}}
      - {{name: fetch, kind: quantum, action: fetch, job: "{{{{ submit }}}}", backend: *ionq, polling: {{every: 0.05}}}}
      - {{name: cancel, kind: quantum, action: cancel, job: "{{{{ submit }}}}", backend: *ionq}}
"""


@pytest.fixture
def ionq() -> Iterator[IonQServer]:
    with serving() as server:
        server.queue_s = server.run_s = 0.1
        yield server


def ran(run: Run, ionq: IonQServer, body: str, **more: Any) -> dict[str, Any]:
    return run(body, host=ionq.url, key=KEY, **more)


def without_inputs(report: dict[str, Any]) -> dict[str, Any]:
    """The key is an input here that is not declared as a secret, and stands among them in the
    clear."""
    return {name: value for name, value in report.items() if name != "inputs"}


def test_the_parts_of_a_run_are_tasks_of_their_own(run: Run, ionq: IonQServer) -> None:
    report = ran(run, ionq, PARTS)
    assert report["status"] == "completed", report["error"]
    results = report["steps"]["start"]["result"]
    assert results["status"] == "done"
    (job,) = ionq.jobs.values()
    assert (job.fetched, ionq.status(job)) == (1, "completed")
    assert KEY not in str(without_inputs(report))


SWEEP = """
workload: {host: "", key: ""}
workflow:
  - step: start
    tool:
      kind: quantum
      backend:
        provider: ionq
        host: "{{ workload.host }}"
        auth: {type: bearer, token: "{{ workload.key }}"}
        options: {settle_s: 0.2, requests_per_minute: 100000}
      qasm: |
        OPENQASM 3.0;
        include "stdgates.inc";
        input float t;
        qubit q;
        rx(t) q;
      measure: true
      params: {list: [{t: 0}, {t: pi}, {t: pi/2}]}
      repetitions: 10
      polling: {every: 0.05}
"""


def test_a_sweep_is_a_job_for_each_point(run: Run, ionq: IonQServer) -> None:
    report = ran(run, ionq, SWEEP)
    assert report["status"] == "completed", report["error"]
    points = report["result"]["points"]
    assert [point["histogram"] for point in points] == [{"0": 10}, {"1": 10}, {"0": 5, "1": 5}]
    assert len(ionq.tokens()) == len(set(ionq.tokens())) == 3


def test_a_refusal_names_the_vendor_and_its_reason_without_the_key(run: Run, ionq: IonQServer) -> None:
    ionq.fail("POST", "jobs", "422")
    report = ran(run, ionq, SWEEP)
    assert (report["error"]["kind"], report["error"]["retryable"]) == ("client_error", False)
    assert "ionq refused" in report["error"]["message"]
    assert KEY not in str(without_inputs(report))


def test_a_cancelled_execution_cancels_its_jobs(rt: Runtime, ionq: IonQServer) -> None:
    ionq.queue_s = 3600
    playbook = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: left, path: tests/left}}\n{SWEEP}"
    row = catalog.register(rt, playbook, "left.yaml")
    execution_id = start(
        rt, StartRequest(row.path, row.version, {"host": ionq.url, "key": KEY}, {})
    ).execution_id
    until(lambda: len(ionq.jobs) == 3, "its jobs to be at the vendor")

    control.cancel(rt, execution_id)
    until(lambda: inspect.execution(rt, execution_id).status == "cancelled", "it to be cancelled")
    until(lambda: not inspect.has_to_notify(rt, execution_id), "its jobs to be cancelled")

    assert ionq.paid() == []
    last = inspect.events(rt, execution_id)[-1]
    assert (last.fact, last.draft.step) == (TaskAbandoned("task_0"), "start")
