"""The page of an execution shows what it asks, and takes the answers of people."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.ui.kept_parts import say_now
from noetl.usecases import catalog, tokens
from noetl.usecases.access import ANYBODY
from noetl.usecases.open_approvals import open_in
from noetl.usecases.start import StartRequest, start

from .browsing import HOST, OWN, Page, sign_in

SIGNS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: signs, path: tests/signs}
workload: {by: [alice]}
workflow:
  - step: start
    tool:
      kind: wait
      approval:
        by: "{{ workload.by }}"
        message: "<script>alert(1)</script> Pay?"
        show: {"<b>": "</pre><img src=x>"}
        form:
          amount: {type: integer, min: 1, default: 3, description: "in <EUR>"}
          urgent: boolean
          kind: {enum: [a, 2], required: true}
          day: date
          note: {type: string, default: "it's \\"so\\""}
          items: {type: list, items: integer}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(SIGNS)


@pytest.fixture
def run(sim: Simulation) -> str:
    execution_id = sim.start()
    sim.settle()
    return execution_id


@pytest.fixture
def closed_client(closed: Flask) -> FlaskClient:
    return closed.test_client()


def as_whom(client: FlaskClient, sim: Simulation, principal: str, *scopes: str, **more: Any) -> str:
    """Signs in as somebody with a token of these scopes; the token."""
    text = tokens.create(sim.rt, principal, scopes, **more).text
    assert sign_in(client, text).status_code == 303
    return text


def look(client: FlaskClient, run: str) -> Any:
    return client.get(f"/executions/{run}")


def send(client: FlaskClient, run: str, fields: dict[str, str], headers: dict[str, str] | None = None) -> Any:
    return client.post(f"/executions/{run}", data=fields, headers=OWN if headers is None else headers)


def test_the_page_asks_and_takes_an_answer(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    as_whom(closed_client, sim, "alice", "approve")
    page = Page(look(closed_client, run).text)
    assert page.types == {
        "id": "hidden",
        "value.amount": "number",
        "value.urgent": "checkbox",
        "value.kind": "select",
        "value.day": "date",
        "value.note": "text",
        "value.items": "textarea",
        "reason": "text",
        "form_key": "hidden",
        "at": "range",
    }
    assert page.fields["value.note"] == 'it\'s "so"'
    typed = {"value.kind": "2", "value.items": "[1]", "value.urgent": "true", "reason": "fine"}
    answer = send(closed_client, run, {**page.fields, **typed, "answer": "approve"})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/executions/{run}")
    sim.settle()
    (found,) = sim.report(run).result["answers"]
    assert (found["by"], found["reason"]) == ("alice", "fine")
    assert found["values"] == {
        "amount": 3,
        "urgent": True,
        "kind": 2,
        "day": None,
        "note": 'it\'s "so"',
        "items": [1],
    }
    assert Page(look(closed_client, run).text).actions == ["/logout"]


def test_nothing_that_is_shown_becomes_a_part_of_the_page(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    as_whom(closed_client, sim, "alice", "approve")
    shown = look(closed_client, run)
    page = Page(shown.text)
    assert {"img", "b", "eur"}.isdisjoint(page.tags)
    assert "<script>alert" not in shown.text
    assert "<script>alert(1)</script> Pay?" in page.text
    assert "</pre><img src=x>" in page.text
    policy = shown.headers["Content-Security-Policy"]
    (nonce,) = set(re.findall(r'<script nonce="([^"]+)" src=', shown.text))
    assert f"script-src 'nonce-{nonce}';" in policy
    assert shown.text.count("<script") == shown.text.count(f'<script nonce="{nonce}" src=')
    assert "form-action 'self'" in policy
    assert shown.headers["Referrer-Policy"] == "same-origin", "or browsers say `Origin: null` of its own form"


def test_a_rejection_needs_no_form(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    as_whom(closed_client, sim, "alice", "approve")
    page = Page(look(closed_client, run).text)
    answer = send(closed_client, run, {**page.fields, "answer": "reject", "reason": "no"})
    assert answer.status_code == 303
    sim.settle()
    error = sim.report(run).row.error
    assert error is not None
    assert error["message"].startswith("alice rejected")


def test_what_is_wrong_is_said_and_what_was_typed_stays(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    token = as_whom(closed_client, sim, "alice", "approve")
    page = Page(look(closed_client, run).text)
    typed = {**page.fields, "reason": "because", "value.items": "[1"}
    answer = send(closed_client, run, {**typed, "answer": "approve"})
    again = Page(answer.text)
    assert answer.status_code == 422
    assert "items: is no JSON" in again.text
    assert "kind: is required" in again.text, "everything is said at once"
    assert again.fields == typed
    assert token not in answer.text
    cleared = send(closed_client, run, {**typed, "value.items": "", "value.amount": "", "answer": "approve"})
    assert "amount: is null, and must be a whole number" in Page(cleared.text).text
    assert "kind: is required" in Page(cleared.text).text
    nothing = send(closed_client, run, typed)
    assert (nothing.status_code, "choose Approve or Reject" in nothing.text) == (400, True)
    assert "approval.answered" not in sim.types(run)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"{HOST}.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
        {},
    ],
)
def test_a_page_from_elsewhere_answers_nothing(
    make: Callable[..., Flask], sim: Simulation, headers: dict[str, str]
) -> None:
    client = make(cors_origins=("https://evil.example",)).test_client()
    run = sim.start({"by": ["anybody"]})
    sim.settle()
    page = Page(look(client, run).text)
    answer = send(client, run, {**page.fields, "answer": "reject"}, headers)
    assert (answer.status_code, answer.json["type"]) == (403, "urn:noetl:problem:foreign-origin")
    sim.settle()
    assert sim.report(run).row.status == "waiting"


def test_a_form_that_no_page_has_shown_answers_nothing(
    make: Callable[..., Flask], sim: Simulation, run: str
) -> None:
    client = make().test_client()
    fields = {**Page(look(client, run).text).fields, "answer": "reject"}
    for forged in ({}, {"form_key": ""}, {"form_key": "x"}):
        sent = {**{name: text for name, text in fields.items() if name != "form_key"}, **forged}
        answer = send(client, run, sent)
        assert (answer.status_code, "The form is not one that this page has shown" in answer.text) == (
            400,
            True,
        )
    stranger = make().test_client()
    assert send(stranger, run, fields).status_code == 400, "the cookie is another browser's"
    sim.settle()
    assert sim.report(run).row.status == "waiting"


def test_only_a_form_is_read(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    token = as_whom(closed_client, sim, "alice", "approve")
    for data, kind in (
        ({"answer": "reject"}, "multipart/form-data"),
        ("{}", "application/json"),
        ("answer=reject", "text/plain"),
    ):
        answer = closed_client.post(f"/executions/{run}", data=data, content_type=kind, headers=OWN)
        assert answer.status_code == 415, kind
    bearer = {**OWN, "Authorization": f"Bearer {token}"}
    form = closed_client.post("/api/executions", data={"path": "tests/signs"}, headers=bearer)
    assert form.status_code == 415, "forms are for pages alone"


def test_a_password_or_header_that_a_browser_adds_answers_nothing(
    closed: Flask, closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    text = as_whom(closed_client, sim, "alice", "approve")
    fields = {**Page(look(closed_client, run).text).fields, "answer": "reject"}
    other = closed.test_client()
    password = base64.b64encode(f":{text}".encode()).decode()
    for scheme in (f"Basic {password}", f"Bearer {text}"):
        answer = send(other, run, fields, {**OWN, "Authorization": scheme})
        assert (answer.status_code, "sign in with a token" in answer.text) == (401, True)
    assert "approval.answered" not in sim.types(run)


def test_who_is_not_asked_is_told_so(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    as_whom(closed_client, sim, "dave", "approve")
    shown = Page(look(closed_client, run).text)
    assert "Step 'start' asks alice, and dave is not among them." in shown.text
    assert shown.actions == ["/logout"]
    (one,) = open_in(sim.rt, ANYBODY, run)
    sent = {**shown.fields, "id": one.id, "answer": "reject"}
    answer = send(closed_client, run, sent)
    assert (answer.status_code, "dave is not among them" in answer.text) == (403, True)
    as_whom(closed_client, sim, "eve", "read")
    assert "eve has no scope `approve`" in Page(look(closed_client, run).text).text
    assert send(closed_client, run, sent).status_code == 403


def test_each_is_told_about_oneself_though_all_heard_the_same(
    closed: Flask, sim: Simulation, run: str
) -> None:
    headers = {"HX-Request": "true", "News-At": say_now()}
    for who, is_asked in (("alice", True), ("dave", False), ("alice", True)):
        client = closed.test_client()
        as_whom(client, sim, who, "approve")
        told = client.get(f"/executions/{run}", headers=headers).text
        assert ("is not among them" in told) is not is_asked


def test_where_no_token_is_needed_one_can_sign_in(make: Callable[..., Flask], sim: Simulation) -> None:
    client, run = make().test_client(), sim.start()
    sim.settle()
    page = Page(look(client, run).text)
    assert "Where you are asked by your name" in page.text
    sent = {**page.fields, "answer": "reject"}
    assert "nobody knows who asks without a token" in send(client, run, sent).text
    as_whom(client, sim, "alice", "approve")
    assert send(client, run, sent).status_code == 303


def test_an_answer_to_what_was_decided_meanwhile_is_refused(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    as_whom(closed_client, sim, "alice", "approve")
    page = Page(look(closed_client, run).text)
    sent = {**page.fields, "value.kind": "2", "answer": "approve"}
    assert send(closed_client, run, sent).status_code == 303
    sim.settle()
    late = send(closed_client, run, {**sent, "answer": "reject"})
    assert (late.status_code, "has ended (completed)" in late.text) == (409, True)


def test_many_are_shown_in_part(make: Callable[..., Flask], sim: Simulation) -> None:
    loop = 'loop: {in: "{{ range(60) | list }}", iterator: n, spec: {mode: parallel, max_in_flight: 60}}'
    many = SIGNS.replace("  - step: start\n", f"  - step: start\n    {loop}\n").replace(
        "tests/signs", "tests/many"
    )
    catalog.register(sim.rt, many, "many.yaml")
    run = start(sim.rt, StartRequest("tests/many")).execution_id
    sim.settle()
    text = look(make().test_client(), run).text
    assert text.count('<form class="asking"') == 50
    assert "and 10 more" in text
