"""The tab of the source: the text that ran, with the step and its faults marked."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog, specimens
from noetl.usecases.start import StartRequest, start

from .browsing import Page
from .shop import SHOP, follow, has_link, look, open_shop, start_run


@pytest.fixture
def sim() -> Simulation:
    return open_shop()


@pytest.fixture
def run(sim: Simulation) -> str:
    return start_run(sim)


def marked(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<tr id="L(\d+)" class="marked"', page)]


def test_the_source_is_shown_line_by_line_with_the_step_marked(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "source")
    shown = re.findall(r'<tr id="L(\d+)".*?<td class="text">(.*?)</td>', page, re.DOTALL)
    plain = [Page(re.sub(r'<p class="\w+">.*?</p>', "", line, flags=re.DOTALL)).text for _, line in shown]
    assert plain == SHOP.splitlines()
    assert [int(number) for number, _ in shown] == list(range(1, len(plain) + 1))
    assert marked(page) == []
    lines = SHOP.splitlines()
    begin = lines.index("  - step: load") + 1
    assert marked(look(browser, run, "source", step="load")) == list(range(begin, begin + 5))
    begin = lines.index("  - step: call") + 1
    assert marked(look(browser, run, "source", step="call")) == list(range(begin, len(lines) + 1))
    assert marked(look(browser, run, "source", step="nowhere")) == []
    assert all(
        f"/executions/{run}?tab=source&step={one}".replace("tab=source&", "") in Page(page).links
        for one in ("load", "fails", "wait", "sign", "call")
    )


def test_what_went_wrong_stands_beside_its_line(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "source")
    faulty = page.split('<p class="fault">')
    assert len(faulty) == 2
    number = re.findall(r'<tr id="L(\d+)"', faulty[0])[-1]
    assert "raise ValueError" in SHOP.splitlines()[int(number) - 1]
    assert "no <i>money</i>" not in page


def test_an_older_version_is_shown_as_it_ran(browser: FlaskClient, sim: Simulation, run: str) -> None:
    catalog.register(sim.rt, SHOP.replace("The first one.", "Another text."))
    page = look(browser, run, "source")
    assert "The first one." in page
    assert "Another text." not in page


def test_an_imported_execution_says_that_it_has_no_source(browser: FlaskClient, sim: Simulation) -> None:
    other = Simulation(SHOP.replace("The first one.", "Theirs."))
    there = other.start()
    other.settle()
    lines = [line.encode() for line in specimens.export(other.rt, there)]
    specimens.keep(sim.rt, specimens.check(sim.rt, lines))
    said = Page(look(browser, there, "source")).text
    assert "The execution was imported from another installation" in said
    assert "The first one." not in said


def test_a_long_source_is_shown_in_parts_around_its_step(
    browser: FlaskClient, sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = "".join(f"  - step: s{number}\n    next: s{number + 1}\n" for number in range(300))
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: long, path: shop/long}\nworkflow:\n"
    catalog.register(sim.rt, f"{head}{steps}  - step: s300\n    tool: {{kind: noop}}\n")
    run = start(sim.rt, StartRequest("shop/long")).execution_id
    sim.settle()
    monkeypatch.setattr("noetl.ui.run.source.PAGE", 200)
    page = look(browser, run, "source")
    assert page.count('<tr id="L') == 200
    assert '<tr id="L201"' in follow(browser, page, "Lines below")
    page = look(browser, run, "source", step="s299")
    assert marked(page) == [603, 604]
    assert has_link(page, "Lines above")
