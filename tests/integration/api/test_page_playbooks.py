"""The page of playbooks, the page of one of them, and the form that starts it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
import yaml
from flask import Flask
from flask.testing import FlaskClient

from noetl.facts.callers import Caller
from noetl.testing import Simulation
from noetl.ui.playbook.runs import MOST
from noetl.usecases import catalog, inspect, moment, tokens
from noetl.usecases.start import StartRequest, start

from .browsing import OWN, Page, sign_in
from .conftest import Asking

ORDERS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: Orders, path: etl/orders, description: "Loads <b>orders</b>", labels: {team: data}}
inputs:
  day: {type: date, required: true, description: "The day that is <i>loaded</i>"}
  limit: {type: integer, default: 100, min: 1, max: 1000}
  mode: {type: string, enum: [full, delta], default: delta}
  token: {type: string, secret: true, min_length: 4}
  options: {type: object, default: {deep: [1]}}
  dry: {type: boolean, default: true}
  since: {type: string, default: "{{ day }}"}
workflow:
  - step: fetch
    tool: {kind: noop}
    next: {arcs: [{step: odd, when: "{{ workload.limit == 13 }}"}, {step: load}]}
  - step: load
    tool: {kind: noop}
  - step: odd
    tool: {kind: python, code: "raise ValueError('13')"}
"""
NEXT = ORDERS.replace(
    "- step: load\n    tool: {kind: noop}", "- step: load\n    tool: {kind: python, code: result = 2}"
)
NEWER = NEXT.replace("  - step: odd\n", "  - step: later\n    tool: {kind: noop}\n  - step: odd\n")
DAY = {"day": "2026-03-01"}


@pytest.fixture
def orders(sim: Simulation) -> list[str]:
    """Three executions of the first version, the last of which fails, and one of the second."""
    catalog.register(sim.rt, ORDERS)
    found = [run(sim, {**DAY, "limit": 13 if last else 5}) for last in (False, False, True)]
    catalog.register(sim.rt, NEXT)
    sim.settle()
    return [*found, run(sim, DAY)]


def run(sim: Simulation, payload: dict[str, Any], path: str = "etl/orders") -> str:
    begun = start(sim.rt, StartRequest(path, payload=payload)).execution_id
    sim.settle()
    return begun


def listed(browser: FlaskClient, **query: str) -> list[str]:
    answer = browser.get("/playbooks", query_string=query)
    assert answer.status_code == 200, Page(answer.text).text
    return [unescape(one) for one in re.findall(r'<a class="main" href="/playbooks/([^"]+)"', answer.text)]


# --- the list -------------------------------------------------------------------------------------


def test_playbooks_are_listed_with_what_became_of_them(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    start(sim.rt, StartRequest("etl/orders", payload=DAY))
    assert listed(browser) == ["etl/orders", "examples/doubling"]
    text = browser.get("/playbooks").text
    assert "Loads &lt;b&gt;orders&lt;/b&gt;" in text
    assert "team=data" in text
    row = text[text.index("etl/orders") : text.index("examples/doubling")]
    shown = re.findall(r'<a class="(\w+)" href="/executions/(\d+)" title="([^"]+)"', row)
    assert [one[:2] for one in shown[:-1]] == [
        ("completed", orders[0]),
        ("completed", orders[1]),
        ("failed", orders[2]),
        ("completed", orders[3]),
    ], "the newest stands at the right"
    assert shown[2][2].startswith("failed, duration ")
    assert shown[-1][0] == "pending"
    (link,) = re.findall(r'href="(/\?status=[^"]+)" aria-label="1 open execution of etl/orders"', row)
    assert len(re.findall(r'<tr id="x', browser.get(unescape(link)).text)) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ORD", ["etl/orders"]),
        ("doubles a", ["examples/doubling"]),
        ("<b>", ["etl/orders"]),
        ("e", ["etl/orders", "examples/doubling"]),
        ("nothing of the kind", []),
    ],
)
def test_a_text_finds_playbooks(browser: FlaskClient, orders: list[str], text: str, found: list[str]) -> None:
    assert listed(browser, q=text) == found
    assert Page(browser.get("/playbooks", query_string={"q": text}).text).fields["q"] == text


