"""Pages of an http task, one after the other, through what can happen between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import inspect

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"
ROWS = list(range(10))


def playbook(pagination: str, more: str = "", around: str = "") -> str:
    return (
        f"{HEAD}workload: {{u: http://x, size: 3}}\nworkflow:\n  - step: start\n{around}    tool:\n"
        f'      - name: fetch\n        kind: http\n        url: "{{{{ u }}}}/rows"\n        params: {{q: '
        f'"{{{{ size }}}}"}}\n'
        f"        pagination: {pagination}\n{more}"
    )


def answer(body: Json, **more: Json) -> Json:
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 0.1, "data": body, **more}


def by_page(call: Call) -> Json:
    number = call.config["params"]["page"]
    return answer({"rows": ROWS[(number - 1) * 3 : number * 3]})


def by_offset(call: Call) -> Json:
    params = call.config["params"]
    return answer(ROWS[params["offset"] : params["offset"] + params["limit"]])


def by_cursor(call: Call) -> Json:
    at = call.config["params"]["cursor"] or 0
    return answer({"d": {"rows": ROWS[at : at + 3]}, "meta": {"next": at + 3 if at + 3 < 10 else None}})


def by_link(call: Call) -> Json:
    at = int(call.config["url"].partition("at=")[2] or 0)
    assert (call.config["params"]["q"] is None) == (at > 0)
    links = {"links": {"next": f"http://x/rows?at={at + 3}"}} if at + 3 < 10 else {}
    return answer(ROWS[at : at + 3], **links)


FORMS = [
    ("{type: page, size: 3, items: rows}", by_page, 4),
    ("{type: page, size: '{{ size }}', items: rows}", by_page, 4),
    ("{type: page, items: rows}", by_page, 5),
    ("{type: offset, limit: 3}", by_offset, 4),
    ("{type: cursor, path: meta.next, items: d.rows}", by_cursor, 4),
    ("{type: link}", by_link, 4),
]


@pytest.mark.parametrize(("form", "server", "pages"), FORMS)
def test_the_items_of_all_pages_are_the_result(form: str, server: Callable[[Call], Json], pages: int) -> None:
    simulation = Simulation(playbook(form), {"http": server})
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert report.result == {"data": ROWS, "pages": pages, "truncated": False}
    assert len(simulation.tools.calls) == pages
    types = [event.fact.type for event in simulation.events(report.row.execution_id)]
    assert [one for one in types if one.startswith("task.")] == ["task.call.done"] * pages + ["task.done"]


@pytest.mark.parametrize(("form", "server", "_"), FORMS)
def test_later_tasks_and_sets_see_the_whole_under_the_name_of_the_task(
    form: str, server: Callable[[Call], Json], _: int
) -> None:
    more = """\
        set: {n: "{{ output.data | length }}"}
      - {name: see, kind: noop, input: {all: "{{ fetch.data }}", n: "{{ n }}"}}
"""
    report = Simulation(playbook(form, more), {"http": server}).run()
    assert report.result == {"all": ROWS, "n": 10}


def test_max_pages_cuts_and_says_so() -> None:
    report = Simulation(playbook("{type: page, items: rows, max_pages: 2}"), {"http": by_page}).run()
    assert report.result == {"data": ROWS[:6], "pages": 2, "truncated": True}
    assert [one["message"] for one in report.warnings] == [
        "The last answer asks for another page, and `max_pages` of `pagination` allows 2: what would follow is "
        "left out."
    ]


def test_max_pages_that_were_enough_cut_nothing() -> None:
    form = "{type: page, size: 3, items: rows, max_pages: 4}"
    report = Simulation(playbook(form), {"http": by_page}).run()
    assert (report.result["truncated"], list(report.warnings)) == (False, [])


@pytest.mark.parametrize("last", [None, {"rows": None}, {"rows": []}])
def test_a_page_that_is_null_has_no_items(last: Json) -> None:
    def server(call: Call) -> Json:
        return by_page(call) if call.config["params"]["page"] < 5 else answer(last)

    report = Simulation(playbook("{type: page, items: rows}"), {"http": server}).run()
    assert report.result == {"data": ROWS, "pages": 5, "truncated": False}


@pytest.mark.parametrize("marks", [2, 3, 7])
@pytest.mark.parametrize(
    "form", ["{type: cursor, path: next, items: rows}", "{type: cursor, path: next, items: rows, start: 0}"]
)
def test_marks_that_come_round_again_are_an_error(form: str, marks: int) -> None:
    """A service whose last page names its first one as the next."""

    def server(call: Call) -> Json:
        at = call.config["params"]["cursor"] or 0
        return answer({"rows": [at], "next": 1 + at % marks})

    simulation = Simulation(playbook(form), {"http": server})
    report = simulation.run()
    assert report.error is not None
    assert (report.error["kind"], "leads back to one before it" in report.error["message"]) == ("limit", True)
    assert len(simulation.tools.calls) <= 4 * marks


def test_stop_when_ends_behind_its_page() -> None:
    form = "{type: page, items: rows, stop_when: '{{ 4 in output.data.rows }}'}"
    report = Simulation(playbook(form), {"http": by_page}).run()
    assert report.result == {"data": ROWS[:6], "pages": 2, "truncated": False}


def test_collect_replace_keeps_the_last_page() -> None:
    form = "{type: page, size: 3, items: rows, collect: replace}"
    assert Simulation(playbook(form), {"http": by_page}).run().result == {
        "data": [9],
        "pages": 4,
        "truncated": False,
    }


def test_the_first_number_may_be_another() -> None:
    def server(call: Call) -> Json:
        return by_page(
            Call(**{**_fields(call), "config": {"params": {"page": call.config["params"]["p"] + 1}}})
        )

    report = Simulation(playbook("{type: page, param: p, start: 0, items: rows}"), {"http": server}).run()
    assert report.result["data"] == ROWS


def _fields(call: Call) -> dict[str, Any]:
    return {name: getattr(call, name) for name in call.__slots__}


def test_a_policy_retries_one_page_and_not_those_before_it() -> None:
    seen: list[int] = []

    def flaky(call: Call) -> Json:
        seen.append(call.config["params"]["page"])
        if seen.count(seen[-1]) < 3 and seen[-1] in (1, 3):
            raise ToolError("server_error", "Busy.", retryable=True)
        return by_page(call)

    policy = """\
        spec: {policy: {rules: [
          {when: "{{ outcome.status == 'error' }}", then: {do: retry, attempts: 3, delay: 5}},
          {else: {then: {do: continue}}}]}}
