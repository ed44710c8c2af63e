"""The page of an execution shows what it asks, and takes the answers of people."""

from __future__ import annotations

import base64
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.ui.pages import blueprint
from noetl.usecases import catalog, tokens
from noetl.usecases.access import ANYBODY
from noetl.usecases.open_approvals import open_in
from noetl.usecases.start import StartRequest, start
from noetl.wsgi import find_visitor

HOST = "http://localhost"
OWN = {"Origin": HOST}
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


class Page(HTMLParser):
    """The fields of the form that a browser would send, and the texts of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.tags: list[str] = []
        self.text = ""
        self._area = self._select = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        name = of.get("name", "")
        if tag == "input":
            self.types[name] = of.get("type", "text")
            if of.get("type") != "checkbox" or "checked" in of:
                self.fields[name] = of.get("value", "")
        elif tag == "textarea":
            self._area, self.types[name], self.fields[name] = name, "textarea", ""
        elif tag == "select":
            self._select, self.types[name] = name, "select"
        elif tag == "option" and (self._select not in self.fields or "selected" in of):
            self.fields[self._select] = of["value"]

    def handle_endtag(self, tag: str) -> None:
        self._area = "" if tag == "textarea" else self._area

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._area:
            # Browsers leave out the line break behind the tag.
            self.fields[self._area] += data.removeprefix("\n")


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


def with_password(sim: Simulation, principal: str, *scopes: str, **more: Any) -> tuple[str, dict[str, str]]:
    """A token, and the header that a browser sends once it was asked for a password."""
    text = tokens.create(sim.rt, principal, scopes, **more).text
    return text, {"Authorization": f"Basic {base64.b64encode(f':{text}'.encode()).decode()}"}


def look(client: FlaskClient, run: str, headers: dict[str, str] | None = None) -> Any:
    return client.get(f"/executions/{run}", headers=headers)


def send(client: FlaskClient, run: str, fields: dict[str, str], headers: dict[str, str] | None = None) -> Any:
    return client.post(f"/executions/{run}", data=fields, headers=OWN if headers is None else headers)


def test_the_page_asks_and_takes_an_answer(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    text, password = with_password(sim, "alice", "approve")
    shown = look(closed_client, run, password)
    page = Page(shown.text)
    assert page.types == {
        "id": "hidden",
        "value.amount": "number",
        "value.urgent": "checkbox",
        "value.kind": "select",
        "value.day": "date",
        "value.note": "text",
        "value.items": "textarea",
        "reason": "text",
        "token": "password",
    }
    assert page.fields["value.note"] == 'it\'s "so"'
    typed = {"value.kind": "2", "value.items": "[1]", "value.urgent": "true", "reason": "fine", "token": text}
    answer = send(closed_client, run, {**page.fields, **typed, "answer": "approve"}, {**OWN, **password})
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
    assert "form" not in Page(look(closed_client, run, password).text).tags


def test_nothing_that_is_shown_becomes_a_part_of_the_page(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    shown = look(closed_client, run, with_password(sim, "alice", "approve")[1])
    page = Page(shown.text)
    assert {"script", "img", "b", "eur"}.isdisjoint(page.tags)
    assert "<script>alert(1)</script> Pay?" in page.text
    assert "</pre><img src=x>" in page.text
    policy = shown.headers["Content-Security-Policy"]
    assert "script-src 'none'" in policy
    assert "form-action 'self'" in policy
    assert shown.headers["Referrer-Policy"] == "same-origin", "or browsers say `Origin: null` of its own form"


def test_a_rejection_needs_no_form(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    text, password = with_password(sim, "alice", "approve")
    page = Page(look(closed_client, run, password).text)
    answer = send(closed_client, run, {**page.fields, "token": text, "answer": "reject", "reason": "no"})
    assert answer.status_code == 303
    sim.settle()
    error = sim.report(run).row.error
    assert error is not None
    assert error["message"].startswith("alice rejected")


def test_what_is_wrong_is_said_and_what_was_typed_stays(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    text, password = with_password(sim, "alice", "approve")
    page = Page(look(closed_client, run, password).text)
    typed = {**page.fields, "token": text, "reason": "because", "value.items": "[1"}
    answer = send(closed_client, run, {**typed, "answer": "approve"})
    again = Page(answer.text)
    assert answer.status_code == 400
    assert "items: is no JSON" in again.text
    assert {**again.fields, "token": text} == typed
    assert text not in answer.text
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
    app = make(cors_origins=("https://evil.example",))
    app.register_blueprint(blueprint(sim.rt, 5555, visitor=find_visitor))
    run = sim.start({"by": ["anybody"]})
    sim.settle()
    (one,) = open_in(sim.rt, ANYBODY, run)
    answer = send(app.test_client(), run, {"id": one.id, "answer": "reject"}, headers)
    assert (answer.status_code, answer.json["type"]) == (403, "urn:noetl:problem:foreign-origin")
    sim.settle()
    assert sim.report(run).row.status == "waiting"


def test_only_a_form_is_read(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    text, _ = with_password(sim, "alice", "approve")
    for data, kind in (
        ({"token": text, "answer": "reject"}, "multipart/form-data"),
        ("{}", "application/json"),
        (f"token={text}&answer=reject", "text/plain"),
    ):
        answer = closed_client.post(f"/executions/{run}", data=data, content_type=kind, headers=OWN)
        # What is no form has no token either.
        assert answer.status_code == (415 if kind.startswith("multipart") else 401), kind
    bearer = {**OWN, "Authorization": f"Bearer {text}"}
    form = closed_client.post("/api/executions", data={"path": "tests/signs"}, headers=bearer)
    assert form.status_code == 415, "forms are for that page alone"


def test_the_password_that_a_browser_remembers_answers_nothing(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    _, password = with_password(sim, "alice", "approve")
    page = Page(look(closed_client, run, password).text)
    answer = send(closed_client, run, {**page.fields, "answer": "reject"}, {**OWN, **password})
    assert (answer.status_code, answer.json["detail"]) == (
        401,
        "This server wants to know who answers: put your token into the form.",
    )
    assert "Basic" not in str(answer.headers.getlist("WWW-Authenticate"))
    wrong = send(closed_client, run, {**page.fields, "token": "noetl_x_y", "answer": "reject"})
    assert wrong.status_code == 401


def test_who_is_not_asked_is_told_so(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    text, password = with_password(sim, "dave", "approve")
    shown = Page(look(closed_client, run, password).text)
    assert "Step 'start' asks alice, and dave is not among them." in shown.text
    assert "form" not in shown.tags
    (one,) = open_in(sim.rt, ANYBODY, run)
    answer = send(closed_client, run, {"id": one.id, "token": text, "answer": "reject"})
    assert (answer.status_code, "dave is not among them" in answer.text) == (403, True)
    lacking, password = with_password(sim, "eve", "read")
    assert "eve has no scope `approve`" in Page(look(closed_client, run, password).text).text
    assert send(closed_client, run, {"id": one.id, "token": lacking, "answer": "reject"}).status_code == 403


def test_where_no_token_is_needed_one_can_be_given(make: Callable[..., Flask], sim: Simulation) -> None:
    app = make()
    app.register_blueprint(blueprint(sim.rt, 5555, visitor=find_visitor))
    client, run = app.test_client(), sim.start()
    sim.settle()
    page = Page(look(client, run).text)
    assert "where you are asked by your name" in page.text
    sent = {**page.fields, "answer": "reject"}
    assert "nobody knows who asks without a token" in send(client, run, sent).text
    text, _ = with_password(sim, "alice", "approve")
    assert send(client, run, {**sent, "token": text}).status_code == 303


def test_an_answer_to_what_was_decided_meanwhile_is_refused(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    text, password = with_password(sim, "alice", "approve")
    page = Page(look(closed_client, run, password).text)
    sent = {**page.fields, "token": text, "value.kind": "2", "answer": "approve"}
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
    app = make()
    app.register_blueprint(blueprint(sim.rt, 5555, visitor=find_visitor))
    run = start(sim.rt, StartRequest("tests/many")).execution_id
    sim.settle()
    text = look(app.test_client(), run).text
    assert text.count("<form ") == 50
    assert "and 10 more" in text
