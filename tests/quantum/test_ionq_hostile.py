"""IonQ and what stands before it answer as they should not: each has a clear end, and no job is
paid for twice."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import pytest
import urllib3

from noetl.errors import ToolError
from noetl.pipeline.model import Call, Later, Where
from noetl.quantum.backends.api import failed_before_sending
from noetl.quantum.backends.ionq import IonQ
from noetl.quantum.config.task import QuantumConfig
from noetl.quantum.session import Clocks
from noetl.quantum.tool import Quantum
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import open_secrets

from .ionq import KEY, IonQServer
from .orders import bell
from .vendor import Clock

TURNED = """
OPENQASM 3.0;
include "stdgates.inc";
input float t;
qubit q;
bit c;
rx(t) q;
c = measure q;
"""


@pytest.fixture
def tool(services: Services, clock: Clock) -> Iterator[Quantum]:
    tool = Quantum(services, Clocks(clock, clock.seconds))
    yield tool
    tool.close()


@pytest.fixture
def asked(ionq: IonQServer) -> dict[str, Any]:
    """A sweep of two points."""
    options = {"requests_per_minute": 100_000}
    return {
        "qasm": TURNED,
        "params": {"list": [{"t": 0}, {"t": "pi"}]},
        "repetitions": 10,
        "backend": {"provider": "ionq", "auth": "main", "host": ionq.url, "options": options},
    }


class Task:
    """A task whose calls are made one after the other: the waits that it asks for pass at once."""

    def __init__(self, tool: Quantum, clock: Clock, asked: dict[str, Any]) -> None:
        self.config = QuantumConfig.model_validate(asked)
        self.clock = clock
        self.call = Call("quantum", {}, {}, {}, Where("7", "s#1", "s"), "t", 1, "key")
        self.tool = tool

    def step(self) -> Any:
        with open_secrets(self.call, None):
            came = self.tool.run(self.call, self.config)
        if not isinstance(came, Later):
            return came.result
        self.call = replace(self.call, checkpoint=came.checkpoint)
        self.clock.move(came.seconds)
        return None

    def end(self, calls: int = 1000) -> Any:
        for _ in range(calls):
            if (result := self.step()) is not None:
                return result
        raise AssertionError(f"not done: {self.call.checkpoint}")


Begin: TypeAlias = Callable[[dict[str, Any]], Task]


@pytest.fixture
def begin(tool: Quantum, clock: Clock) -> Begin:
    return partial(Task, tool, clock)


RIGHT = [{"0": 10}, {"1": 10}]
ONCE = (
    "500",
    "garbage",
    "drop",
    *(
        pytest.param(one, marks=pytest.mark.full("its like is tried"))
        for one in ("502", "503", "truncated", "refuse", "busy")
    ),
)
PLACES = (("POST", "jobs"), ("GET", "jobs"), ("GET", "jobs/job-....?"), ("GET", ".*/results/.*"))


@pytest.mark.parametrize("fault", ONCE)
def test_whatever_goes_wrong_once_with_each_request_a_sweep_is_paid_once_and_comes_out_right(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any], fault: str
) -> None:
    for method, path in PLACES:
        ionq.fail(method, path, fault)
    result = begin(asked).end()
    assert [point["histogram"] for point in result["points"]] == RIGHT
    assert len(ionq.paid()) == len(set(ionq.tokens())) == 2
    assert not [left for left in ionq.faults if left[0] == "POST"]


@pytest.mark.parametrize("fault", ["301", "307"])
def test_a_redirect_of_a_submission_ends_the_task_at_once_and_names_where_it_points(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any], fault: str
) -> None:
    ionq.fail("POST", "jobs", fault)
    with pytest.raises(ToolError) as refused:
        begin(asked).end()
    assert "it points to https://elsewhere.example/v0.4/jobs; give that host" in refused.value.message
    assert (refused.value.retryable, ionq.jobs) == (False, {})


def test_a_redirect_that_may_say_that_a_job_is_made_is_looked_into(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any]
) -> None:
    ionq.fail("POST", "jobs", "302")
    begin(asked).end()
    assert (len(ionq.paid()), ionq.count("POST", "jobs")) == (2, 3)


@pytest.mark.parametrize(
    ("path", "how", "said"),
    [
        (
            "jobs",
            lambda said: {"jobs": [{**job, "status": "levitating"} for job in said["jobs"]]},
            "'levitating'",
        ),
        ("jobs", lambda said: {"jobs": ["job-0001"]}, "a list of jobs holds none"),
        ("jobs", lambda said: [], "a list of jobs holds none"),
        ("jobs", lambda said: {"jobs": [{**job, "id": None} for job in said["jobs"]]}, "a job has no id"),
        ("jobs/job-....", lambda said: {**said, "id": "job-9999"}, "it answered with job job-9999"),
        (".*/results/.*", lambda said: {}, "do not sum to 1"),
        (".*/results/.*", lambda said: {"0": 0.5, "1": 0.4}, "do not sum to 1"),
        (".*/results/.*", lambda said: {"0": 1.5, "1": -0.5}, "do not sum to 1"),
        (".*/results/.*", lambda said: {"2": 1.0}, "more qubits than it has"),
        (".*/results/.*", lambda said: {"-1": 1.0}, "more qubits than it has"),
        (".*/results/.*", lambda said: {"0": 10**400}, "no probabilities"),
        (".*/results/.*", lambda said: {"0": None}, "no probabilities"),
        (".*/results/.*", lambda said: [0.5, 0.5], "no probabilities"),
    ],
)
def test_answers_that_cannot_be_right_are_asked_for_again_and_their_error_says_what_is_wrong(
    backend: IonQ,
    begin: Begin,
    ionq: IonQServer,
    asked: dict[str, Any],
    path: str,
    how: Callable[[Any], Any],
    said: str,
) -> None:
    ionq.spoil("GET", path, how)
    one = {**asked, "params": {"t": 0}} if path == "jobs/job-...." else asked
    with pytest.raises(ToolError) as refused:
        begin(one).end()
    assert (refused.value.kind, refused.value.retryable) == ("server_error", True)
    assert said in refused.value.message
    assert len(ionq.paid()) == len(set(ionq.tokens()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("submitted_at", "0001-01-01T00:00:00+14:00"),
        ("started_at", "1999-01-01T00:00:00Z"),
        ("completed_at", {"a": 1}),
        ("execution_duration_ms", 10**400),
        ("execution_duration_ms", True),
        ("failure", {"code": ["x"], "message": 5}),
        ("metadata", 7),
    ],
)
def test_what_a_vendor_reports_of_a_job_in_a_wrong_form_is_left_out_and_costs_no_result(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any], key: str, value: Any
) -> None:
    ionq.spoil("GET", "jobs", lambda said: {**said, "jobs": [{**job, key: value} for job in said["jobs"]]})
    result = begin(asked).end()
    assert [point["histogram"] for point in result["points"]] == RIGHT
    assert (result["job"]["queue_s"] or 0.0) >= 0.0


def test_a_machine_that_tells_neither_cost_nor_calibration_loses_no_result(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any]
) -> None:
    ionq.fail("GET", "jobs/.*/cost", "404", "404")
    ionq.spoil("GET", "backends/.*", lambda _: {"characterizations": 5})
    result = begin({**asked, "backend": {**asked["backend"], "target": "qpu.forte-1"}}).end()
    assert [point["histogram"] for point in result["points"]] == RIGHT
    assert (result["job"]["cost"], result["provenance"]["calibration"]) == (None, None)


def test_a_job_that_is_cancelled_on_the_vendors_page_ends_the_task_and_its_others(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any], clock: Clock
) -> None:
    ionq.queue_s = 60
    task = begin(asked)
    while len(ionq.jobs) < 2:
        task.step()
    ionq.jobs["job-0001"].cancelled_at = clock.seconds()
    with pytest.raises(ToolError) as refused:
        task.end()
    assert refused.value.type == "JobCancelled"
    assert "job-0001" in refused.value.message
    assert ionq.paid() == []


def test_a_token_that_is_revoked_in_between_names_the_jobs_and_never_the_token(
    begin: Begin, ionq: IonQServer, asked: dict[str, Any]
) -> None:
    ionq.queue_s = 60
    task = begin(asked)
    while len(ionq.jobs) < 2:
        task.step()
    ionq.fail("GET", "jobs", "401")
    with pytest.raises(ToolError) as refused:
        task.end()
    assert refused.value.kind == "auth"
    assert "job-0001, job-0002 of this task go on" in refused.value.message
    assert KEY not in refused.value.message + str(refused.value.extras)


def test_a_cancellation_takes_two_requests(ionq: IonQServer, backend: IonQ) -> None:
    ionq.queue_s = 60
    job = backend.submit(bell(), "noetl-1")
    known = len(ionq.asked)
    assert backend.cancel(job.id).status == "cancelled"
    assert len(ionq.asked) - known == 2


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("CERTIFICATE_VERIFY_FAILED", True),
        ("WRONG_VERSION_NUMBER", True),
        ("BAD_RECORD_MAC", False),
        ("PROTOCOL_IS_SHUTDOWN", False),
    ],
)
def test_a_connection_that_broke_with_an_error_of_tls_may_have_taken_a_job(reason: str, never: bool) -> None:
    cause = ssl.SSLError(1, f"[SSL: {reason}] said OpenSSL")
    cause.reason = reason
    error = ToolError("connection", "No secure connection.")
    error.__cause__ = urllib3.exceptions.SSLError(cause)
    assert failed_before_sending(error) is never


@pytest.mark.parametrize(
    "job",
    [
        {"task": {}, "points": 1, "stopped": None, "jobs": {"p0": {"state": "done"}}},
        {"task": {}, "points": 1, "stopped": None, "jobs": {"p0": {"id": "x", "status": "asleep"}}},
        {"task": {}, "points": "all", "stopped": None, "jobs": {}},
        {"task": {}, "points": 1, "jobs": ["job-0001"]},
        "job-0001",
    ],
)
def test_a_job_that_somebody_wrote_by_hand_learns_what_it_should_be(
    begin: Begin, asked: dict[str, Any], job: Any
) -> None:
    for action in ("poll", "fetch", "cancel"):
        with pytest.raises(ToolError) as refused:
            begin({"action": action, "job": job, "backend": asked["backend"]}).end()
        assert (refused.value.kind, refused.value.type) == ("client_error", "NotAJob")
