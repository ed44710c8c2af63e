"""The page of queues, workers and limits, as a browser without scripts sees it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import audit, catalog, pausing, tokens
from noetl.usecases.ports import AuditFilter, WorkerRow
from noetl.usecases.start import StartRequest, start

from .browsing import OWN, Page, sign_in

BOUNDED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bounded, path: etl/bounded}
workflow:
  - step: load
    spec: {concurrency: {limit: 1, key: "disk <b>"}, rate: {limit: 5, per: 1m, key: vendor}}
    tool: {kind: wait, signal: go}
"""


@pytest.fixture
def held(sim: Simulation) -> tuple[str, str]:
    """An execution whose step a worker is at, and one whose step waits in the same queue."""
    first, second = sim.start(), sim.start()
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver()
    (mine,) = (
        one.command for one in sim.mailbox.messages if one.command and one.command.execution_id == first
    )
    with sim.rt.store.begin() as tx:
        assert tx.commands.claim(mine.command_id, "w1", sim.now, sim.now + timedelta(seconds=30), 5)
    return first, second


def see_worker(sim: Simulation, name: str, silent_s: float, **more: Any) -> None:
    now = sim.rt.clock()
    row = WorkerRow(name, "worker", ("python",), now - timedelta(hours=1), now - timedelta(seconds=silent_s))
    with sim.rt.store.begin() as tx:
        tx.workers.see(replace(row, **more))


def row_of(text: str, part: str) -> str:
    """The texts of the first row in which that stands: the name in a cell of its own, or a link."""
    rows = (
        row for row in text.split("<tr") if f">{part}<" in row or f">{part} <" in row or part in _links(row)
    )
    return " ".join(Page(f"<tr{next(rows)}").text.split())


def _links(row: str) -> list[str]:
    return Page(f"<tr{row}").links


def link(execution_id: str) -> str:
    return f"/executions/{execution_id}"


def show(browser: FlaskClient, query: str = "") -> str:
    answer = browser.get(f"/queues{query}")
    assert answer.status_code == 200
    return answer.text


def post(browser: FlaskClient, **fields: str) -> Any:
    key = Page(browser.get("/login").text).fields["form_key"]
    return browser.post("/queues", data={"form_key": key, **fields}, headers=OWN)


# --- queues ---------------------------------------------------------------------------------------


def test_a_queue_says_how_much_waits_in_it_and_for_how_long(
    browser: FlaskClient, sim: Simulation, held: tuple[str, str]
) -> None:
    sim.now += timedelta(seconds=95)
    see_worker(sim, "w1", 1)
    assert row_of(show(browser), "python").startswith("python busy 1 1 1 m 35 s 1 – 1")
    with sim.rt.store.read() as tx:
        (waiting,) = tx.queues.find("open", "python")
    with sim.rt.store.begin() as tx:
        tx.commands.mark_sent([one.command_id for one in tx.commands.open_of(waiting.execution_id)], sim.now)
    assert "1 m 35 s" in row_of(show(browser), "python"), "however often it was sent"
    assert row_of(show(browser), "http").startswith("http empty 0 0 – 0 – 0")


def test_a_queue_that_nobody_serves_is_told_of(
    browser: FlaskClient, sim: Simulation, held: tuple[str, str]
) -> None:
    said = "No worker serves the queue python, where 1 waits"
    see_worker(sim, "gone", 3600)
    assert said in Page(show(browser)).text
    see_worker(sim, "w1", 2)
    assert said not in Page(show(browser)).text


def test_a_queue_is_opened_and_shows_its_work_in_order(
    browser: FlaskClient, sim: Simulation, held: tuple[str, str]
) -> None:
    running, waiting = held
    page = show(browser, "?queue=python")
    assert page.index(link(running)) < page.index(link(waiting))
    assert "running" in row_of(page, link(running))
    assert "waiting" in row_of(page, link(waiting))
    assert "start examples/doubling" in row_of(page, link(waiting))
    assert "The queue is empty" in show(browser, "?queue=http")
    odd = show(browser, "?queue=%3Cscript%3Ex")
    assert "There is no queue <script>x" in Page(odd).text
    assert "<script>x" not in odd


def test_what_is_not_due_yet_waits_and_is_not_ready(browser: FlaskClient, sim: Simulation) -> None:
    sim.start()
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver()
    pausing.pause_queue(sim.rt, "python", "for now")
    row = row_of(show(browser), "python")
    assert row.startswith("python paused since ")
    assert "for now 1 0" in row


# --- workers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent_s", "said"),
    [(3, "alive 3 s ago"), (31, "late 31 s ago"), (61, "gone 1 m 01 s ago"), (-5, "alive 0 s ago")],
)
def test_a_worker_is_alive_late_or_gone(
    browser: FlaskClient, sim: Simulation, silent_s: float, said: str
) -> None:
    see_worker(sim, "w1", silent_s)
    assert row_of(show(browser), "w1").startswith(f"{said} w1 python nothing" if silent_s < 60 else said)