"""
    report = Simulation(playbook("{type: page, size: 3, items: rows}", policy), {"http": flaky}).run()
    assert report.result["data"] == ROWS
    assert seen == [1, 1, 1, 2, 3, 3, 3, 4]


@pytest.mark.parametrize("failing", [1, 3])
def test_a_policy_that_goes_on_after_a_failed_page_leaves_the_pages_before_it(failing: int) -> None:
    def broken(call: Call) -> Json:
        if call.config["params"]["page"] == failing:
            raise ToolError("server_error", "Broken.")
        return by_page(call)

    policy = "        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}\n"
    report = Simulation(playbook("{type: page, size: 3, items: rows}", policy), {"http": broken}).run()
    assert report.result == {"data": ROWS[: (failing - 1) * 3], "pages": failing - 1, "truncated": True}


def test_without_a_policy_a_failed_page_fails_the_step_and_is_named() -> None:
    def broken(_: Call) -> Json:
        raise ToolError("client_error", "No.")

    report = Simulation(playbook("{type: link}"), {"http": broken}).run()
    assert (report.row.status, (report.error or {})["task"]) == ("failed", "fetch.page")


def test_a_body_without_the_list_fails_and_names_the_place() -> None:
    report = Simulation(playbook("{type: page, items: data.rows}"), {"http": by_page}).run()
    assert report.row.status == "failed"
    assert '["data"]["rows"]' in (report.error or {})["message"]


def test_a_delay_lets_the_worker_go_and_each_page_is_in_the_log_before_the_next() -> None:
    simulation = Simulation(playbook("{type: page, size: 3, items: rows, delay: 1m}"), {"http": by_page})
    execution_id = simulation.start()
    simulation.settle()
    for pages in (1, 2, 3):
        assert inspect.execution(simulation.rt, execution_id).status == "running"
        ended = [one.fact for one in simulation.events(execution_id) if isinstance(one.fact, e.TaskCallDone)]
        assert [(one.task, one.call) for one in ended] == [("fetch", call + 1) for call in range(pages)]
        simulation.pass_time(61)
        simulation.settle()
    assert simulation.report(execution_id).result["data"] == ROWS


def test_the_log_holds_every_item_of_a_page_once_beside_the_answer_itself() -> None:
    simulation = Simulation(playbook("{type: page, size: 3, items: rows}"), {"http": by_page})
    execution_id = simulation.run().row.execution_id
    kept = [one.fact for one in simulation.events(execution_id) if isinstance(one.fact, e.TaskCallDone)]
    assert [fact.kept for fact in kept] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]


def test_a_jump_back_to_the_task_begins_at_the_first_page() -> None:
    more = """\
      - name: twice
        kind: noop
        set: {first: "{{ first | default(fetch.pages) }}"}
        spec: {policy: {rules: [{when: "{{ first is not defined }}", then: {do: jump, to: fetch}}]}}
      - {name: see, kind: noop, input: {n: "{{ fetch.data }}", first: "{{ first }}"}}
"""
    simulation = Simulation(playbook("{type: page, size: 3, items: rows}", more), {"http": by_page})
    assert simulation.run().result == {"n": ROWS, "first": 4}
    pages = [call.config["params"]["page"] for call in simulation.tools.calls if call.kind == "http"]
    assert pages == [1, 2, 3, 4, 1, 2, 3, 4]


def test_iterations_page_by_themselves() -> None:
    around = "    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}\n"
    report = Simulation(playbook("{type: offset, limit: 3}", around=around), {"http": by_offset}).run()
    assert [one["data"] for one in report.result["results"]] == [ROWS] * 3
