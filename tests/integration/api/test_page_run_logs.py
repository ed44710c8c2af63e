"""The tab of what tasks print: the newest lines first to be seen, narrowed and searched."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.facts.logs import LogChunk, LogPosition
from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.start import StartRequest, start

from .browsing import Page

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def run(sim: Simulation) -> str:
    run = sim.start()
    sim.settle()
    return run


def say(sim: Simulation, run: str, text: str, stream: Any = "stdout", **place: Any) -> None:
    where = replace(LogPosition(run, "start", "start#1", None, "t", 1, 1), **place)
    with sim.rt.store.begin() as tx:
        tx.executions.lock(run)
        tx.logs.add(run, [LogChunk(where, stream, 0, text, NOW)])


def look(browser: FlaskClient, execution: str, **query: Any) -> str:
    found = browser.get(f"/executions/{execution}", query_string={"tab": "logs", **query})
    assert found.status_code == 200, Page(found.text).text
    return str(found.text)


def lines(page: str) -> list[str]:
    found = re.findall(r'<tr id="l[^>]*>.*?<td class="text">(.*?)</td>', page, re.DOTALL)
    return [Page(one).text for one in found]


def follow(browser: FlaskClient, page: str, word: str) -> str:
    (where,) = re.findall(rf'<a[^>]* href="([^"]*)"[^>]*>{word}</a>', page)
    return str(browser.get(unescape(where)).text)


def test_nothing_was_printed(browser: FlaskClient, run: str) -> None:
    assert "Its tasks have printed nothing." in Page(look(browser, run)).text


def test_the_newest_lines_are_shown_and_earlier_ones_are_a_link_away(
    browser: FlaskClient, sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.ui.run.logs.PAGE", 3)
    say(sim, run, "".join(f"line {number}\n" for number in range(7)))
    page = look(browser, run)
    assert lines(page) == ["line 4", "line 5", "line 6"]
    earlier = follow(browser, page, "Earlier lines")
    assert lines(earlier) == ["line 1", "line 2", "line 3"]
    first = follow(browser, earlier, "Earlier lines")
    assert lines(first) == ["line 0"]
    assert "Earlier lines" not in first
    assert lines(follow(browser, first, "The newest lines")) == lines(page)


def test_lines_say_where_they_come_from(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "one\n", iteration=3, attempt=2)
    say(sim, run, "oh\n", "stderr", delivery=2)
    say(sim, run, "[some is missing]\n", "note")
    page = look(browser, run)
    said = Page(page)
    assert "start[3]" in said.text
    assert "attempt 2" in said.text
    assert "delivery 2" in said.text
    assert lines(page) == ["one", "stderr oh", "note [some is missing]"]
    assert any("step=start" in one and "iteration=3" in one and "tab=" not in one for one in said.links)
    assert "2026-03-01T12:00:00" in page


def test_lines_are_narrowed(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "one\n", iteration=3)
    say(sim, run, "two\n", step="gate", run_id="gate#1")
    say(sim, run, "three\n", attempt=2, run_id="start#2")
    assert lines(look(browser, run, step="start")) == ["one", "three"]
    assert lines(look(browser, run, iteration=3)) == ["one"]
    assert lines(look(browser, run, attempt=2)) == ["three"]
    assert lines(look(browser, run, step="start", run="start#1")) == ["one"]
    page = look(browser, run, step="gate", q="three")
    assert "No matching lines." in Page(page).text
    assert Page(page).fields["step"] == "gate"
    answer = browser.get(f"/executions/{run}?tab=logs&attempt=first")
    assert (answer.status_code, "is no number" in answer.text) == (400, True)


def test_what_is_searched_for_is_marked_and_counted(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "It \x1b[31mTimed\x1b[0m Out, timed out\nall <b>is</b> well\n<b>\n")
    page = look(browser, run, q="timed out")
    assert lines(page) == ["It Timed Out, timed out"]
    assert "<mark>Timed Out</mark>, <mark>timed out</mark>" in page
    assert "1 of 3 lines holds “timed out”." in Page(page).text
    assert lines(look(browser, run, q="<B>")) == ["all <b>is</b> well", "<b>"]
    assert "<mark>&lt;b&gt;</mark>" in look(browser, run, q="<b>")
    assert lines(look(browser, run, q=".*")) == []


def test_a_search_says_where_it_ended(
    browser: FlaskClient, sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.usecases.printed_lines._ROWS", 2)
    monkeypatch.setattr("noetl.ui.run.logs.MOST_SEARCHED", 1500)
    say(sim, run, "here\n")
    for _ in range(20):
        say(sim, run, f"{'x' * 200}\n")
    page = look(browser, run, q="here")
    assert lines(page) == []
    assert "No more than the last 1,500 characters were looked through." in Page(page).text
    while not lines(page):
        page = follow(browser, page, "Search further back")
    assert lines(page) == ["here"]
    assert "looked through" not in page


def test_lines_are_narrowed_by_stream_and_by_level(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "plain\n")
    assert 'name="level"' not in look(browser, run), "there are none"
    say(sim, run, "2026-01-01 INFO well\n2026-01-01 WARN: hot\n")
    say(sim, run, "ERROR broken\n", "stderr")
    assert lines(look(browser, run, stream="stderr")) == ["stderr ERROR broken"]
    assert lines(look(browser, run, level="WARNING")) == ["2026-01-01 WARN: hot", "stderr ERROR broken"]
    page = look(browser, run, level="INFO", stream="stdout", q="hot")
    assert lines(page) == ["2026-01-01 WARN: hot"]
    assert (Page(page).fields["level"], Page(page).fields["stream"]) == ("INFO", "stdout")


def test_what_was_printed_is_kept_as_a_text(browser: FlaskClient, sim: Simulation, run: str) -> None:
    for number in range(3):
        say(sim, run, f"line {number}\n" * 400, iteration=number)
    say(sim, run, "oh\n", "stderr")
    (where,) = re.findall(r'href="([^"]*as=file[^"]*)"', look(browser, run))
    answer = browser.get(unescape(where))
    assert answer.mimetype == "text/plain"
    text = answer.text.splitlines()
    assert len(text) == 1201, "more than one page has"
    assert text[0] == f"{NOW.isoformat()} stdout start[0] line 0"
    assert text[-1] == f"{NOW.isoformat()} stderr start oh"
    (where,) = re.findall(r'href="([^"]*as=file[^"]*)"', look(browser, run, stream="stderr"))
    assert browser.get(unescape(where)).text.splitlines() == text[-1:]


def test_each_line_says_its_step(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "a\n" * 40, iteration=3)
    page = look(browser, run)
    assert len(re.findall(r'<td class="where">.*?start\[3\].*?</td>', page, re.DOTALL)) == 40


def test_lines_are_wrapped_or_not(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "a\n")
    assert 'class="printed"' in look(browser, run)
    assert 'class="printed unwrapped"' in look(browser, run, nowrap="1")


FAILS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: logs/fails}
workflow:
  - step: well
    tool: {kind: noop}
    next: odd
  - step: odd
    tool:
      kind: python
      code: raise ValueError("no <b>money</b>")
"""


