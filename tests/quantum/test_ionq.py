"""IonQ by its API, against a mock of it that simulates for real."""

from __future__ import annotations

import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import cirq
import pytest

from noetl.errors import ToolError
from noetl.quantum.backends.ionq import IonQ
from noetl.quantum.backends.limiter import Throttled
from noetl.quantum.backends.ports import MaybeSubmitted
from noetl.quantum.circuits.measurements import counts_of
from noetl.quantum.config.task import Backend
from noetl.quantum.model import CircuitRun
from noetl.tools.kit.base import Services
from noetl.tools.kit.call_secrets import open_secrets
from noetl.tools.kit.http.transport import HttpClient

from .ionq import CALIBRATION, KEY, IonQServer
from .orders import bell, call, sweep
from .vendor import Clock

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def of(ionq: IonQServer, services: Services, client: HttpClient, **more: object) -> IonQ:
    options = {"requests_per_minute": 100_000, **more.pop("options", {})}  # type: ignore[dict-item]
    given = {"provider": "ionq", "auth": "main", "host": ionq.url, "options": options, **more}
    return IonQ(Backend.model_validate(given), services, client)


def measured(circuit: cirq.Circuit, repetitions: int = 100) -> CircuitRun:
    return CircuitRun("p0", 0, circuit, repetitions, 1)


def ran(backend: IonQ, order: CircuitRun) -> dict[str, int]:
    job = backend.submit(order, "noetl-1")
    assert backend.poll(job.id).status == "done"
    return dict(backend.fetch(job.id, order).counts)


def test_a_job_that_ran_yields_counts_that_sum_to_its_repetitions(backend: IonQ) -> None:
    assert ran(backend, bell(repetitions=101)) == {"00": 51, "11": 50}


def test_bits_are_big_endian_in_the_order_of_the_keys(backend: IonQ) -> None:
    a, b, c = cirq.LineQubit.range(3)
    circuit = cirq.Circuit(
        cirq.X(a), cirq.I(b), cirq.X(c), cirq.measure(c, b, key="y"), cirq.measure(a, key="x")
    )
    order = measured(cirq.drop_negligible_operations(circuit), 10)
    assert ran(backend, order) == {"110": 10}
    samples = backend.fetch("job-0001", order)
    assert [(one.key, one.qubits) for one in samples.measured] == [("x", ("q(0)",)), ("y", ("q(2)", "q(1)"))]


def test_qubits_that_are_not_measured_do_not_show(backend: IonQ) -> None:
    a, b = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.H(a), cirq.X(b), cirq.measure(b, key="b"))
    assert ran(backend, measured(circuit, 8)) == {"1": 8}


def test_named_qubits_stand_on_the_line_in_their_order_and_inverted_bits_are_inverted(backend: IonQ) -> None:
    a, b = cirq.NamedQubit("a"), cirq.NamedQubit("b")
    circuit = cirq.Circuit(cirq.X(b), cirq.measure(b, a, key="m", invert_mask=(False, True)))
    circuit.insert(0, cirq.Z(a))
    assert ran(backend, measured(circuit, 5)) == {"11": 5}


@pytest.mark.parametrize(
    ("weights", "repetitions", "counts"),
    [
        ([("0", 0.5), ("1", 0.5)], 3, {"0": 2, "1": 1}),
        ([("00", 1 / 3), ("01", 1 / 3), ("10", 1 / 3)], 100, {"00": 34, "01": 33, "10": 33}),
        ([("0", 0.51), ("1", 0.49)], 1000, {"0": 510, "1": 490}),
        ([("1", 0.25), ("0", 0.5), ("1", 0.25)], 4, {"0": 2, "1": 2}),
        ([("0", 1.0), ("1", 0.0)], 7, {"0": 7}),
    ],
)
def test_counts_are_rounded_to_a_whole_that_is_right(
    weights: list[tuple[str, float]], repetitions: int, counts: dict[str, int]
) -> None:
    assert counts_of(weights, repetitions) == counts


def test_a_job_carries_its_token_and_what_cirq_reads_measurements_from(
    ionq: IonQServer, backend: IonQ
) -> None:
    backend.submit(bell(), "noetl-abc")
    body = ionq.jobs["job-0001"].body
    assert body["metadata"] == {"noetl": "noetl-abc", "measurement0": "m\x1f0,1", "shots": "100"}
    assert (body["backend"], body["shots"], body["type"]) == ("simulator", 100, "ionq.circuit.v1")