def test_a_worker_that_is_gone_for_long_is_forgotten(browser: FlaskClient, sim: Simulation) -> None:
    see_worker(sim, "w1", 3600)
    assert "No worker has been seen" in Page(show(browser)).text


def test_a_worker_shows_what_it_is_at(browser: FlaskClient, sim: Simulation, held: tuple[str, str]) -> None:
    see_worker(sim, "w1", 1, skew_s=-4.2)
    see_worker(sim, "<script>w2", 1)
    page = show(browser)
    assert f"{held[0]} start examples/doubling for" in row_of(page, "w1")
    assert "its clock is 4.2 s behind" in Page(page).text
    assert "<script>w2" not in page


# --- limits ---------------------------------------------------------------------------------------


def test_limits_show_holders_and_waiters_in_order(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, BOUNDED)
    ids = [start(sim.rt, StartRequest("etl/bounded")).execution_id for _ in range(8)]
    sim.settle()
    page = show(browser)
    assert "1 of 1 taken, 0 free, 7 waiting" in Page(page).text
    assert "of 5 begun per minute" in Page(page).text
    assert "disk <b>" in Page(page).text
    assert "disk <b>" not in page
    disk = page[page.index("disk &lt;b&gt;") : page.index(">vendor<")]
    places = [disk.index(f'"{link(one)}"') for one in ids[:6]]
    assert places == sorted(places), "the first in line first"
    assert link(ids[6]) not in disk
    assert "and 2 more" in disk
    whole = show(browser, "?key=disk+%3Cb%3E")
    assert all(link(one) in whole for one in ids)
    assert ">vendor<" not in whole


# --- pause and resume -----------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [("queue", "http"), ("key", "a/<b>")])
def test_a_part_is_paused_and_resumed_once_that_is_confirmed(
    browser: FlaskClient, sim: Simulation, kind: str, name: str
) -> None:
    asked = post(browser, act="pause", kind=kind, name=name)
    assert f"Pause the {kind} {name}?" in Page(asked.text).text
    assert _paused(sim) == []
    post(browser, act="pause", kind=kind, name=name, sure="yes", reason="<i>down</i>")
    assert _paused(sim) == [(kind, name, "<i>down</i>")]
    page = show(browser)
    assert ": <i>down</i>" in Page(page).text
    assert "<i>" not in page
    done = post(browser, act="resume", kind=kind, name=name, sure="yes", back="//evil.example")
    assert "goes on" in Page(done.text).text
    assert "evil" not in done.text
    assert _paused(sim) == []
    again = post(browser, act="resume", kind=kind, name=name, sure="yes")
    assert (again.status_code, "is not paused" in Page(again.text).text) == (409, True)
    actions = [one.action for one in audit.entries(sim.rt, AuditFilter(subject=name))]
    assert actions == [f"{kind}.resumed", f"{kind}.paused"]


def _paused(sim: Simulation) -> list[tuple[str, str, str]]:
    with sim.rt.store.read() as tx:
        return [(one.kind, one.name, one.reason) for one in tx.slots.paused()]


@pytest.mark.parametrize(
    "fields",
    [
        {"act": "stop", "kind": "queue", "name": "http"},
        {"act": "pause", "kind": "step", "name": "http"},
        {"act": "pause", "kind": "queue", "name": "scheduler", "sure": "yes"},
        {"act": "pause", "kind": "key", "name": "", "sure": "yes"},
    ],
)
def test_what_cannot_be_paused_is_said(browser: FlaskClient, sim: Simulation, fields: dict[str, str]) -> None:
    assert post(browser, **fields).status_code == 400
    assert _paused(sim) == []


# --- who may --------------------------------------------------------------------------------------


def test_what_one_may_not_see_is_not_shown_and_not_counted(
    closed: Flask, sim: Simulation, held: tuple[str, str]
) -> None:
    see_worker(sim, "w1", 1)
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read:etl/*", "operate:etl/*"]).text)
    page = show(browser, "?queue=python")
    assert not any(link(one) in page for one in held)
    assert row_of(page, "python").startswith("python empty 0 0")
    assert "Of the playbooks that you may see" in Page(page).text
    assert 'value="pause"' not in page, "queues belong to all playbooks"
    assert post(browser, act="pause", kind="queue", name="http", sure="yes").status_code == 403
    assert _paused(sim) == []
    sign_in(browser, tokens.create(sim.rt, "eve", ["read"]).text)
    assert all(link(one) in show(browser, "?queue=python") for one in held)


def test_a_part_is_what_changes_and_is_never_old(
    browser: FlaskClient, sim: Simulation, held: tuple[str, str]
) -> None:
    headers = {"HX-Request": "true", "News-At": ""}
    first = browser.get("/queues", headers=headers).text
    assert first.lstrip().startswith("<section")
    assert browser.get("/queues", headers=headers).text == first, "others who ask now share it"