def test_pages_hold_each_playbook_once(browser: FlaskClient, sim: Simulation) -> None:
    paths = [f"many/p{number:03}" for number in range(205)]
    for path in paths:
        catalog.register(
            sim.rt, f"metadata: {{path: {path}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]"
        )
    found, links = list[str](), ["/playbooks?q=many"]
    while links:
        text = browser.get(links[-1]).text
        found += re.findall(r'<a class="main" href="/playbooks/([^"]+)"', text)
        links = [unescape(one) for one in re.findall(r'rel="next" href="([^"]+)"', text)]
    assert found == paths


def test_who_may_see_some_playbooks_sees_these(ask_as: Asking, orders: list[str]) -> None:
    ci = ask_as("read:examples/*")
    assert listed(ci) == ["examples/doubling"]
    assert "1 playbook<" in ci.get("/playbooks").text
    assert ci.get("/playbooks/etl/orders").status_code == 404
    assert ci.get("/playbooks/examples/doubling").status_code == 200


# --- the grid -------------------------------------------------------------------------------------


def grid_of(browser: FlaskClient, path: str = "etl/orders", **query: str) -> dict[str, list[str]]:
    """What each row shows, by its step: the status in each execution, oldest first."""
    answer = browser.get(f"/playbooks/{path}", query_string=query)
    assert answer.status_code == 200, Page(answer.text).text
    body = answer.text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r'<th scope="row"[^>]*>([^<]+)(.*?)</tr>', body, re.DOTALL)
    cell = re.compile(r'<a class="(\w+)" href="/executions/|class="(none)"')
    return {step: ["".join(one) for one in cell.findall(cells)] for step, cells in rows}


def test_the_grid_shows_each_step_in_each_execution(browser: FlaskClient, orders: list[str]) -> None:
    assert grid_of(browser) == {
        "fetch": ["done", "done", "done", "done"],
        "load": ["done", "done", "none", "done"],
        "odd": ["none", "none", "failed", "none"],
    }
    text = browser.get("/playbooks/etl/orders").text
    assert f'href="/executions/{orders[2]}?step=odd" title="odd: failed"' in text
    assert "failed in 1" in text
    assert re.findall(r'<a class="run (\w+)" href="/executions/(\d+)"', text) == [
        ("completed", orders[0]),
        ("completed", orders[1]),
        ("failed", orders[2]),
        ("completed", orders[3]),
    ]
    assert grid_of(browser, version="1")["odd"] == ["none", "none", "failed"]


def test_steps_that_are_gone_stand_last(browser: FlaskClient, sim: Simulation, orders: list[str]) -> None:
    newest = ORDERS.replace("step: odd", "step: strange")
    catalog.register(sim.rt, newest)
    assert list(grid_of(browser)) == ["fetch", "strange", "load", "odd"]
    assert re.search(
        r'class="gone">\s*<th[^>]*title="odd: not in v3"', browser.get("/playbooks/etl/orders").text
    )
    assert list(grid_of(browser, version="1")) == ["fetch", "odd", "load"]


def test_an_execution_that_goes_on_is_looked_at_again(browser: FlaskClient, sim: Simulation) -> None:
    begun = sim.start({"wait_for_go": True})
    sim.settle()
    assert grid_of(browser, "examples/doubling") == {"start": ["done"], "gate": ["none"]}
    browser.put(f"/api/vars/{begun}/go", json={"value": True})
    sim.settle()
    assert grid_of(browser, "examples/doubling") == {"start": ["done"], "gate": ["done"]}