def test_metadata_never_has_more_than_ten_keys(ionq: IonQServer, backend: IonQ) -> None:
    qubits = cirq.LineQubit.range(9)
    keys = [cirq.measure(one, key=f"{one.x}-{'k' * 33}") for one in qubits]
    backend.submit(measured(cirq.Circuit(cirq.H.on_each(qubits), keys)), "noetl-abc")
    metadata = ionq.jobs["job-0001"].body["metadata"]
    assert len(metadata) == 10
    assert "shots" not in metadata


def test_jobs_are_found_by_their_tokens_on_whatever_page_the_oldest_first(
    ionq: IonQServer, backend: IonQ
) -> None:
    ionq.page = 3
    for number in range(8):
        backend.submit(bell(), "noetl-a" if number in (1, 6) else f"noetl-{number}")
    found = backend.find(["noetl-a", "noetl-3", "noetl-none"], LONG_AGO)
    assert {token: [job.id for job in jobs] for token, jobs in found.items()} == {
        "noetl-a": ["job-0002", "job-0007"],
        "noetl-3": ["job-0004"],
    }


def test_a_search_ends_where_jobs_are_older_than_the_task(
    ionq: IonQServer, backend: IonQ, clock: Clock
) -> None:
    ionq.page = 2
    for number in range(9):
        backend.submit(bell(), f"noetl-{number}")
    clock.move(3600)
    assert backend.find(["noetl-0"], clock() - timedelta(minutes=10)) == {}
    assert ionq.count("GET", "jobs") == 1


def test_many_jobs_are_looked_at_in_one_request(ionq: IonQServer, backend: IonQ) -> None:
    ids = [backend.submit(order, order.name).id for order in sweep(5)]
    assert {one: job.status for one, job in backend.look(ids).items()} == dict.fromkeys(ids, "done")
    assert ionq.count("GET", "jobs") == 1


def test_a_machine_tells_its_times_cost_and_calibration(
    ionq: IonQServer, services: Services, client: HttpClient, clock: Clock
) -> None:
    ionq.queue_s, ionq.run_s = 20, 7
    machine = of(ionq, services, client, target="qpu.forte-1")
    job = machine.submit(bell(), "noetl-1")
    clock.move(30)
    state = machine.poll(job.id)
    assert (state.status, state.cost, state.currency) == ("done", 1.5, "usd")
    assert state.calibration == {"id": CALIBRATION["id"], "at": CALIBRATION["date"]}
    assert (state.queue_s, state.run_s) == (20, 7)


def test_an_estimate_is_at_most_the_sum_and_asks_once_for_jobs_of_a_size(
    ionq: IonQServer, backend: IonQ
) -> None:
    estimate = backend.estimate(sweep(4))
    assert (estimate.cost, estimate.currency, estimate.queue_s) == (8.0, "usd", 90.0)
    assert ionq.count("GET", "jobs/estimate") == 1


def test_a_job_that_is_done_is_not_cancelled_which_would_lose_its_results(
    ionq: IonQServer, backend: IonQ
) -> None:
    job = backend.submit(bell(), "noetl-1")
    assert backend.cancel(job.id).status == "done"
    ionq.queue_s = 60
    waiting = backend.submit(bell(), "noetl-2")
    assert backend.cancel(waiting.id).status == "cancelled"


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        ("401", "auth", False),
        ("404", "client_error", False),
        ("422", "client_error", False),
        ("429", "rate_limit", True),
        ("500", "server_error", True),
        ("503", "server_error", True),
        ("garbage", "server_error", True),
        ("refuse", "connection", True),
    ],
)
def test_what_goes_wrong_is_reported_as_for_http_and_never_with_the_key(
    ionq: IonQServer,
    backend: IonQ,
    services: Services,
    client: HttpClient,
    fault: str,
    kind: str,
    retryable: bool,
) -> None:
    with open_secrets(call(), None):
        mine = of(ionq, services, client)
        job = mine.submit(bell(), "noetl-1")
        ionq.fail("GET", f"jobs/{job.id}", fault)
        with pytest.raises(ToolError) as refused:
            mine.poll(job.id)
    assert (refused.value.kind, refused.value.retryable) == (kind, retryable)
    assert KEY not in refused.value.message + str(refused.value.extras)


@pytest.mark.parametrize("fault", ["500", "502", "garbage", "refuse", "drop"])
def test_a_submission_whose_answer_never_came_may_have_made_a_job(
    ionq: IonQServer, backend: IonQ, fault: str
) -> None:
    ionq.fail("POST", "jobs", fault)
    with pytest.raises(MaybeSubmitted):
        backend.submit(bell(), "noetl-1")
    assert ionq.count("POST", "jobs") == 1
    assert len(ionq.jobs) == (fault == "drop")


