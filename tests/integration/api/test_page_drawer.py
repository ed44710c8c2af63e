"""The drawer of a step on the page of an execution: what it shows, of which run, and as of when."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.facts.outcome import ErrorInfo, Outcome, failed
from noetl.history.run_details import find_standings
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.ui.run.drawer_cells import MOST_CELLS, map_iterations
from noetl.usecases import catalog
from noetl.usecases.start import StartRequest, start

from .browsing import Page

SHOP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shop, path: tests/shop}
workload: {limit: 2, fail: [1]}
workflow:
  - step: start
    tool: {kind: python, code: "result = [10, 20, 30]"}
    next:
      - {step: charge, when: "{{ start | length > workload.limit }}", args: {orders: "{{ start }}"}}
      - {step: nothing}
  - step: charge
    desc: Charges <b>each</b> order.
    loop:
      in: "{{ args.orders }}"
      iterator: order
      spec: {mode: parallel, policy: {failure: {mode: best_effort, tolerate: {count: 5}}}}
    tool:
      kind: python
      input: {order: "{{ iter.order }}", at: "{{ iter._index }}", fail: "{{ workload.fail }}"}
      code: |
        if order // 10 - 1 in fail:
            raise ValueError("<i>no</i> money for %d" % order)
        result = {"paid": order}
    next: report
  - step: report
    tool:
      - first: {kind: python, code: "result = 'sum'"}
      - send:
          kind: python
          code: |
            a = 1
            raise RuntimeError("the line is cut")
          spec:
            policy:
              rules:
                - {when: "{{ outcome.status == 'error' and _attempt < 3 }}", then: {do: retry, attempts: 3}}
                - else: {then: {do: fail}}
    next: {step: after}
  - step: nothing
    tool: {kind: noop}
  - step: after
    tool: {kind: noop}
"""


def refuse(_call: Call) -> Outcome:
    error = ErrorInfo("client_error", "GET http://x answered 404.", type="Http404")
    return failed(error, http={"status": 404, "body": {"detail": "there is no order 7"}})


@pytest.fixture
def sim() -> Simulation:
    return Simulation(SHOP, {"http": refuse})


@pytest.fixture
def run(sim: Simulation) -> str:
    execution_id = sim.start()
    sim.rest()
    return execution_id


def look(browser: FlaskClient, execution: str, status: int = 200, **query: Any) -> str:
    """The drawer's markup."""
    answer = browser.get(f"/executions/{execution}", query_string=query)
    assert answer.status_code == status, Page(answer.text).text
    found = re.search(r"<aside.*</aside>", answer.text, re.DOTALL)
    return found.group(0) if found else answer.text


def read(browser: FlaskClient, execution: str, **query: Any) -> str:
    """What stands in the drawer, in one line."""
    return " ".join(Page(look(browser, execution, **query)).text.split())


def test_the_drawer_stands_there_only_where_a_step_is_looked_at(browser: FlaskClient, run: str) -> None:
    page = browser.get(f"/executions/{run}").text
    assert "<aside" not in page
    assert f'href="/executions/{run}?step=charge"' in page
    opened = look(browser, run, step="charge")
    assert 'aria-label="Step charge"' in opened
    assert f'href="/executions/{run}"' in opened


def test_it_says_how_the_step_went_and_what_it_is(browser: FlaskClient, run: str) -> None:
    said = read(browser, run, step="charge")
    assert "It ran after start." in said
    assert "loop of python" in said
    assert "Charges <b>each</b> order." in said
    assert "test.yaml:11" in said
    assert "{{ start | length > workload.limit }} with start = [10, 20, 30], workload.limit = 2: held" in said


def test_attempts_are_told_one_by_one(browser: FlaskClient, run: str) -> None:
    said = read(browser, run, step="report", about="attempts")
    attempts = re.findall(r"(send|first) (\d) (done|failed)", said)
    assert attempts == [
        ("send", "3", "failed"),
        ("send", "2", "failed"),
        ("send", "1", "failed"),
        ("first", "1", "done"),
    ]


