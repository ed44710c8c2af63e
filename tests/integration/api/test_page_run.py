"""The page of an execution: its tabs, its steps, and the moment that is looked at."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.facts.callers import Caller
from noetl.testing import Simulation
from noetl.usecases import catalog, control, inspect
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.start import StartRequest, start

from .browsing import Page

BRANCHES = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: branches, path: tests/branches}
workload: {n: 3}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: more, when: "{{ workload.n > 2 }}", set: {ctx.seen: "<i>{{ workload.n }}</i>"}}
        - {step: less, when: "{{ workload.n <= 2 }}"}
  - step: more
    tool: {kind: noop}
  - step: less
    tool: {kind: noop}
"""


@pytest.fixture
def run(sim: Simulation) -> str:
    catalog.register(sim.rt, BRANCHES)
    execution_id = start(sim.rt, StartRequest("tests/branches")).execution_id
    sim.settle()
    return execution_id


def look(browser: FlaskClient, run: str, status: int = 200, **query: Any) -> str:
    answer = browser.get(f"/executions/{run}", query_string=query)
    assert answer.status_code == status, answer.text
    return answer.text


def steps_of(text: str) -> dict[str, str]:
    """Step → what its mark in the graph says."""
    found = re.findall(r'<g class="node (\w+)" data-step="(\w+)"', text)
    return {step: status for status, step in found}


def test_steps_and_arcs_are_as_they_are_now(browser: FlaskClient, run: str) -> None:
    text = look(browser, run)
    assert steps_of(text) == {"start": "done", "more": "done", "less": "not_run"}
    fates = re.findall(r'<g class="wire arc (\w+)"[^>]*><title>(.*?)</title>', text)
    assert sorted(fates) == [
        ("missed", "start → less: workload.n &lt;= 2"),
        ("taken", "start → more: workload.n &gt; 2"),
    ]


def test_steps_are_as_they_were_at_every_version(browser: FlaskClient, sim: Simulation, run: str) -> None:
    for version in range(1, inspect.execution(sim.rt, run).head_version + 1):
        told = inspect.state_view(sim.rt, run, version)["steps"]
        expected = {
            step: told[step]["status"] if step in told else "not_run" for step in ("start", "more", "less")
        }
        assert steps_of(look(browser, run, at=version)) == expected


def test_the_slider_asks_for_the_moment_alone(browser: FlaskClient, run: str) -> None:
    before, after = (
        browser.get(f"/executions/{run}?part=moment{at}", headers={"HX-Request": "true"}).text
        for at in ("&at=1", "")
    )
    assert "seen" not in before
    assert "seen" in after
    assert "<html" not in after
    assert "&lt;i&gt;3&lt;/i&gt;" in after, "what variables hold is text"


def test_inputs_and_labels_of_an_execution_are_shown(browser: FlaskClient, sim: Simulation) -> None:
    labelled = StartRequest(sim.path, payload={"day": "friday"}, labels={"team": "data"})
    given = start(sim.rt, labelled).execution_id
    sim.settle()
    page = browser.get(f"/executions/{given}").text
    assert re.search(r"Inputs .*\bday ?friday\b", " ".join(Page(page).text.split()))
    assert '<a href="/?label=team%3Ddata">team=data</a>' in page


@pytest.mark.parametrize(("act", "said"), [("pause", "Paused by ana"), ("cancel", "Cancelled by ana")])
def test_who_stopped_an_execution_is_said_with_the_reason(
    browser: FlaskClient, sim: Simulation, act: str, said: str
) -> None:
    stopped = sim.start()
    asking = sim.rt.acting_for(Caller("ana", "r1"))
    {"pause": control.pause, "cancel": control.cancel}[act](asking, stopped, "the wrong day")
    sim.settle()
    text = " ".join(Page(look(browser, stopped)).text.split())
    assert re.search(rf"{said}, [0-9: -]+ UTC: the wrong day", text)
    answer = browser.get(f"/api/executions/{stopped}").get_json()["stop"]
    assert (answer["act"], answer["principal"], answer["reason"]) == (act, "ana", "the wrong day")


def test_a_past_moment_shows_its_own_failure_and_result(browser: FlaskClient, sim: Simulation) -> None:
    text = BRANCHES.replace("tests/branches", "tests/fails").replace(
        "result = 1", "raise ValueError('no more')"
    )
    catalog.register(sim.rt, text)
    failed = start(sim.rt, StartRequest("tests/fails")).execution_id
    sim.settle()
    report = inspect.report(sim.rt, failed)
    assert report.error is not None
    assert report.error["message"] in unescape(look(browser, failed))
    assert report.error["message"] not in unescape(look(browser, failed, at=4))
    catalog.register(sim.rt, BRANCHES)
    done = start(sim.rt, StartRequest("tests/branches")).execution_id
    sim.settle()
    assert "<h2>Result</h2>" in look(browser, done)
    assert "<h2>Result</h2>" not in look(browser, done, at=4)


