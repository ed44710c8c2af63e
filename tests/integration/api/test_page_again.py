"""Beginning anew from a step: the plan first, then the execution; and who may."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog, inspect, tokens

from .browsing import OWN, Page, sign_in

PAYS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: pays, path: tests/pays}
workload: {n: 2}
workflow:
  - step: start
    tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "result = n"}
    set: {ctx.total: "{{ result }}"}
    next: pay
  - step: pay
    tool: {kind: python, effects: external, input: {n: "{{ ctx.total }}"}, code: "result = n"}
    next: tell
  - step: tell
    tool: {kind: python, code: "raise ValueError('nobody is there')"}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(PAYS)


@pytest.fixture
def run(sim: Simulation) -> str:
    execution_id = sim.start()
    sim.rest()
    return execution_id


def send(browser: FlaskClient, run: str, do: str, **fields: Any) -> Any:
    """Presses a button of the drawer, and what its dialog asks for with `sure`."""
    page = Page(browser.get(f"/executions/{run}?step=pay").text)
    form = {"form_key": page.fields["form_key"], "id": run, "do": do, **fields}
    return browser.post("/again", data=form, headers=OWN)


def text_of(answer: Any) -> str:
    return " ".join(Page(answer.text).text.split())


def descendants(sim: Simulation, run: str) -> list[str]:
    return [one["execution_id"] for one in inspect.report(sim.rt, run).descendants]


def test_a_retry_shows_its_plan_and_starts_nothing(browser: FlaskClient, sim: Simulation, run: str) -> None:
    asked = send(browser, run, "retry", begin="tell#1")
    assert asked.status_code == 200
    said = text_of(asked)
    assert "Retry from run tell#1?" in said
    assert re.search(r"start ?kept ?pay ?kept ?tell ?runs again ?asked for", said)
    assert "may have had effects" not in said
    assert descendants(sim, run) == []


def test_a_retry_leads_to_the_new_execution(browser: FlaskClient, sim: Simulation, run: str) -> None:
    done = send(browser, run, "retry", begin="tell#1", sure="yes")
    (new,) = descendants(sim, run)
    assert (done.status_code, done.headers["Location"]) == (303, f"/executions/{new}")
    assert inspect.execution(sim.rt, new).descent == "retry"


def test_a_script_is_led_to_the_new_execution(browser: FlaskClient, sim: Simulation, run: str) -> None:
    page = Page(browser.get(f"/executions/{run}?step=pay").text)
    form = {"form_key": page.fields["form_key"], "id": run, "do": "fork", "begin": "pay#1", "sure": "yes"}
    done = browser.post("/again", data=form, headers={**OWN, "HX-Request": "true"})
    (new,) = descendants(sim, run)
    assert done.headers["HX-Redirect"] == f"/executions/{new}"


def test_effects_are_named_and_have_to_be_confirmed(browser: FlaskClient, sim: Simulation, run: str) -> None:
    refused = send(browser, run, "retry", begin="pay#1", sure="yes")
    assert refused.status_code == 409
    page = Page(refused.text)
    assert "of step 'pay'" in page.text
    assert "--yes" not in page.text
    assert page.types["confirmed"] == "checkbox"
    assert descendants(sim, run) == []
    assert send(browser, run, "retry", begin="pay#1", sure="yes", confirmed="yes").status_code == 303
    assert len(descendants(sim, run)) == 1


def test_other_inputs_change_the_plan(browser: FlaskClient, sim: Simulation, run: str) -> None:
    said = text_of(send(browser, run, "retry", begin="tell#1", inputs="workload: 1\nn: 5"))
    assert "start" in said
    done = send(browser, run, "retry", begin="tell#1", inputs="n: 5", sure="yes", confirmed="yes")
    assert done.status_code == 303
    sim.rest()
    (new,) = descendants(sim, run)
    assert inspect.report(sim.rt, new).ctx == {"total": 5}


def test_a_retry_is_that_of_the_plan_that_was_shown(browser: FlaskClient, sim: Simulation, run: str) -> None:
    plan = Page(send(browser, run, "retry", begin="tell#1").text).fields
    typed = {"begin": "tell#1", "shown": plan["shown"], "sure": "yes", "confirmed": "yes"}
    refused = send(browser, run, "retry", **typed, inputs="n: 5")
    assert (refused.status_code, "since the plan was shown" in text_of(refused)) == (409, True)
    assert "tell" in text_of(refused), "the new plan"
    assert descendants(sim, run) == []
    shown = Page(refused.text).fields["shown"]
    assert shown != plan["shown"]
    catalog.register(sim.rt, PAYS.replace("nobody", "somebody"))
    newest = send(browser, run, "retry", **typed, version="newest")
    assert newest.status_code == 409
    assert send(browser, run, "retry", **{**typed, "shown": shown}, inputs="n: 5").status_code == 303


@pytest.mark.parametrize("do", ["retry", "fork"])
def test_what_is_wrong_is_said_beside_what_was_typed(
    browser: FlaskClient, sim: Simulation, run: str, do: str
) -> None:
    refused = send(browser, run, do, begin="pay#1", inputs="n: [1", sure="yes")
    assert refused.status_code == 400
    page = Page(refused.text)
    assert "it must be a mapping of JSON or YAML" in page.text
    assert page.fields["inputs"] == "n: [1"
    assert descendants(sim, run) == []


def test_a_fork_says_what_it_keeps(browser: FlaskClient, sim: Simulation, run: str) -> None:
    said = text_of(send(browser, run, "fork", begin="pay#1"))
    begun = next(one.version for one in sim.events(run) if one.draft.run_id == "pay#1")
    assert f"the first {begun - 1} events of {len(sim.events(run))}" in said
    assert re.search(r"Completed steps ?start ?Runs", said)
    assert descendants(sim, run) == []


def test_a_fork_goes_on_with_other_variables(browser: FlaskClient, sim: Simulation, run: str) -> None:
    assert send(browser, run, "fork", begin="pay#1", inputs='{"total": 7}', sure="yes").status_code == 303
    sim.rest()
    (new,) = descendants(sim, run)
    assert inspect.report(sim.rt, new).ctx == {"total": 7}


def test_a_fork_begins_at_the_version_of_the_slider(browser: FlaskClient, sim: Simulation, run: str) -> None:
    page = Page(browser.get(f"/executions/{run}?at=5").text)
    assert page.fields["at"] == "5"
    assert "Fork at version 5" in page.text
    assert "Fork at version 5?" in text_of(send(browser, run, "fork", at="5"))
    assert send(browser, run, "fork", at="5", sure="yes").status_code == 303
    assert send(browser, run, "fork", at="x", sure="yes").status_code == 400
    assert len(descendants(sim, run)) == 1


def test_what_still_runs_is_forked_and_not_retried(browser: FlaskClient, sim: Simulation) -> None:
    fresh = sim.start()
    page = Page(browser.get(f"/executions/{fresh}?step=start").text)
    assert "Retry from here" not in page.text
    refused = send(browser, fresh, "retry", begin="start", sure="yes")
    assert refused.status_code == 409
    assert "a retry begins where it has ended" in Page(refused.text).text


@pytest.fixture
def closed_client(closed: Flask) -> FlaskClient:
    return closed.test_client()


def test_who_may_only_read_begins_nothing(closed_client: FlaskClient, sim: Simulation, run: str) -> None:
    token = tokens.create(sim.rt, "eve", ["read"])
    sign_in(closed_client, token.text)
    text = closed_client.get(f"/executions/{run}?step=pay").text
    assert "/again" not in Page(text).actions
    assert 'action="/fixture"' in text
    assert send(closed_client, run, "fork", begin="pay#1", sure="yes").status_code == 403
    assert closed_client.get("/fixture", query_string={"id": run}).status_code == 200
    assert descendants(sim, run) == []


def test_who_may_operate_another_playbook_begins_nothing(
    closed_client: FlaskClient, sim: Simulation, run: str
) -> None:
    token = tokens.create(sim.rt, "eve", ["operate:other/*", "read:other/*"])
    sign_in(closed_client, token.text)
    key = Page(closed_client.get("/").text).fields["form_key"]
    form = {"form_key": key, "id": run, "do": "fork", "begin": "pay#1", "sure": "yes"}
    assert closed_client.post("/again", data=form, headers=OWN).status_code == 404
    assert closed_client.get("/fixture", query_string={"id": run}).status_code == 404
    assert descendants(sim, run) == []


def test_the_test_that_an_execution_would_pass(browser: FlaskClient, run: str) -> None:
    made = browser.get("/fixture", query_string={"id": run})
    said = Page(made.text)
    assert f"# Made of execution {run} of tests/pays@1." in said.text
    assert "noetl test test.test.yaml" in said.text
    assert f"/api/executions/{run}/fixture" in said.links
    assert browser.get("/fixture", query_string={"id": "7"}).status_code == 404
