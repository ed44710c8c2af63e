"""The pages of many executions at once: what they failed of, and operations that run them again."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.ui.charts import WIDTH, count_spans, make_bars, make_shares
from noetl.usecases import catalog, tokens
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.planning import FleetRequest
from noetl.usecases.retry import RetryRequest
from noetl.usecases.start import StartRequest, start
from noetl.usecases.sweep import sweep

from .browsing import OWN, Page, sign_in

SENDS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: mail, path: etl/mail}
workload: {say: "no <b>money</b>", works: false}
workflow:
  - step: send
    tool: {kind: python, effects: external, code: "result = 1"}
    next: {arcs: [{step: check}]}
  - step: check
    tool:
      kind: python
      input: {say: "{{ say }}", works: "{{ works }}"}
      code: |
        if not works:
            raise ValueError(say)
"""


@pytest.fixture
def failed(sim: Simulation) -> dict[str, list[str]]:
    """Executions that failed, by their playbook, and one that did not."""
    catalog.register(sim.rt, SENDS)
    doubling = [sim.start({"n": {"order": number}}) for number in range(3)]
    mails = [start(sim.rt, StartRequest("etl/mail")).execution_id for _ in range(2)]
    sim.start({"n": 2})
    sim.settle()
    return {"examples/doubling": doubling, "etl/mail": mails}


def grouped(browser: FlaskClient, **query: Any) -> dict[str, str]:
    """The groups of the page: their texts by their fingerprints."""
    answer = browser.get("/failures", query_string=query)
    assert answer.status_code == 200, Page(answer.text).text
    found = re.findall(r'<li id="f([0-9a-f]{12})">(.*?)</li>', answer.text, re.DOTALL)
    return {name: " ".join(Page(text).text.split()) for name, text in found}


def find_group(browser: FlaskClient, word: str) -> str:
    (found,) = (name for name, text in grouped(browser).items() if word in text)
    return found


def ask(browser: FlaskClient, path: str = "/failures/retry", **fields: Any) -> Any:
    """Sends a form, as the page of failures has it; `fields` may be lists."""
    mark = Page(browser.get("/failures").text).fields["form_key"]
    return browser.post(path, data={"form_key": mark, **fields}, headers=OWN)


def carry_on(sim: Simulation) -> None:
    for _ in range(10):
        sweep(sim.rt)
        sim.settle()


# --- groups ---


def test_what_failed_alike_is_one_group_and_leads_to_its_executions(
    browser: FlaskClient, failed: dict[str, list[str]]
) -> None:
    found = grouped(browser)
    first, second = found.values()
    assert first.startswith("3 executions")
    assert "TypeError in step start" in first
    assert "of examples/doubling" in first
    assert all(one in first for one in failed["examples/doubling"])
    assert "ValueError in step check" in second
    page = browser.get("/failures").text
    assert "5 failed executions, of 2 faults" in Page(page).text
    assert "no &lt;b&gt;money&lt;/b&gt;" in page
    for fingerprint, ids in zip(found, failed.values(), strict=True):
        (link,) = (one for one in Page(page).links if f"fingerprint={fingerprint}" in one)
        assert set(re.findall(r'<tr id="x(\d+)"', browser.get(link).text)) == set(ids)


def test_a_group_is_called_what_its_members_say_and_names_the_newest_by_their_keys(
    browser: FlaskClient, sim: Simulation
) -> None:
    catalog.register(sim.rt, SENDS)
    for key, say in (("a", "order 1 is lost"), ("b", "order 1 is lost")):
        start(sim.rt, StartRequest("etl/mail", overrides={"say": say}, key=key))
    sim.settle()
    ((_, text),) = grouped(browser).items()
    assert "order 1 is lost" in text
    assert "Newest: b a" in text
    start(sim.rt, StartRequest("etl/mail", overrides={"say": "order 2 is lost"}))
    sim.settle()
    ((_, text),) = grouped(browser).items()
    assert "order <number> is lost" in text
    assert "Newest messageorder 2 is lost" in text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, ["TypeError", "ValueError"]),
        ({"path": "etl/*"}, ["ValueError"]),
        ({"error": "MONEY"}, ["ValueError"]),
        ({"since": "-1h"}, ["TypeError", "ValueError"]),
        ({"until": "2026-01-01T00:00:00Z"}, []),
        ({"where": "step = 'start'"}, ["TypeError"]),
    ],
)
def test_filters_of_the_address_narrow_the_groups(
    browser: FlaskClient, failed: dict[str, list[str]], query: dict[str, str], words: list[str]
) -> None:
    found = list(grouped(browser, **query).values())
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_what_is_wrong_with_a_filter_is_said(browser: FlaskClient) -> None:
    answer = browser.get("/failures?where=stat+%3D+1")
    assert (answer.status_code, "Did you mean" in answer.text) == (400, True)
    part = browser.get("/failures?where=stat+%3D+1", headers={"HX-Request": "true"})
    assert "data-live" not in part.text


