"""The tab of variables: a console for expressions."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.facts.reference import Retention
from noetl.testing import Simulation
from noetl.usecases import catalog, tokens
from noetl.usecases.start import StartRequest, start

from .browsing import Page, sign_in
from .shop import CHILD, follow, has_link, look, open_shop, start_run


@pytest.fixture
def sim() -> Simulation:
    return open_shop()


@pytest.fixture
def run(sim: Simulation) -> str:
    return start_run(sim)


def told(page: str) -> str:
    return " ".join(Page(page.split('<div class="answer"')[1].split("</section>")[0]).text.split())


def test_the_console_answers(browser: FlaskClient, run: str) -> None:
    assert '<div class="answer"' not in look(browser, run, "variables")
    page = look(browser, run, "variables", expr="ctx.total + 40")
    assert told(page).endswith(" 42")
    assert Page(page).fields["expr"] == "ctx.total + 40"
    assert "0" in told(look(browser, run, "variables", expr="ctx.total", at=3))
    assert "Did you mean 'total'?" in told(look(browser, run, "variables", expr="ctx.totl"))
    page = look(browser, run, "variables", expr="said | uper")
    assert "Did you mean 'upper'?" in told(page)
    assert "<mark>uper</mark>" in page
    assert "at most 2,000" in told(look(browser, run, "variables", expr="1" * 2001))


def test_the_console_shows_what_it_finds_as_text(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "variables", expr="said")
    assert "<b>bold</b>" in told(page)
    assert "<b>bold" not in page
    assert "<s>" not in look(browser, run, "variables", expr="'<s>' + nope.x")


def test_names_are_offered(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, "variables")
    for name in ("ctx", "workload", "load", "total", "items", "said"):
        assert "0" in told(follow(browser, page, name)) or told(follow(browser, page, name))
    assert not has_link(page, "env")


def test_the_console_opens_nothing_of_others(closed: Flask, sim: Simulation, run: str) -> None:
    catalog.register(sim.rt, CHILD.replace("shop/child", "secret/child"))
    other = start(sim.rt, StartRequest("secret/child")).execution_id
    theirs = sim.rt.results.put(["their secret"] * 3, Retention(other))
    browser = closed.test_client()
    sign_in(browser, tokens.create(sim.rt, "eve", ("read:shop/*",)).text)
    made_up = f"[{{'kind': 'result_ref', 'ref': '{theirs['ref']}'}}][0]"
    for expression in (made_up, f"{made_up}[0]", f"{{{{ {made_up} | tojson }}}}"):
        page = look(browser, run, "variables", expr=expression)
        assert "their secret" not in page
