"""AQT by its API, against a mock of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cirq
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.quantum.backends.aqt import Aqt, _circuit
from noetl.quantum.backends.ports import MaybeSubmitted
from noetl.quantum.config.task import Backend
from noetl.quantum.jobs import machine as jobs
from noetl.quantum.jobs.ledger import samples_as_json, samples_from_json
from noetl.quantum.model import CircuitRun
from noetl.tools.kit.base import Services
from noetl.tools.kit.http.transport import HttpClient

from .aqt import TOKEN, AqtServer, in_range, rebuilt
from .ionq import serving
from .play import Play

A, B = cirq.LineQubit.range(2)
BELL = cirq.Circuit(cirq.Y(A) ** 0.5, cirq.XX(A, B) ** 0.5, cirq.measure(B, A, key="m"))


@pytest.fixture
def aqt() -> Iterator[AqtServer]:
    with serving(AqtServer) as server:
        yield server


@pytest.fixture
def backend(aqt: AqtServer, client: HttpClient, services: Services) -> Aqt:
    return opened(aqt, client, services)


def opened(aqt: AqtServer, client: HttpClient, services: Services, **options: object) -> Aqt:
    auth = {"type": "bearer", "token": TOKEN}
    given = {"provider": "aqt", "target": "default/simulator", "auth": auth, "host": aqt.url}
    options = {"requests_per_minute": 100_000, **options}
    return Aqt(Backend.model_validate({**given, "options": options}), services, client)


def order(circuit: cirq.Circuit, repetitions: int = 50) -> CircuitRun:
    return CircuitRun("p0", 0, circuit, repetitions, 1)


def test_a_job_yields_its_repetitions_one_by_one(aqt: AqtServer, backend: Aqt) -> None:
    made = order(cirq.Circuit(cirq.X(A), cirq.Z(B), cirq.measure(B, A, key="m", invert_mask=(True,))))
    job = backend.submit(made, "noetl-1")
    assert (job.status, aqt.jobs[job.id].label) == ("queued", "noetl-1")
    aqt.jobs[job.id].status = "ongoing"
    assert backend.poll(job.id).status == "running"
    aqt.jobs[job.id].status = "finished"
    samples = backend.fetch(job.id, made)
    assert samples.counts == {"11": 50}
    assert samples.bits is not None
    assert (samples.bits.shape, samples.bits.dtype) == ((50, 2), numpy.uint8)


@pytest.mark.parametrize(
    "shots",
    [[], [[0, 1]], [[0, 1], [0]], [[0, 0.5], [1, 1]], [["0", "1"], ["1", "1"]], [[0, 2], [1, 1]], [[0, -1], [1, 1]],
     [[True, False], [True, True]], [[0, 10**30], [1, 1]], [[0, None], [1, 1]], "01", {"0": 1}],
)  # fmt: skip
def test_a_result_that_is_not_bits_is_not_taken_for_some(aqt: AqtServer, backend: Aqt, shots: Any) -> None:
    made = order(BELL, 2)
    job = backend.submit(made, "noetl-1")
    aqt.jobs[job.id].status, aqt.jobs[job.id].shots = "finished", shots

    with pytest.raises(ToolError, match=f"the result of job {job.id}") as caught:
        backend.fetch(job.id, made)
    assert (caught.value.type, caught.value.retryable) == ("UnexpectedAnswer", True)


def test_samples_come_back_from_the_log_as_they_were(aqt: AqtServer, backend: Aqt) -> None:
    made = order(BELL)
    job = backend.submit(made, "noetl-1")
    aqt.jobs[job.id].status = "finished"
    samples = backend.fetch(job.id, made)
    again = samples_from_json(samples_as_json(samples), made)
    assert (again.measured, dict(again.counts)) == (samples.measured, dict(samples.counts))
    assert samples.bits is not None
    assert numpy.array_equal(again.bits, samples.bits)
    assert sum(samples.counts.values()) == 50


angles = st.floats(-4, 4) | st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0])


@given(theta=angles, phi=angles, turn=angles, xx=angles)
def test_any_angle_is_sent_within_the_ranges_of_the_api(
    theta: float, phi: float, turn: float, xx: float
) -> None:
    gates = [
        cirq.PhasedXPowGate(exponent=theta, phase_exponent=phi).on(A),
        cirq.Z(B) ** turn,
        cirq.XX(A, B) ** xx,
        cirq.X(B) ** phi,
        cirq.Y(A) ** xx,
    ]
    sent = _circuit(order(cirq.Circuit(gates, cirq.measure(A, B))))
    assert all(map(in_range, sent["quantum_circuit"]))
    wanted = cirq.unitary(cirq.Circuit(gates))
    came = rebuilt(sent).unitary(qubit_order=[A, B], qubits_that_should_be_present=[A, B])
    assert cirq.allclose_up_to_global_phase(came, wanted, atol=1e-6)


def test_a_whole_task_runs(aqt: AqtServer, backend: Aqt) -> None:
    play = Play(backend, lambda context: jobs.run(context, [order(BELL)]))
    play.step()
    play.step()
    play.step()
    (job,) = aqt.jobs.values()
    job.status = "finished"
    assert set(play.end().samples["p0"].counts) <= {"00", "01", "10", "11"}
    assert len(aqt.jobs) == 1


def test_an_answer_that_got_lost_is_not_sent_again_unless_the_author_would_rather_pay_twice(
    aqt: AqtServer, client: HttpClient, services: Services, backend: Aqt
) -> None:
    aqt.drop_next = True
    with pytest.raises(MaybeSubmitted):
        backend.submit(order(BELL), "noetl-1")
    error = Play(backend, lambda context: jobs.run(context, [order(BELL)])).fails()
    assert error.type == "UnknownSubmission"
    assert next(iter(list(aqt.jobs.values())[1:])).label in error.message
    bold = Play(
        opened(aqt, client, services, resubmit=True), lambda context: jobs.run(context, [order(BELL)])
    )
    bold.step()
    bold.step()
    assert len(aqt.jobs) == 3


@pytest.mark.parametrize(
    ("status", "said"), [("error", "failed: the trap is empty"), ("cancelled", "was cancelled")]
)
def test_a_job_that_came_to_nothing_says_why(aqt: AqtServer, backend: Aqt, status: str, said: str) -> None:
    play = Play(backend, lambda context: jobs.run(context, [order(BELL)]))
    play.step()
    play.step()
    next(iter(aqt.jobs.values())).status = status
    assert said in play.fails().message


def test_a_job_is_cancelled_once(aqt: AqtServer, backend: Aqt) -> None:
    job = backend.submit(order(BELL), "noetl-1")
    assert backend.cancel(job.id).status == "cancelled"
    assert backend.cancel(job.id).status == "cancelled"


@pytest.mark.parametrize(
    ("circuit", "error"),
    [
        (cirq.Circuit(cirq.H(A), cirq.measure(A)), "NotSerializable"),
        (cirq.Circuit(cirq.X(A)), "NoMeasurement"),
        (cirq.Circuit([cirq.X(A)] * 2000, cirq.measure(A)), "TooManyOperations"),
    ],
)
def test_a_circuit_that_aqt_cannot_run_is_refused_here(
    aqt: AqtServer, backend: Aqt, circuit: cirq.Circuit, error: str
) -> None:
    with pytest.raises(ToolError) as refused:
        backend.submit(order(circuit), "noetl-1")
    assert refused.value.type == error
    assert aqt.jobs == {}


def test_unknown_jobs_wrong_keys_and_wrong_targets_are_reported(
    aqt: AqtServer, client: HttpClient, services: Services, backend: Aqt
) -> None:
    with pytest.raises(ToolError, match="knows no job nobody"):
        backend.poll("nobody")
    stranger = {
        "provider": "aqt",
        "target": "default/simulator",
        "host": aqt.url,
        "auth": {"token": "other-token"},
    }
    with pytest.raises(ToolError) as refused:
        Aqt(Backend.model_validate(stranger), services, client).poll("x")
    assert (refused.value.kind, "Unauthorized" in refused.value.message) == ("auth", True)
    with pytest.raises(ToolError, match="workspace/resource"):
        Aqt(Backend.model_validate({**stranger, "target": "simulator"}), services, client)