def test_the_part_that_changes_is_what_a_script_gets(
    browser: FlaskClient, failed: dict[str, list[str]]
) -> None:
    part = browser.get("/failures?path=etl/*", headers={"HX-Request": "true", "News-At": "host:1"}).text
    assert part.lstrip().startswith('<section id="failures"')
    assert 'data-live="all"' in part
    assert "TypeError" not in part


def test_a_token_for_some_playbooks_sees_and_counts_their_failures_alone(
    closed: Flask, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read:etl/*"]).text)
    assert len(grouped(browser)) == 1
    page = browser.get("/failures").text
    assert "2 failed executions, of 1 fault" in Page(page).text
    assert "examples/doubling" not in page
    assert 'name="only"' not in page, "it may only read"
    assert ask(browser, only="0" * 12).status_code == 403


# --- retries ---


def test_nothing_begins_before_the_plan_was_seen_and_meant(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    name = find_group(browser, "TypeError")
    answer = ask(browser, only=name)
    text = Page(answer.text).text
    assert (answer.status_code, "Retry 3 executions?" in text) == (200, True)
    assert "3 runs of steps are done again" in text
    assert operations.operations(sim.rt) == []
    fields = {**Page(answer.text).fields, "concurrency": "2", "reason": "it was mended", "sure": "yes"}
    begun = browser.post("/failures/retry", data=fields, headers=OWN)
    (made,) = operations.operations(sim.rt)
    assert (begun.status_code, begun.headers["Location"]) == (303, f"/operations/{made.row.operation_id}")
    assert (made.total, made.row.concurrency, made.row.reason) == (3, 2, "it was mended")
    assert (made.row.how["version"], made.row.how["from_step"]) == (None, "")
    carry_on(sim)
    again = Page(ask(browser, only=name).text).text
    assert "3 executions were run again already, and are left out." in again


def test_several_groups_are_retried_as_one_operation_of_what_the_filters_let_through(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    names = list(grouped(browser))
    asked = {"id": names, "query": "path=etl%2F*", "sure": "yes", "confirmed": "yes"}
    assert ask(browser, **asked).status_code == 303
    (made,) = operations.operations(sim.rt)
    items = operations.items(sim.rt, made.row.operation_id)
    assert {one.execution_id for one in items} == set(failed["etl/mail"])


def test_calls_that_may_have_had_effects_are_confirmed_first(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    name = find_group(browser, "ValueError")
    asked = {"only": name, "from_step": "send"}
    plan = Page(ask(browser, **asked).text)
    assert "of send is called again in 2 executions, and may have had effects" in plan.text
    assert plan.types["confirmed"] == "checkbox"
    refused = ask(browser, **asked, sure="yes")
    assert (refused.status_code, operations.operations(sim.rt)) == (409, [])
    assert ask(browser, **asked, sure="yes", confirmed="yes").status_code == 303


def test_the_version_to_run_is_the_one_it_ran_or_the_newest(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    catalog.register(sim.rt, SENDS.replace("works: false", "works: true"))
    catalog.register(sim.rt, SENDS.replace("if not works", "if False"))
    name = find_group(browser, "ValueError")
    ask(browser, only=name, version="newest", sure="yes", confirmed="yes")
    carry_on(sim)
    (made,) = operations.operations(sim.rt)
    assert made.counts == {"completed": 2}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": ["'"]},
        {"id": [f"{number:012x}" for number in range(51)]},
        {"only": "0" * 12, "concurrency": "101"},
        {"only": "0" * 12, "limit": "many"},
        {"only": "0" * 12, "version": "7"},
        {"only": "0" * 12, "sure": "yes"},
        {"only": "0" * 12, "query": "where=stat+%3D+1"},
    ],
)
def test_a_form_that_cannot_be_meant_is_refused(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]], fields: dict[str, Any]
) -> None:
    answer = ask(browser, **fields)
    assert (answer.status_code, operations.operations(sim.rt)) == (400, [])


def test_who_may_operate_some_playbooks_retries_those_alone(
    closed: Flask, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "bob", ["read", "operate:etl/*"]).text)
    names = list(grouped(browser))
    text = Page(ask(browser, id=names).text).text
    assert "Retry 2 executions?" in text
    assert ask(browser, id=names, sure="yes", confirmed="yes").status_code == 303
    (made,) = operations.operations(sim.rt)
    assert (made.total, made.row.principal) == (2, "bob")


# --- operations ---


@pytest.fixture
def operation(sim: Simulation, failed: dict[str, list[str]]) -> str:
    how = RetryRequest("", from_step="nowhere")
    wanted = FleetRequest("status = 'failed'", how, 2, reason="<i>mended</i>")
    return operations.begin(sim.rt, wanted).row.operation_id


def test_an_operation_shows_how_far_it_is_and_what_became_of_each(
    browser: FlaskClient, sim: Simulation, failed: dict[str, list[str]]
) -> None:
    ask(browser, only=find_group(browser, "TypeError"), sure="yes")
    (made,) = operations.operations(sim.rt)
    place = f"/operations/{made.row.operation_id}"
    before = browser.get(place).text
    assert 'data-live="all"' in before
    assert "3 pending" in before
    carry_on(sim)
    page = browser.get(place).text
    assert "data-live" not in page, "it has ended"
    assert "3 failed" in page
    begun = {str(one.begun_id) for one in operations.items(sim.rt, made.row.operation_id)}
    linked = {one.removeprefix("/executions/") for one in Page(page).links}
    assert begun | set(failed["examples/doubling"]) <= linked
    assert "No executions." in browser.get(f"{place}?state=completed").text
    (retries,) = (
        one for one in Page(page).links if "operation" in parse_qs(urlsplit(one).query).get("where", [""])[0]
    )
    assert set(re.findall(r'<tr id="x(\d+)"', browser.get(retries).text)) == begun
    assert f'<a href="{place}">' in browser.get("/failures").text
    assert f'<a href="{place}">' in browser.get("/operations").text


def test_refusals_are_shown_by_their_reason(browser: FlaskClient, sim: Simulation, operation: str) -> None:
    carry_on(sim)
    page = browser.get(f"/operations/{operation}").text
    assert "Why some were refused" in page
    assert "nowhere" in page
    assert "&lt;i&gt;mended&lt;/i&gt;" in page
    part = browser.get(f"/operations/{operation}?state=refused&after=3", headers={"HX-Request": "true"}).text
    assert part.count('<tr id="i') == 1


def test_an_operation_is_paused_resumed_and_cancelled_once_that_is_meant(
    browser: FlaskClient, sim: Simulation, operation: str
) -> None:
    place = f"/operations/{operation}"

    def steer(act: str) -> Any:
        asked = ask(browser, place, act=act)
        assert (asked.status_code, "?" in asked.text) == (200, True)
        fields = {**Page(asked.text).fields, "act": act}
        if "reason" in fields:
            fields["reason"] = "lunch"
        return browser.post(place, data=fields, headers=OWN)

    for act, status in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        before = operations.operation(sim.rt, operation).row.status
        ask(browser, place, act=act)
        assert operations.operation(sim.rt, operation).row.status == before, "it was only asked"
        assert steer(act).headers["Location"] == place
        row = operations.operation(sim.rt, operation).row
        assert (row.status, row.reason) == (status, "" if act == "resume" else "lunch")
    assert 'name="act"' not in browser.get(place).text
    assert ask(browser, place, act="resume", sure="yes").status_code == 409
    assert ask(browser, place, act="stop").status_code == 400


def test_an_operation_of_somebody_else_is_for_those_who_see_everything(
    closed: Flask, sim: Simulation, operation: str
) -> None:
    place = f"/operations/{operation}"
    some, all_, reads = closed.test_client(), closed.test_client(), closed.test_client()
    sign_in(some, tokens.create(sim.rt, "bob", ["operate:etl/*"]).text)
    sign_in(all_, tokens.create(sim.rt, "alice", ["operate"]).text)
    sign_in(reads, tokens.create(sim.rt, "eve", ["read"]).text)
    assert some.get(place).status_code == 404
    assert place not in some.get("/operations").text + some.get("/failures").text
    assert ask(some, place, act="pause", sure="yes").status_code == 404
    assert 'name="act"' in all_.get(place).text
    assert reads.get(place).status_code == 200
    assert 'name="act"' not in reads.get(place).text
    assert ask(reads, place, act="pause", sure="yes").status_code == 403
    assert operations.operation(sim.rt, operation).row.status == "running"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/operations/999", 404),
        ("/operations/x", 404),
        ("/operations?before=x", 400),
        ("/operations/{}?state=x", 400),
        ("/operations/{}?after=-7", 400),
    ],
)
def test_addresses_that_are_none_are_said_to_be(
    browser: FlaskClient, operation: str, path: str, status: int
) -> None:
    answer = browser.get(path.format(operation))
    assert (answer.status_code, answer.mimetype) == (status, "text/html")


# --- pictures ---


def test_failures_are_counted_in_spans_that_begin_and_end_together(sim: Simulation) -> None:
    now = sim.rt.clock()
    tally = count_spans([now, now], now, now, 4)
    assert [sum(span.values()) for span in tally.spans] == [2, 0, 0, 0]
    assert [bar.text for bar in make_bars(tally)] == ["2 failed"]


def test_shares_fill_the_bar() -> None:
    shares = make_shares([("completed", 3), ("failed", 0), ("pending", 1)])
    assert [(one.name, one.x, one.width) for one in shares] == [
        ("completed", 0, WIDTH * 0.75),
        ("pending", WIDTH * 0.75, WIDTH * 0.25),
    ]
