"""The API over a simulated runtime: real use cases, the store in memory, messages delivered on
demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.config import Settings
from noetl.testing import Simulation
from noetl.tools.secrets.vault import FernetVault, generate_key
from noetl.usecases import tokens

from .lending import Lend, Lending
from .watched import Watching

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: doubling, path: examples/doubling, description: Doubles a number}
workload: {n: 2}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'double': n * 2}", input: {n: "{{ n }}"}}
    set: {ctx.total: "{{ result.double }}"}
    next: {arcs: [{step: gate}]}
  - step: gate
    spec:
      policy:
        admit:
          rules:
            - {when: "{{ not wait_for_go or ctx.go }}", then: {allow: true}}
            - {else: {then: {allow: false}}}
    tool: {kind: noop, input: {total: "{{ ctx.total }}"}}
"""


@pytest.fixture
def text() -> str:
    """The playbook of these tests: it doubles `n`, and stops at a gate where it is told to."""
    return PLAYBOOK


@pytest.fixture
def sim() -> Simulation:
    return Simulation(PLAYBOOK)


@pytest.fixture
def watching(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """Whoever waits for an execution of this simulation."""
    found = Watching(sim.rt.store, monkeypatch)
    yield found
    found.end()


@pytest.fixture
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what counts calls by the minute or the day: a slow machine passes from one into the
    next."""
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)


@pytest.fixture
def vault() -> FernetVault:
    return FernetVault(generate_key())


@pytest.fixture(scope="session")
def lending() -> Lending:
    return Lending()


@pytest.fixture
def lend(lending: Lending) -> Iterator[Lend]:
    """`lend(rt, settings)`: an application, with its pages, for as long as the test runs."""
    yield lending.borrow
    lending.take_back()


@pytest.fixture
def make(sim: Simulation, vault: FernetVault, lend: Lend) -> Callable[..., Flask]:
    """An application with other settings than the default ones."""

    def made(**settings: object) -> Flask:
        return lend(replace(sim.rt, encrypt=vault.encrypt), Settings(**settings))  # type: ignore[arg-type]

    return made


@pytest.fixture
def client(make: Callable[..., Flask]) -> Iterator[FlaskClient]:
    with make().test_client() as opened:
        yield opened


@pytest.fixture
def started(client: FlaskClient) -> Callable[..., str]:
    """Starts an execution of the playbook over the API; returns its id."""

    def start(**payload: object) -> str:
        answer = client.post("/api/executions", json={"path": "examples/doubling", "payload": payload})
        assert answer.status_code == 202, answer.json
        return str(answer.json["execution_id"])

    return start


class Asking(Protocol):
    """Who asks with a token of its own."""

    def __call__(self, *scopes: str, principal: str = "ci", **more: Any) -> FlaskClient: ...


@pytest.fixture
def browser(make: Callable[..., Flask]) -> FlaskClient:
    """Whoever looks at pages where no token is needed, without scripts."""
    return make().test_client()


@pytest.fixture
def closed(make: Callable[..., Flask]) -> Flask:
    """An application, with its pages, in which every request needs a token."""
    return make(open=False)


def with_token(client: FlaskClient, text: str) -> FlaskClient:
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    return client


@pytest.fixture
def ask_as(closed: Flask, sim: Simulation) -> Asking:
    """Somebody whose token has these scopes."""

    def ask(*scopes: str, principal: str = "ci", **more: Any) -> FlaskClient:
        made = tokens.create(sim.rt, principal, scopes, **more)
        return with_token(closed.test_client(), made.text)

    return ask
