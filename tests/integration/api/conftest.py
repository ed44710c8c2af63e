"""The API over a simulated runtime: real use cases, the store in memory, messages delivered on
demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from flask import Flask
from flask.testing import FlaskClient
from flask_openapi3.utils import run_validate_response

from noetl.api.app import create_app
from noetl.config import Settings
from noetl.testing import Simulation
from noetl.tools.secrets.vault import FernetVault, generate_key
from noetl.usecases import tokens

from .browsing import with_pages

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
def vault() -> FernetVault:
    return FernetVault(generate_key())


def as_documented(answer: Any, responses: dict[int, Any]) -> Any:
    """Holds every JSON answer of every test against the model that documents it, where there is
    one."""
    models = {status: model for status, model in responses.items() if isinstance(model, type)}
    return run_validate_response(answer, models)


@pytest.fixture
def make(sim: Simulation, vault: FernetVault) -> Callable[..., Flask]:
    """An application with other settings than the default ones."""

    def made(**settings: object) -> Flask:
        app = create_app(replace(sim.rt, encrypt=vault.encrypt), Settings(**settings))  # type: ignore[arg-type]
        app.validate_response = True  # type: ignore[attr-defined]
        app.validate_response_callback = as_documented  # type: ignore[attr-defined]
        return app

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
    return with_pages(make()).test_client()


@pytest.fixture
def closed(make: Callable[..., Flask]) -> Flask:
    """An application, with its pages, in which every request needs a token."""
    return with_pages(make(open=False))


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