def test_the_exception_of_the_step_stands_at_the_end_of_its_logs(
    browser: FlaskClient, sim: Simulation
) -> None:
    catalog.register(sim.rt, FAILS)
    run = start(sim.rt, StartRequest("logs/fails")).execution_id
    sim.settle()
    say(sim, run, "before\n", step="odd", run_id="odd#1")
    message = "no &lt;b&gt;money&lt;/b&gt;"

    def shows(page: str) -> bool:
        """Below the lines: the head of the page has the error of all of it as well."""
        return message in page.partition("before")[2]

    assert shows(look(browser, run, step="odd"))
    assert shows(look(browser, run))
    assert shows(browser.get(f"/executions/{run}?step=odd&about=logs").text)
    assert not shows(look(browser, run, q="before"))
    assert message not in look(browser, run, step="well").partition('class="filters')[2]


def test_what_cannot_be_seen_is_made_visible(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "bell\x07 back\rturned \u202eround<script>\n")
    page = look(browser, run)
    assert lines(page) == ["bell\u2407 back\u240dturned [U+202E]round<script>"]
    assert "round&lt;script&gt;" in page


def test_long_lines_are_cut(browser: FlaskClient, sim: Simulation, run: str) -> None:
    say(sim, run, "x" * 300_000 + "\n")
    page = look(browser, run)
    assert len(page) < 50_000
    assert lines(page) == [f"{'x' * 2000}… 298,000 more characters"]


def test_pages_stay_small(browser: FlaskClient, sim: Simulation, run: str) -> None:
    for number in range(40):
        say(sim, run, f"{'y' * 90}\n" * 50, iteration=number)
    page = look(browser, run)
    assert len(lines(page)) == 500
    assert len(page) < 300_000
