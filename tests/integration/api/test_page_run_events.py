"""The tab of the log: its events by page, in both orders, narrowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.facts.callers import Caller
from noetl.facts.event_names import TYPES
from noetl.testing import Simulation
from noetl.ui.kept_parts import say_now
from noetl.usecases import tokens
from noetl.usecases.signals import SignalRequest, send_signal

from .browsing import Page, sign_in
from .shop import follow, has_link, look, open_shop, start_run, versions


@pytest.fixture
def sim() -> Simulation:
    return open_shop()


@pytest.fixture
def run(sim: Simulation) -> str:
    return start_run(sim)


@pytest.fixture
def blocks_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.ui.run.events.BLOCK", 10)


@pytest.mark.usefixtures("blocks_of_ten")
def test_the_log_is_shown_by_page_in_both_orders(browser: FlaskClient, sim: Simulation, run: str) -> None:
    head = len(sim.events(run))
    begin = (head - 1) // 10 * 10
    page = look(browser, run, "events")
    assert versions(page) == list(range(head, begin - 10, -1))
    assert not has_link(page, "Newer")
    older = follow(browser, page, "Older")
    assert versions(older) == list(range(begin - 10, begin - 20, -1))
    newer = follow(browser, older, "Newer")
    assert versions(newer) == list(range(begin, begin - 10, -1))
    assert versions(follow(browser, newer, "Newer")) == list(range(head, begin, -1))
    assert versions(follow(browser, older, "Newest")) == versions(page)
    first = look(browser, run, "events", order="oldest")
    assert versions(first) == list(range(1, 21))
    assert not has_link(first, "Older")
    second = follow(browser, first, "Newer")
    assert versions(second) == list(range(21, min(head, 30) + 1))
    assert versions(follow(browser, follow(browser, second, "Older"), "Older")) == list(range(1, 11))


@pytest.mark.usefixtures("blocks_of_ten")
def test_a_block_of_the_log_stays_what_it_is_as_more_happens(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    block = {"tab": "events", "part": "rows", "first": 13, "step": "load"}
    script = {"HX-Request": "true"}
    found = browser.get(f"/executions/{run}", query_string=block, headers=script).text
    of_load = [event.version for event in sim.events(run) if event.draft.step == "load"]
    assert versions(found) == of_load[10:20][::-1]
    assert "<form" not in found
    send_signal(sim.rt, run, SignalRequest("paid"))
    sim.settle()
    assert browser.get(f"/executions/{run}", query_string=block, headers=script).text == found


@pytest.mark.usefixtures("blocks_of_ten")
def test_a_page_that_looks_again_is_sent_the_rows_that_it_lacks(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    head = len(sim.events(run))
    begin = (head - 1) // 10 * 10

    def look_again(known: int, **more: Any) -> str:
        headers = {"HX-Request": "true", "Rows-Known": str(known), "News-At": say_now()}
        return str(
            browser.get(f"/executions/{run}", query_string={"tab": "events", **more}, headers=headers).text
        )

    assert versions(look_again(head - 2)) == [head, head - 1]
    assert versions(look_again(head - 2, order="oldest")) == [head - 1, head]
    # What it lacks of others it asks for by block.
    assert versions(look_again(1)) == list(range(head, begin, -1))
    for known in (head, head + 5):
        nothing_new = look_again(known)
        assert versions(nothing_new) == []
        assert f'data-rows="{head}"' in nothing_new


def test_a_place_in_the_log_that_is_none_is_its_end_or_answered(browser: FlaskClient, run: str) -> None:
    assert versions(look(browser, run, "events", first=99999))[-1] == 1
    assert versions(look(browser, run, "events", first=0)) == versions(look(browser, run, "events"))
    assert versions(look(browser, run, "events", first=3, step="nowhere")) == []
    refused = browser.get(f"/executions/{run}", query_string={"tab": "events", "first": "x"})
    assert refused.status_code == 400


@pytest.mark.usefixtures("blocks_of_ten")
def test_as_of_a_version_the_log_ends_there(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "events", at=7)
    assert versions(page) == [7, 6, 5, 4, 3, 2, 1]
    assert versions(look(browser, run, "events", at=7, order="oldest")) == [1, 2, 3, 4, 5, 6, 7]
    assert not has_link(page, "Newer")
    assert not has_link(page, "Older")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"type": "step.failed"}, lambda event: event.fact.type == "step.failed"),
        ({"type": "call.error"}, lambda event: event.fact.type == "task.failed"),
        ({"type": "failures"}, lambda event: event.fact.type in ("step.failed", "task.failed")),
        ({"step": "load"}, lambda event: event.draft.step == "load"),
        ({"run": "load#1", "iteration": "1"}, lambda event: event.draft.iteration == 1),
        ({"step": "nowhere"}, lambda event: False),
    ],
)
def test_the_log_is_narrowed(
    browser: FlaskClient, sim: Simulation, run: str, query: dict[str, str], wanted: Callable[[Any], bool]
) -> None:
    found = versions(look(browser, run, "events", **query))
    assert found == [event.version for event in reversed(sim.events(run)) if wanted(event)]


def test_types_can_be_chosen_and_others_are_none(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "events", type="step.faild")
    assert "&#39;step.faild&#39; is not a type of event. Did you mean &#39;step.failed&#39;?" in page
    assert versions(page) == []
    assert [one for one in TYPES if f'<option value="{one}">' not in page] == []


def test_an_event_says_where_it_stands_and_who_asked_for_it(closed: Flask, sim: Simulation, run: str) -> None:
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "ada", ("read", "run")).text)
    rt = sim.rt.acting_for(Caller("ada", "r1"))
    send_signal(rt, run, SignalRequest("paid", payload={"to": "<i>ada</i>"}))
    page = look(browser, run, "events", type="signal.received")
    assert "by ada" in Page(page).text
    assert "<i>ada</i>" not in page
    assert "&lt;i&gt;ada&lt;/i&gt;" in page
    (version,) = versions(page)
    links = Page(look(browser, run, "events")).links
    assert f"/executions/{run}?at={version}" in links
    assert any("step=load" in one and "iteration=2" in one and "tab=" not in one for one in links)


def test_a_page_of_the_log_stays_small_and_what_is_large_is_opened(
    browser: FlaskClient, sim: Simulation
) -> None:
    run = sim.start({"items": list(range(150)), "said": '"<&>"' * 4000})
    sim.settle()
    page = look(browser, run, "events")
    assert 100 < len(versions(page)) <= 200
    assert len(page) < 300_000
    (version, *_) = versions(look(browser, run, "events", type="task.done"))
    opened = look(browser, run, "events", type="task.done", open=version)
    assert len(opened) < 500_000
    row = opened.split(f'<tr id="v{version}"')[1].split("</tr>")[0]
    assert "<details open>" in row
    assert row.count("&lt;&amp;&gt;") > 1000
    assert "as JSON" in row
