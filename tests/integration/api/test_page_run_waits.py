"""The tab of waits: what waits and what helps, who has slots, what came."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog, pausing, tokens
from noetl.usecases.start import StartRequest, start

from .browsing import Page, sign_in
from .shop import approve, follow, look, open_shop, pay, start_run, versions


@pytest.fixture
def sim() -> Simulation:
    return open_shop()


@pytest.fixture
def run(sim: Simulation) -> str:
    return start_run(sim)


def test_what_waits_says_what_helps(browser: FlaskClient, run: str) -> None:
    said = Page(page := look(browser, run, "waits")).text
    assert "signal 'paid', until 2" in said
    assert f"noetl execution signal {run} paid" in said
    assert "this is what it waits for" in said
    assert any("step=wait" in one for one in Page(page).links)
    assert re.search(r'tab=waits"[^>]*>Waits <span class="muted">1<', page)


def test_instants_that_are_waited_for_are_said_as_all_times_are(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    page = look(browser, run, "waits")
    table = page[page.index('class="waits"') :].partition("</table>")[0]
    assert table.count("<time datetime") == 3, "for, since, until"
    assert "T" not in "".join(re.findall(r"\d{4}-\d\d-\d\d(.)\d", Page(page).text))
    assert re.search(r"waits for signal \S+ or <time datetime", browser.get("/").text)


def test_as_of_a_version_it_waits_for_what_it_waited_for(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    head = len(sim.events(run))
    pay(sim, run)
    said = Page(look(browser, run, "waits", at=head)).text
    assert "signal 'paid', until 2" in said
    assert "noetl execution signal" not in said
    assert "Nothing to wait for." in Page(look(browser, run, "waits", at=3)).text


def test_signals_and_answers_that_came_are_told(browser: FlaskClient, sim: Simulation, run: str) -> None:
    pay(sim, run, {"amount": 5})
    pay(sim, run, ["<u>"])
    said = Page(look(browser, run, "waits")).text
    assert "nothing has taken it yet" in said
    assert "taken by wait, version" in said
    assert "Approvals that were answered" not in said
    approve(sim, run)
    page = look(browser, run, "waits")
    assert "<i>fine</i>" not in page
    assert "<u>" not in page
    said = Page(page).text
    assert "it's <i>fine</i>" in said
    assert "approved" in said
    assert re.search(r"amount\s*7", said)
    assert "Executions that it waits for" in said
    (answered,) = versions(look(browser, run, "events", type="approval.answered"))
    assert answered in versions(follow(browser, page, f"version {answered}"))


SLOTS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slots, path: PATH}
workflow:
  - step: held
    spec: {concurrency: {key: reports, limit: 1}}
    tool: {kind: wait, signal: go}
"""


def test_slots_name_those_that_have_them(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, SLOTS.replace("PATH", "secret/slots"))
    catalog.register(sim.rt, SLOTS.replace("PATH", "shop/slots"))
    holder = start(sim.rt, StartRequest("secret/slots")).execution_id
    sim.settle()
    waiter = start(sim.rt, StartRequest("shop/slots")).execution_id
    sim.settle()
    page = look(browser, waiter, "waits")
    assert f"/executions/{holder}" in Page(page).links
    assert "1 of 1 taken, 1 waits" in Page(page).text
    assert "noetl limits --key reports" in Page(page).text
    assert "1 of 1 taken, 1 waits" in Page(look(browser, holder, "waits")).text


def test_what_waits_for_a_slot_stands_where_running_would(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, SLOTS.replace("PATH", "shop/slots"))
    start(sim.rt, StartRequest("shop/slots"))
    sim.settle()
    waiter = start(sim.rt, StartRequest("shop/slots")).execution_id
    sim.settle()
    chip = '<use href="#s-waiting"/></svg>waits for a slot of reports</span>'
    assert chip in browser.get("/?path=shop/slots").text
    assert chip in browser.get(f"/executions/{waiter}").text
    assert "waits for a slot of reports" in Page(browser.get(f"/executions/{waiter}?step=held").text).text
    answer = browser.get(f"/api/executions/{waiter}").get_json()
    assert (answer["status"], answer["hold"]["cause"]) == ("running", "slot")


def test_holders_that_are_not_for_the_visitor_are_not_named(closed: Flask, sim: Simulation) -> None:
    catalog.register(sim.rt, SLOTS.replace("PATH", "secret/slots"))
    catalog.register(sim.rt, SLOTS.replace("PATH", "shop/slots"))
    holder = start(sim.rt, StartRequest("secret/slots")).execution_id
    sim.settle()
    waiter = start(sim.rt, StartRequest("shop/slots")).execution_id
    sim.settle()
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "eve", ("read:shop/*",)).text)
    page = look(browser, waiter, "waits")
    assert "1 of 1 taken, 1 waits" in Page(page).text
    assert f"/executions/{holder}" not in page
    assert "secret/slots" not in page


def test_a_step_that_is_paused_says_how_it_goes_on(browser: FlaskClient, sim: Simulation) -> None:
    run = sim.start()
    pausing.pause_step(sim.rt, run, "load", "tea")
    sim.settle()
    assert f"noetl execution resume {run} --step load" in Page(look(browser, run, "waits")).text