def test_steps_that_have_not_run_are_hidden_where_the_address_says_so(browser: FlaskClient, run: str) -> None:
    assert "hide 1 not run" in look(browser, run)
    text = look(browser, run, unrun="hidden")
    assert steps_of(text) == {"start": "done", "more": "done"}
    assert "show 1 not run" in text
    assert all("unrun=hidden" in one for one in Page(text).links if "step=" in one)


def test_each_step_that_ran_says_how_long(browser: FlaskClient, run: str) -> None:
    times = re.findall(r'data-time="(\w+)">(.*?)</div>', look(browser, run))
    assert [step for step, text in times if re.search(r">[\d.]+ m?s<", text)] == ["start", "more"]


FAULTY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: faulty, path: tests/faulty}
workflow:
  - step: start
    tool: {kind: python, code: "result = {'rows': [{'x': 1}, {'x': 2}]}"}
    next: bare
  - step: bare
    tool: {kind: noop, result: "{{ start.nothing }}"}
    next: last
  - step: last
    tool: {kind: python, code: "CODE"}
"""


def _run_faulty(sim: Simulation, code: str) -> str:
    catalog.register(sim.rt, FAULTY.replace("CODE", code))
    execution_id = start(sim.rt, StartRequest("tests/faulty")).execution_id
    sim.settle()
    return execution_id


def _assert_in_order(text: str, *parts: str) -> None:
    places = [text.index(one) for one in parts]
    assert places == sorted(places)


def test_what_failed_and_what_is_warned_of_stand_above_the_steps(
    browser: FlaskClient, sim: Simulation
) -> None:
    text = look(browser, _run_faulty(sim, "raise ValueError('no more')"))
    _assert_in_order(text, "no more", ">Warnings</h2>", 'class="step-rows"')
    assert re.search(r'<a href="/executions/\d+#warnings">1 warning</a>', text)
    assert 'id="warnings"' in text


def test_the_result_stands_above_the_steps_and_their_values_are_folded(
    browser: FlaskClient, sim: Simulation
) -> None:
    text = look(browser, _run_faulty(sim, "result = 'ready'"))
    _assert_in_order(text, ">Warnings</h2>", "<h2>Result</h2>", 'class="step-rows"', "Results of steps")
    assert "<details><summary>1 field</summary>" in text


def test_what_is_empty_has_no_section(browser: FlaskClient, sim: Simulation) -> None:
    run = _run_faulty(sim, "result = 'ready'")
    assert "<h2>Variables</h2>" not in look(browser, run)
    assert "No variables" in look(browser, run, tab="variables")


def test_steps_that_a_retry_keeps_say_from_where_in_the_place_of_a_time(
    browser: FlaskClient, sim: Simulation
) -> None:
    first = _run_faulty(sim, "raise ValueError('no more')")
    second = retry(sim.rt, RetryRequest(first)).execution_id
    sim.settle()
    text = look(browser, second)
    kept = f'kept from <a href="/executions/{first}">{first}</a>'
    assert text.count(kept) == 2, "start and bare"
    assert len(re.findall(r'<rect class="kept[ "]', text.partition('class="legend')[0])) == 2
    assert f"<title>start#1: kept from {first}</title>" in text
    assert re.findall(r'data-time="(\w+)"', text) == ["last"]
    assert "kept from" not in look(browser, first)


def test_the_title_leads_to_the_playbook_and_its_editor(browser: FlaskClient, run: str) -> None:
    links = Page(look(browser, run)).links
    assert "/playbooks/tests/branches?version=1" in links
    assert "/edit?path=tests/branches&version=1" in links


def test_who_paused_an_execution_is_forgotten_once_it_goes_on(browser: FlaskClient, sim: Simulation) -> None:
    run = sim.start()
    control.pause(sim.rt.acting_for(Caller("ana", "r1")), run)
    control.resume(sim.rt, run)
    sim.settle()
    assert browser.get(f"/api/executions/{run}").get_json()["stop"] is None


def test_what_was_true_once_is_not_looked_at_again(browser: FlaskClient, sim: Simulation) -> None:
    waiting = sim.start({"wait_for_go": True})
    sim.settle()
    assert f'data-live="{waiting}"' in look(browser, waiting)
    assert "data-live" not in look(browser, waiting, at=3)


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ({"at": "soon"}, 400, "at='soon'"),
        ({"at": "99999"}, 400, "99999"),
        ({"iteration": "-1"}, 400, "iteration='-1'"),
        ({"tab": "lgos"}, 404, "lgos"),
    ],
)
def test_an_address_that_means_nothing_is_answered_in_a_sentence(
    browser: FlaskClient, run: str, query: dict[str, str], status: int, said: str
) -> None:
    assert said in Page(look(browser, run, status, **query)).text


def test_every_tab_has_an_address_and_a_page(browser: FlaskClient, run: str) -> None:
    links = [one for one in Page(look(browser, run)).links if "tab=" in one]
    assert links
    for link in links:
        answer = browser.get(link)
        assert answer.status_code == 200, link
        assert 'aria-current="page"' in answer.text


def test_an_execution_that_is_only_asked_for_has_steps_that_have_not_run(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    pending = start(sim.rt, StartRequest("tests/branches")).execution_id
    assert set(steps_of(look(browser, pending)).values()) == {"not_run"}