def test_the_body_of_a_failed_call_stands_beside_its_error(browser: FlaskClient, sim: Simulation) -> None:
    text = TWICE.replace("tests/twice", "tests/asks").replace("{kind: noop}", "{kind: http, url: http://x}")
    asked = start(sim.rt, StartRequest(catalog.register(sim.rt, text).path)).execution_id
    sim.rest()
    assert re.search(r"Body of the answer detail ?there is no order 7", read(browser, asked, step="start"))


def test_a_name_that_no_playbook_gives_is_not_shown(browser: FlaskClient, run: str) -> None:
    assert "task_0" not in look(browser, run, step="charge", iteration=1)
    assert "send" in read(browser, run, step="report", about="attempts")


def test_an_error_is_shown_with_its_line_of_the_playbook(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, step="report")
    (marked,) = re.findall(r'<span class="line marked">(.*?)\n</span>', page, re.DOTALL)
    # Simulated calls know their task's line.
    assert unescape(marked).endswith("- send:")
    assert len(re.findall(r'<span class="line', page)) == 7


def test_lines_are_shown_of_the_version_that_ran(browser: FlaskClient, sim: Simulation, run: str) -> None:
    catalog.register(sim.rt, SHOP.replace("the line is cut", "another text").replace("a = 1", "b = 2"))
    assert "a = 1" in read(browser, run, step="report")


def test_iterations_are_shown_by_their_index(browser: FlaskClient, run: str) -> None:
    page = look(browser, run, step="charge")
    titles = [unescape(one) for one in re.findall("<title>(.*?)</title>", page)]
    assert titles == [
        "iteration 0, item 10: done",
        "iteration 1, item 20: failed",
        "iteration 2, item 30: done",
    ]
    assert "iteration=1" in page
    assert "<i>no</i> money for 20" in Page(page).text
    assert "i" not in Page(page).tags


def test_one_iteration_has_its_own_values_attempts_and_error(browser: FlaskClient, run: str) -> None:
    failed = read(browser, run, step="charge", iteration=1)
    assert "<i>no</i> money for 20" in failed
    assert re.search(r"item 20\b", failed)
    assert "There is no result." in failed
    done = read(browser, run, step="charge", iteration=2)
    assert re.search(r"paid ?30", done)
    assert "money" not in done


def test_values_that_went_in_and_came_out(browser: FlaskClient, run: str) -> None:
    said = read(browser, run, step="charge", about="values")
    assert re.search(
        r"Inputs Choose an iteration to see the inputs of its tasks. orders ?\[10, 20, 30\]", said
    )
    assert re.search(r"total\W+3", said)
    assert re.search(r'first "?sum"?', read(browser, run, step="report", about="values"))


HANDED = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: handed, path: tests/handed}
keychain:
  - {name: db, kind: credential, credential: warehouse}
workload: {day: monday}
workflow:
  - step: start
    next: {step: load, args: {rows: 3}}
  - step: load
    set: {ctx.day: gone}
    tool:
      - name: read
        kind: noop
        input: {table: "orders_{{ workload.day }}"}
        result: {ids: [4, 5]}
      - name: write
        kind: noop
        input: {ids: "{{ read.ids }}", count: "{{ rows + 1 }}", password: "{{ keychain.db.password }}"}
      - name: tell
        kind: noop
        input: {stage: "{{ env.STAGE }}"}
