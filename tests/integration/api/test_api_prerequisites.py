"""What a playbook names and that is not there, over REST: no execution, and all of it in the
answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from noetl.client import core
from noetl.config import Settings
from noetl.errors import PrerequisitesMissing
from noetl.testing import Simulation
from noetl.tools.kit.registry import kinds

from .lending import Lend

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, path: shop/load}
workflow:
  - step: start
    tool: {kind: postgres, auth: shop_bd, command: "select 1"}
    next: {arcs: [{step: sub, when: "{{ event.name == 'call.error' }}"}]}
  - {step: sub, tool: {kind: playbook, path: shop/none}}
"""
PLAIN = (
    TEXT.replace("shop/load", "shop/plain").replace("shop_bd", "shop_db").replace("shop/none", "shop/load")
)


@pytest.fixture
def client(lend: Lend) -> Iterator[FlaskClient]:
    sim = Simulation(TEXT, kinds=kinds())
    with lend(replace(sim.rt, checks_prerequisites=True), Settings()).test_client() as opened:
        credential = {"name": "shop_db", "type": "generic", "data": {"a": 1}}
        assert opened.post("/api/credentials", json=credential).status_code == 201
        assert opened.post("/api/catalog", json={"content": PLAIN}).status_code == 201
        yield opened


def test_all_that_is_missing_is_one_problem(client: FlaskClient) -> None:
    answer = client.post("/api/executions", json={"path": "shop/load"})
    assert (answer.status_code, answer.mimetype) == (422, "application/problem+json")
    assert answer.json["type"] == "urn:noetl:problem:prerequisites-missing"
    credential, playbook = answer.json["missing"]
    assert credential == {
        "kind": "credential",
        "name": "shop_bd",
        "version": None,
        "step": "start",
        "entry": None,
        "file": "test.yaml",
        "line": 6,
        "column": TEXT.splitlines()[5].index("shop_bd") + 1,
        "message": "There is no credential 'shop_bd'. Did you mean 'shop_db'?",
    }
    assert (playbook["name"], playbook["line"]) == ("shop/none", 8)
    assert all(one["message"] in answer.json["detail"] for one in answer.json["missing"])
    assert client.get("/api/executions").json["executions"] == []
    assert isinstance(core.make_error(422, answer.json), PrerequisitesMissing)


def test_one_of_a_batch_spoils_no_other(client: FlaskClient) -> None:
    items = [{"path": "shop/load"}, {"path": "shop/plain"}]
    answer = client.post("/api/executions/batch", json={"executions": items})
    assert [one["status"] for one in answer.json["executions"]] == [422, 202]
    assert len(answer.json["executions"][0]["problem"]["missing"]) == 2
