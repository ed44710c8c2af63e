"""The tab of the executions that were called."""

from __future__ import annotations

import re

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import inspect
from noetl.usecases.signals import SignalRequest, send_signal

from .browsing import Page
from .shop import approve, follow, has_link, look, open_shop, pay, start_run


@pytest.fixture
def sim() -> Simulation:
    return open_shop()


@pytest.fixture
def run(sim: Simulation) -> str:
    return start_run(sim)


def test_called_executions_are_paged_and_say_who_called_them(
    browser: FlaskClient, sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No called executions." in Page(look(browser, run, "called")).text
    pay(sim, run)
    approve(sim, run)
    for _ in range(2):
        sim.pass_time(1)
        newest, *_ = inspect.executions(sim.rt, parent=run)
        send_signal(sim.rt, newest.execution_id, SignalRequest("go"))
        sim.settle()
    third, second, first = (one.execution_id for one in inspect.executions(sim.rt, parent=run))
    monkeypatch.setattr("noetl.ui.run.called.PAGE", 2)
    page = look(browser, run, "called")
    assert re.findall(r'<tr id="c(\d+)"', page) == [third, second]
    assert "call#1[2]" in Page(page).text
    assert "waits for signal 'go'" in Page(page).text
    assert re.search(r'tab=called"[^>]*>Called <span class="muted">3<', page)
    older = follow(browser, page, "Older")
    assert re.findall(r'<tr id="c(\d+)"', older) == [first]
    assert not has_link(older, "Older")
    child = Page(look(browser, first, "called"))
    assert f"called by {run}, in call#1[0]" in child.text
    assert any(one.startswith(f"/executions/{run}?step=call&run=call%231&iteration=0") for one in child.links)
