"""What a start asks of the database: each statement more is one that every client waits for."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl import bootstrap
from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.store import open_store
from noetl.store.migrate import upgrade
from noetl.store.records import SqlNets
from noetl.store.sql import SqlStore
from noetl.usecases import backlog
from tests.contract.given import meet_at
from tests.statements import listen

from .lending import Lend

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: one, path: starts/one, ownr: me}
workload: {n: 2}
workflow:
  - {step: one, tool: {kind: noop, input: {n: "{{ n }}"}, nots: x}}
"""
#: Who come at once.
CLIENTS = 4
BODY = {"path": "starts/one", "payload": {"n": 1, "unread": 2}}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    if request.param == "sqlite":
        return Settings(home=tmp_path)
    return Settings(home=tmp_path, database_url=request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(settings: Settings) -> Iterator[SqlStore]:
    settings.make_home()
    upgrade(settings.database)
    opened = open_store(settings.database)
    yield opened
    opened.close()


@pytest.fixture
def client(settings: Settings, store: SqlStore, lend: Lend) -> Iterator[FlaskClient]:
    """Of a server that has started an execution before: what there is to learn is known."""
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings), store=store)
    with lend(rt, settings).test_client() as opened:
        assert opened.post("/api/catalog", json={"content": PLAYBOOK}).status_code == 201
        assert opened.post("/api/executions", json=BODY).status_code == 202
        yield opened


def test_a_start_is_one_transaction_of_five_statements(
    client: FlaskClient, store: SqlStore, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow machine takes longer to come here than a count of what waits is good for.
    monkeypatch.setattr(backlog, "KEEP", timedelta.max)
    begun: list[str] = []
    for name in ("begin", "read"):
        monkeypatch.setattr(store, name, _counted(getattr(store, name), name, begun))
    said = listen(store)

    answer = client.post("/api/executions", json=BODY)

    assert answer.status_code == 202
    assert begun == ["begin"]
    words = [one.split()[0] for one in said]
    changes = [word for word in words if word not in ("PRAGMA", "BEGIN", "COMMIT")]
    assert settings.database_url or changes == ["SELECT", "INSERT", "UPDATE", "INSERT", "INSERT"]


def test_a_new_text_is_taken_of_all_who_send_it_at_once(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(name: str, path: str, body: str, key: str | None = None) -> list[JsonMap]:
        """The answers to clients that send a playbook of that name, all at once."""
        text = PLAYBOOK.replace("starts/one", name)
        headers = {} if key is None else {"Idempotency-Key": key}

        def ask(_: int) -> JsonMap:
            answer = client.application.test_client().post(path, json={body: text}, headers=headers)
            assert answer.status_code in (200, 201, 202), answer.text
            found: JsonMap = answer.get_json()
            return found

        with monkeypatch.context() as meeting, ThreadPoolExecutor(CLIENTS) as pool:
            meet_at(meeting, SqlNets, CLIENTS)
            return list(pool.map(ask, range(CLIENTS)))

    started = send("starts/new", "/api/executions", "playbook")
    assert len({one["execution_id"] for one in started}) == CLIENTS
    again = send("starts/newer", "/api/executions", "playbook", key="one")
    assert len({one["execution_id"] for one in again}) == 1
    assert [one["version"] for one in send("starts/newest", "/api/catalog", "content")] == [1] * CLIENTS


def _counted(opening: Any, name: str, begun: list[str]) -> Any:
    def counted(*args: Any) -> Any:
        begun.append(name)
        return opening(*args)

    return counted


def test_each_item_of_a_batch_is_answered_with_the_warnings_of_a_start(client: FlaskClient) -> None:
    alone = client.post("/api/executions", json=BODY).json["warnings"]

    batch = client.post("/api/executions/batch", json={"executions": [BODY, {**BODY, "payload": {}}]}).json

    given, without = (item["warnings"] for item in batch["executions"])
    assert given == alone
    assert {warning["source"] for warning in alone} == {"playbook", "run"}
    assert without == [warning for warning in alone if warning["source"] == "playbook"]