"""


def test_each_task_shows_the_inputs_that_it_was_handed(browser: FlaskClient, sim: Simulation) -> None:
    path = catalog.register(sim.rt, HANDED).path
    handed = start(sim.rt, StartRequest(path, payload={"day": "friday"})).execution_id
    sim.settle()
    said = read(browser, handed, step="load", about="values")
    assert re.search(
        r"Inputs rows ?3 Inputs of read table ?orders_friday Inputs of write ids ?\[4, 5\]", said
    )
    assert re.search(r"count ?4 password ?a secret, which is not shown", said)
    assert "Inputs of tell They are made of the environment of the worker, which is not kept." in said
    assert "No inputs" in read(browser, handed, step="start", about="values")


def test_an_iteration_shows_the_inputs_of_its_task(browser: FlaskClient, run: str) -> None:
    said = read(browser, run, step="charge", iteration=2, about="values")
    assert re.search(r"Inputs item ?30 orders ?\[10, 20, 30\] order ?30 at null fail ?\[1\] Output", said)


def test_a_step_that_did_not_run_says_why(browser: FlaskClient, run: str) -> None:
    said = read(browser, run, step="after")
    assert "not run" in said
    assert "step 'report' failed, and the arc from it to 'after' is for success only" in said
    assert "Attempts" not in said


def test_it_is_shown_as_of_the_version_that_is_looked_at(
    browser: FlaskClient, sim: Simulation, run: str
) -> None:
    begun = next(one.version for one in sim.events(run) if one.fact.type == "loop.started")
    said = read(browser, run, step="charge", at=begun)
    assert "It runs" in said
    assert "money" not in said
    assert "It has not run" in read(browser, run, step="report", at=begun)
    page = look(browser, run, step="charge", at=begun)
    assert f"at={begun}&amp;step=charge" in page


def test_its_events_are_listed(browser: FlaskClient, sim: Simulation, run: str) -> None:
    said = read(browser, run, step="report", about="events")
    versions = [one.version for one in sim.events(run) if one.draft.run_id == "report#1"]
    assert [int(one) for one in re.findall(r"(\d+) ?[a-z]+\.[a-z.]+", said)] == versions[::-1]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"step": "chrage"}, "Did you mean 'charge'?"),
        ({"step": "charge", "run": "charge#2"}, "'charge#2' is no run of it"),
        ({"step": "charge", "iteration": 3}, "has 3 iterations"),
        ({"step": "report", "iteration": 0}, "without a loop"),
        ({"step": "charge", "about": "evnts"}, "Did you mean 'events'?"),
    ],
)
def test_what_is_not_there_is_said(browser: FlaskClient, run: str, query: dict[str, Any], said: str) -> None:
    assert said in Page(look(browser, run, 404, **query)).text


TWICE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: twice, path: tests/twice}
workload: {}
workflow:
  - step: start
    tool: {kind: noop}
    next: {step: count, args: {n: 1}}
  - step: count
    tool: {kind: python, input: {n: "{{ args.n }}"}, code: "print('number', n)\\nresult = n * 100"}
    next: {step: count, when: "{{ result < 300 }}", args: {n: "{{ args.n + 1 }}"}}
"""


def test_each_run_of_a_step_can_be_looked_at(browser: FlaskClient, sim: Simulation) -> None:
    path = catalog.register(sim.rt, TWICE).path
    several = start(sim.rt, StartRequest(path)).execution_id
    sim.rest()
    newest = look(browser, several, step="count")
    assert re.findall(r"run=(count%23\d)", newest) == ["count%233", "count%232", "count%231"]
    assert re.search(r"\bn 3\b.*result 300\b", read(browser, several, step="count"))
    first = read(browser, several, step="count", run="count#1")
    assert re.search(r"\bn 1\b.*result 100\b", first)
    assert "result 300" not in first


def test_ranges_stand_for_very_many_iterations() -> None:
    found = map_iterations([], 5_000, over=False, address=str)
    assert found.each == 3
    assert len(found.cells) <= MOST_CELLS
    assert found.cells[-1].text == "iterations 4998 to 4999: 2 not begun"
    assert {one.url for one in found.cells} == {None}


def test_what_has_not_ended_ends_with_its_execution() -> None:
    assert find_standings([], 2, over=False) == ["open", "open"]
    assert find_standings([], 2, over=True) == ["cancelled", "cancelled"]