def test_what_an_execution_came_to_is_read_once(
    browser: FlaskClient, orders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = grid_of(browser)

    def look(*_: object) -> None:
        raise AssertionError("a log was read again")

    monkeypatch.setattr(moment, "look", look)
    assert grid_of(browser) == first


def test_older_executions_are_a_page_behind(browser: FlaskClient, sim: Simulation) -> None:
    runs = [sim.start() for _ in range(MOST + 5)]
    shown = re.compile(r'<a class="run \w+" href="/executions/(\d+)"')
    text = browser.get("/playbooks/examples/doubling").text
    assert shown.findall(text) == runs[5:]
    (older,) = re.findall(r'rel="next" href="([^"]+)"', text)
    text = browser.get(unescape(older)).text
    assert shown.findall(text) == runs[:5]
    assert "data-live" not in text, "what is older does not change"
    assert "data-live" in browser.get("/playbooks/examples/doubling").text


def test_a_playbook_that_was_never_run_says_so(browser: FlaskClient) -> None:
    assert "has never been run" in browser.get("/playbooks/examples/doubling").text


def test_there_is_a_page_for_what_there_is(browser: FlaskClient, orders: list[str]) -> None:
    for address, said in (
        ("etl/order", "Did you mean"),
        ("etl/orders?version=7", "has no version 7"),
        ("etl/orders?tab=verions", "Did you mean &#39;versions&#39;"),
    ):
        answer = browser.get(f"/playbooks/{address}")
        assert (answer.status_code, said in answer.text) == (404, True), answer.text
    assert browser.get("/playbooks/etl/orders?version=x").status_code == 400


# --- versions and text ----------------------------------------------------------------------------


def test_versions_are_compared_line_by_line(browser: FlaskClient, orders: list[str]) -> None:
    page = browser.get("/playbooks/etl/orders?tab=versions&left=1&right=2").text
    lines = re.findall(
        r'<tr class="(\w+)"><td class="line-number">(\d*)</td><td class="line-number">(\d*)</td>'
        r'<td class="sign">(.?)</td><td class="line-text">(.*)</td>',
        page,
    )
    assert ("removed", "17", "", "−", "    tool: {kind: noop}") in lines
    assert ("added", "", "17", "+", "    tool: {kind: python, code: result = 2}") in lines
    assert len([one for one in lines if one[0] != "same"]) == 2
    assert "Changed steps: load<" in page


def test_what_is_written_otherwise_does_the_same(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    catalog.register(sim.rt, f"# a comment\n{NEXT}")
    page = browser.get("/playbooks/etl/orders?tab=versions&left=2&right=3").text
    assert "Both do the same" in page
    assert "# a comment" in page
    catalog.register(sim.rt, NEWER.replace("default: 100", "default: 90"))
    page = Page(browser.get("/playbooks/etl/orders?tab=versions&left=2&right=4").text).text
    assert "New steps: later" in page
    assert "Other changes: workload" in page


def test_versions_say_who_registered_them_and_how_many_executions_they_have(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    catalog.register(sim.rt.acting_for(Caller("alice", "r1")), NEWER)
    page = browser.get("/playbooks/etl/orders?tab=versions").text
    rows = [
        Page(one).text.split()
        for one in re.findall(r"<tr>.*?</tr>|<tr class=\"opened\">.*?</tr>", page, re.DOTALL)
    ]
    assert [(row[0], "alice" in row) for row in rows[1:]] == [("v3", True), ("v2", False), ("v1", False)]
    counts = re.findall(r'<td class="number">(?:<a href="([^"]+)">(\d+)</a>)?</td>', page)
    assert [count for _, count in counts] == ["", "1", "3"]
    assert len(re.findall(r'<tr id="x', browser.get(unescape(counts[2][0])).text)) == 3


def test_the_text_of_a_version_is_shown_and_sent(browser: FlaskClient, orders: list[str]) -> None:
    page = browser.get("/playbooks/etl/orders?tab=source&version=1").text
    assert '<tr id="L3">' in page
    assert "&lt;b&gt;orders&lt;/b&gt;" in page
    (link,) = [one for one in Page(page).links if "as=file" in one]
    sent = browser.get(link)
    assert sent.text == ORDERS
    assert sent.headers["Content-Disposition"] == "attachment; filename=orders-v1.yaml"
    assert sent.mimetype == "application/yaml"


# --- starting -------------------------------------------------------------------------------------


def form_of(browser: FlaskClient, path: str = "etl/orders") -> tuple[str, dict[str, str]]:
    """Where the form is sent to, and what a browser would send."""
    page = Page(browser.get(f"/playbooks/{path}?tab=start").text)
    (action,) = [one for one in page.actions if one.startswith("/playbooks")]
    return action, page.fields


def send(browser: FlaskClient, fields: dict[str, str], path: str = "etl/orders", **more: str) -> Any:
    action, _ = form_of(browser, path)
    return browser.post(action, data={**fields, **more}, headers=OWN)


def begun_by(answer: Any) -> str:
    assert answer.status_code == 303, Page(answer.text).text
    found = re.fullmatch(r"/executions/(\d+)", answer.location)
    assert found is not None
    return found[1]


def payload_of(sim: Simulation, execution: str) -> Any:
    with sim.rt.store.read() as tx:
        return moment.requested(tx, execution).payload


def test_the_form_has_the_inputs_with_their_defaults(browser: FlaskClient, orders: list[str]) -> None:
    page = Page(browser.get("/playbooks/etl/orders?tab=start").text)
    assert {name: (page.types[f"value.{name}"], page.fields.get(f"value.{name}")) for name in (
        "day", "limit", "mode", "token", "options", "dry", "since",
    )} == {
        "day": ("date", ""),
        "limit": ("number", "100"),
        "mode": ("select", '"delta"'),
        "token": ("password", ""),
        "options": ("textarea", '{"deep": [1]}'),
        "dry": ("checkbox", "true"),
        "since": ("text", ""),
    }  # fmt: skip
    assert "<i>loaded</i>" in page.text


def test_the_form_starts_an_execution_with_what_was_changed(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    _, fields = form_of(browser)
    del fields["value.dry"]
    typed = {
        "value.day": "2026-03-02",
        "value.limit": "7",
        "key": "order-7",
        "labels": "a=1\r\n b = x=y \r\n",
    }
    begun = begun_by(send(browser, fields, **typed))
    row = inspect.execution(sim.rt, begun)
    assert payload_of(sim, begun) == {"day": "2026-03-02", "limit": 7, "dry": False}
    assert (row.path, row.playbook_version, row.key) == ("etl/orders", 2, "order-7")
    assert '"a":"1"' in (row.labels or "")
    assert '"b":"x=y"' in (row.labels or "")


def test_a_form_that_is_sent_twice_starts_one_execution(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    _, fields = form_of(browser)
    first, again = (begun_by(send(browser, fields, **{"value.day": "2026-03-02"})) for _ in range(2))
    assert first == again
    other = begun_by(send(browser, fields, **{"value.day": "2026-03-03"}))
    assert other != first, "who goes back and types something else means it"
    _, fresh = form_of(browser)
    assert begun_by(send(browser, fresh, **{"value.day": "2026-03-02"})) not in (first, other)


def test_what_is_wrong_is_said_beside_what_was_typed(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    _, fields = form_of(browser)
    typed = {"value.day": "soon", "value.limit": "0", "value.token": "hsh", "value.mode": '"full"'}
    answer = send(browser, fields, **typed)
    assert answer.status_code == 422
    page = Page(answer.text)
    assert {name: page.fields[name] for name in typed} == {**typed, "value.token": ""}
    assert "hsh" not in answer.text, "a secret is not shown again"
    for name in ("day", "limit", "token"):
        field = re.search(rf'name="value.{name}".*?<p class="fault"[^>]*>([^<]+)', answer.text, re.DOTALL)
        assert field is not None, name
    answer = send(browser, fields, **{"value.options": "{", "value.day": "2026-03-02"})
    assert (answer.status_code, "is no JSON" in answer.text) == (422, True)
    assert Page(answer.text).fields["value.options"] == "{"
    assert len(inspect.executions(sim.rt, path="etl/orders")) == len(orders)
    fixed = {**page.fields, "value.day": "2026-03-02", "value.limit": "1"}
    begun_by(send(browser, fixed))


@pytest.mark.parametrize("written", ["n: 21\nmore: [1, {a: b}]", '{"n": 21, "more": [1, {"a": "b"}]}'])
def test_a_playbook_without_inputs_takes_yaml_or_json(
    browser: FlaskClient, sim: Simulation, written: str
) -> None:
    _, fields = form_of(browser, "examples/doubling")
    begun = begun_by(send(browser, fields, "examples/doubling", payload=written))
    assert payload_of(sim, begun) == {"n": 21, "more": [1, {"a": "b"}]}


FREE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: free, path: etl/free}
workload: {city: Kyiv, flag: 1, deep: {a: [1]}, since: "{{ city }}-1"}
workflow:
  - step: start
"""


def test_without_inputs_the_defaults_stand_in_the_form(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, FREE)
    _, fields = form_of(browser, "etl/free")
    assert yaml.safe_load(fields["payload"]) == {"city": "Kyiv", "flag": 1, "deep": {"a": [1]}}
    assert "since" in Page(browser.get("/playbooks/etl/free?tab=start").text).text, "it is computed"
    assert payload_of(sim, begun_by(send(browser, fields, "etl/free"))) == {}
    changed = fields["payload"].replace("flag: 1", "flag: true") + "more: 2\n"
    begun = begun_by(send(browser, fields, "etl/free", payload=changed))
    assert payload_of(sim, begun) == {"flag": True, "more": 2}


TIMES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: times, path: etl/times}
inputs:
  since: {type: datetime, default: "2026-01-31T09:00:00+02:00", min: "2026-01-01T00:00:00Z"}
  until: {type: datetime}
  odd: {type: datetime, default: "2026-01-31T09:00:00.123456Z"}
  name: {type: string, pattern: "^[a-z]+$", min_length: 2, description: A short name}
  rows: {type: list}
workflow:
  - step: start
"""


def test_an_instant_is_picked_and_keeps_its_zone(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, TIMES)
    page = Page(browser.get("/playbooks/etl/times?tab=start").text)
    shown = {name: (page.types[f"value.{name}"], page.fields[f"value.{name}"]) for name in ("since", "until")}
    assert shown == {"since": ("datetime-local", "2026-01-31T09:00"), "until": ("datetime-local", "")}
    assert (page.fields["zone.since"], page.fields["zone.until"]) == ("+02:00", "Z")
    assert page.types["value.odd"] == "text", "no picker has microseconds"
    assert payload_of(sim, begun_by(send(browser, page.fields, "etl/times"))) == {}
    typed = {"value.since": "2026-02-01T08:30", "value.until": "2026-02-02T08:30:15", "zone.until": "-05:00"}
    begun = begun_by(send(browser, page.fields, "etl/times", **typed))
    assert payload_of(sim, begun) == {
        "since": "2026-02-01T08:30+02:00",
        "until": "2026-02-02T08:30:15-05:00",
    }
    answer = send(browser, page.fields, "etl/times", **{**typed, "zone.until": "Kyiv"})
    assert (answer.status_code, Page(answer.text).fields["value.until"]) == (422, "2026-02-02T08:30:15Kyiv")


def test_what_is_asked_of_a_value_is_said_beside_its_field(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, TIMES)
    text = " ".join(Page(browser.get("/playbooks/etl/times?tab=start").text).text.split())
    assert "at least 2026-01-01T00:00:00Z" in text
    assert "at least 2 characters, like ^[a-z]+$ A short name" in text


def test_all_faults_are_said_at_once_each_at_its_field(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, TIMES)
    _, fields = form_of(browser, "etl/times")
    typed = {"value.rows": "[1", "value.name": "X1", "key": "x" * 5000, "labels": "team"}
    answer = send(browser, fields, "etl/times", **typed)
    assert answer.status_code == 422
    for name in typed:
        fault = re.search(rf'name="{name}"[^>]* aria-invalid.*?<p class="fault" id=', answer.text, re.DOTALL)
        assert fault is not None, name
    assert {name: Page(answer.text).fields[name] for name in typed} == typed
    assert len(inspect.executions(sim.rt, path="etl/times")) == 0


def test_an_execution_is_started_again_with_its_inputs(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    given = {**DAY, "limit": 7, "token": "not to be seen", "options": {"deep": [2]}, "dry": False}
    first = start(sim.rt, StartRequest("etl/orders", payload=given)).execution_id
    page = browser.get(f"/executions/{first}").text
    (link,) = re.findall(r'<a href="([^"]+)">start again with these inputs</a>', page)
    answer = browser.get(unescape(link))
    fields = Page(answer.text).fields
    assert (answer.status_code, "not to be seen" in answer.text) == (200, False)
    assert "Not copied: token" in Page(answer.text).text
    again = begun_by(send(browser, fields, **{"value.token": "another"}))
    kept = {name: value for name, value in payload_of(sim, again).items() if name != "token"}
    assert kept == {name: value for name, value in given.items() if name != "token"}
    elsewhere = browser.get("/playbooks/examples/doubling", query_string={"tab": "start", "from": first})
    assert (elsewhere.status_code, "etl/orders" in elsewhere.text) == (404, True)


def test_inputs_are_copied_where_none_are_declared(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, FREE)
    given = {"city": "Lviv", "api_key": "not to be seen", "more": [1]}
    first = start(sim.rt, StartRequest("etl/free", payload=given)).execution_id
    answer = browser.get("/playbooks/etl/free", query_string={"tab": "start", "from": first})
    assert "not to be seen" not in answer.text
    again = begun_by(send(browser, Page(answer.text).fields, "etl/free"))
    assert payload_of(sim, again) == {"city": "Lviv", "more": [1]}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"payload": "- 1"}, "mapping"),
        ({"payload": "a: [1"}, "payload"),
        ({"labels": "team"}, "has no value"),
        ({"key": "x" * 5000}, "key"),
    ],
)
def test_what_cannot_be_started_is_refused_and_stays(
    browser: FlaskClient, typed: dict[str, str], said: str
) -> None:
    _, fields = form_of(browser, "examples/doubling")
    answer = send(browser, fields, "examples/doubling", **typed)
    assert answer.status_code in (400, 422)
    assert said in answer.text
    assert {name: Page(answer.text).fields[name] for name in typed} == typed


def test_a_key_that_is_taken_leads_to_who_has_it(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    holder = start(sim.rt, StartRequest("etl/orders", payload=DAY, key="k1")).execution_id
    _, fields = form_of(browser)
    answer = send(browser, fields, **{"value.day": "2026-03-02", "key": "k1"})
    assert answer.status_code == 409
    assert f"/executions/{holder}" in Page(answer.text).links
    assert Page(answer.text).fields["key"] == "k1"


def test_the_plan_is_shown_and_nothing_is_run(
    browser: FlaskClient, sim: Simulation, orders: list[str]
) -> None:
    _, fields = form_of(browser)
    answer = send(browser, fields, do="plan", **{"value.day": "2026-03-02", "value.limit": "13"})
    assert answer.status_code == 200
    page = Page(answer.text)
    assert "What would run" in page.text
    assert page.fields["value.limit"] == "13"
    assert page.fields["once"] == fields["once"]
    plan = answer.text.partition("What would run")[2]
    assert re.findall(r"<li><strong>(\w+)</strong>", plan)[:2] == ["fetch", "odd"]
    assert "Never reached: load" in plan
    assert len(inspect.executions(sim.rt, path="etl/orders")) == len(orders)


def test_who_may_only_read_has_no_form(closed: Flask, sim: Simulation, orders: list[str]) -> None:
    def enter(*scopes: str) -> FlaskClient:
        client = closed.test_client()
        sign_in(client, tokens.create(sim.rt, "ci", scopes).text)
        return client

    reader, runner = enter("read"), enter("run:etl/*", "read")
    assert "tab=start" not in reader.get("/playbooks/etl/orders").text
    refused = reader.get("/playbooks/etl/orders?tab=start")
    assert refused.status_code == 403
    assert '<h1 id="dialog-title">Not allowed</h1>' in refused.text
    assert "no scope `run` for playbook 'etl/orders'" in unescape(refused.text)
    assert "tab=start" not in runner.get("/playbooks/examples/doubling").text
    fields = Page(reader.get("/playbooks/etl/orders").text).fields | {"value.day": "2026-03-02"}
    answer = reader.post("/playbooks/etl/orders?tab=start", data=fields, headers=OWN)
    assert (answer.status_code, "no scope `run`" in answer.text) == (403, True)
    _, fields = form_of(runner)
    begun = begun_by(send(runner, fields, **{"value.day": "2026-03-02"}))
    assert inspect.execution(sim.rt, begun).principal == "ci"


def test_a_start_is_refused_where_too_much_waits(make: Callable[..., Flask], sim: Simulation) -> None:
    browser = make(backlog=1).test_client()
    for _ in range(3):
        sim.start()
    sim.pass_time(5)
    _, fields = form_of(browser, "examples/doubling")
    answer = send(browser, fields, "examples/doubling")
    assert answer.status_code == 429
    assert "wait already" in answer.text


def test_the_form_is_taken_from_this_page_alone(browser: FlaskClient, orders: list[str]) -> None:
    _, fields = form_of(browser)
    answer = send(browser, {**fields, "form_key": "x"}, **{"value.day": "2026-03-02"})
    assert answer.status_code == 400