@pytest.mark.parametrize("fault", ["401", "400", "429"])
def test_a_submission_that_was_refused_has_made_none(ionq: IonQServer, backend: IonQ, fault: str) -> None:
    ionq.fail("POST", "jobs", fault)
    with pytest.raises(ToolError) as refused:
        backend.submit(bell(), "noetl-1")
    assert not isinstance(refused.value, MaybeSubmitted)


def test_where_nobody_listens_no_job_was_made(services: Services, client: HttpClient) -> None:
    nowhere = Backend(provider="ionq", auth="main", host="http://127.0.0.1:9")
    with pytest.raises(ToolError) as refused:
        IonQ(nowhere, services, client).submit(bell(), "noetl-1")
    assert (refused.value.kind, isinstance(refused.value, MaybeSubmitted)) == ("connection", False)


def test_a_retry_after_holds_back_every_worker_of_the_machine(
    ionq: IonQServer, services: Services, client: HttpClient
) -> None:
    first, second = of(ionq, services, client), of(ionq, services, client)
    ionq.fail("POST", "jobs", "429")
    with pytest.raises(ToolError, match="slow down"):
        first.submit(bell(), "noetl-1")
    with pytest.raises(Throttled) as held:
        second.submit(bell(), "noetl-1")
    assert 2400 < held.value.seconds <= 3600


def test_one_request_of_the_bucket_is_enough_for_all_that_belongs_together(
    ionq: IonQServer, services: Services, client: HttpClient
) -> None:
    many = of(ionq, services, client, target="qpu.forte-1")
    ids = [many.submit(order, order.name).id for order in sweep(5)]
    ionq.page = 2
    waiting = many.submit(bell(), "waiting")
    ionq.jobs[waiting.id].at += 60
    for number, asked in enumerate(
        (
            lambda one: one.look(ids),
            lambda one: one.poll(ids[0]),
            lambda one: one.cancel(waiting.id),
            lambda one: one.find(["p0", "p4"], LONG_AGO),
            lambda one: one.estimate([bell(repetitions=times) for times in range(1, 5)]),
        )
    ):
        few = of(
            ionq,
            replace(services, scratch=services.scratch / str(number)),
            client,
            target="qpu.forte-1",
            options={"requests_per_minute": 0.001},
        )
        assert asked(few)
        with pytest.raises(Throttled):
            few.poll(ids[0])


@pytest.mark.parametrize(
    ("circuit", "error"),
    [
        (cirq.Circuit(cirq.H(cirq.q(0))), "NoMeasurement"),
        (cirq.Circuit(cirq.CCX(*cirq.LineQubit.range(3)), cirq.measure(cirq.q(0))), "NotSerializable"),
        (cirq.Circuit(cirq.measure(cirq.q(0), key="a"), cirq.X(cirq.q(0))), "MidCircuitMeasurement"),
        (cirq.Circuit(cirq.measure(cirq.q(0), key="a"), cirq.measure(cirq.q(1), key="a")), "KeyTwice"),
    ],
)
def test_a_circuit_that_ionq_cannot_run_is_refused_here(
    ionq: IonQServer, backend: IonQ, circuit: cirq.Circuit, error: str
) -> None:
    with pytest.raises(ToolError) as refused:
        backend.submit(measured(circuit), "noetl-1")
    assert (refused.value.kind, refused.value.type) == ("client_error", error)
    assert ionq.asked == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"auth": None}, "needs `auth`"),
        ({"auth": {"type": "bearer"}}, "give it a `token`"),
        ({"target": "forte"}, "no target 'forte'"),
        ({"options": {"setle_s": 1}}, "no option 'setle_s'"),
        ({"options": {"settle_s": "soon"}}, "must be a number"),
    ],
)
def test_a_backend_that_cannot_be_used_says_why(
    ionq: IonQServer, services: Services, client: HttpClient, given: dict[str, object], said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        of(ionq, services, client, **given)


def test_of_a_client_that_dies_within_a_request_the_mock_has_nothing(backend: IonQ, ionq: IonQServer) -> None:
    """Of the mock itself: clients send the head of a request and then its body, and may be killed
    between the two."""
    with socket.create_connection(ionq.server_address) as client:
        client.sendall(
            f"POST /v0.4/jobs HTTP/1.1\r\nauthorization: apiKey {KEY}\r\ncontent-length: 9\r\n\r\n".encode()
        )
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert ionq.jobs == {}
    assert backend.find(["noetl-1"], LONG_AGO) == {}
