"""Limits: the rate of a token, and how much may wait before starts are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from noetl.api.rates import TokenRates
from noetl.errors import TooManyRequests
from noetl.testing import Simulation
from noetl.usecases.access import Principal
from noetl.usecases.start import StartRequest, start

from .conftest import Asking

HERE = "/api/executions"
START = {"path": "examples/doubling"}


@pytest.mark.usefixtures("time_stands_still")
def test_a_token_makes_no_more_requests_than_its_rate(ask_as: Asking) -> None:
    busy, calm = ask_as("read", principal="ada", rate="3/day"), ask_as("read", principal="ada")
    answers = [busy.get(HERE) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429, 429]
    refused = answers[-1]
    assert refused.json["type"] == "urn:noetl:problem:too-many-requests"
    assert "3/day" in refused.json["detail"]
    assert 1 <= int(refused.headers["Retry-After"]) <= 86_400
    # It is the token that is limited, not who has it.
    assert calm.get(HERE).status_code == 200


@pytest.mark.usefixtures("time_stands_still")
@pytest.mark.parametrize(("rate", "allowed"), [("2/hour", 2), ("4/12h", 4), ("5/0.5d", 5)])
def test_rates_are_counted_over_their_own_time(rate: str, allowed: int) -> None:
    rates, somebody = TokenRates(), Principal("ci", (), token_id="t", rate=rate)
    for _ in range(allowed):
        rates.count(somebody)
    with pytest.raises(TooManyRequests) as refused:
        rates.count(somebody)
    assert refused.value.retry_after_s >= 1


def test_who_has_no_rate_is_not_counted() -> None:
    rates = TokenRates()
    for _ in range(1000):
        rates.count(Principal("ci", (), token_id="t"))
        rates.count(Principal("anonymous", (), rate="1/day"))


def test_starts_are_refused_while_too_much_waits(make: Callable[..., Flask], sim: Simulation) -> None:
    client = make(backlog=2).test_client()
    batch = {"executions": [START]}
    assert [client.post(HERE, json=START).status_code for _ in range(4)] == [202, 202, 202, 429]
    sim.pass_time(2)
    for path, body in (
        (HERE, START),
        (f"{HERE}/batch", batch),
        ("/api/workflows/run", START),
        (HERE, {"playbook": "apiVersion: noetl.io/v2"}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 429
        assert int(refused.headers["Retry-After"]) >= 1
        assert "NOETL_BACKLOG" in refused.json["detail"]
    # What is there is looked at, steered and carried on, and other ways in stay open.
    assert client.get(HERE).status_code == 200
    assert start(sim.rt, StartRequest("examples/doubling")).existing is False
    sim.settle()
    sim.pass_time(2)
    assert client.post(HERE, json=START).status_code == 202


def test_without_a_bound_nothing_is_counted(make: Callable[..., Flask], sim: Simulation) -> None:
    client = make(backlog=0).test_client()
    assert {client.post(HERE, json=START).status_code for _ in range(5)} == {202}
