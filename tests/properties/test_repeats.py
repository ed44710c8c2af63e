"""Whatever interrupts the pages of a task, each call is made once for good, and the result is that
of no interruption."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from tests.budget import examples

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/pages}\n"
PLAYBOOK = """workflow:
  - step: start
    tool:
      name: fetch
      kind: http
      url: http://x
      params: {page: 1}
      repeat:
        next: {when: "{{ response.data.next }}", params: {page: "{{ response.data.next }}"}}
        collect: {path: rows}
        max: MAX
        delay: DELAY
        each: {kind: python, code: result = 1, input: {rows: "{{ data.rows }}"}}
"""


class Died(BaseException):
    """The worker is gone."""


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=6),
    st.sets(st.tuples(st.sampled_from(["http", "python"]), st.integers(0, 5)), max_size=4),
    st.sampled_from([0, 0.5, 30]),
    st.integers(1, 8),
)
def test_interruptions_change_nothing(
    pages: list[list[int]], deaths: set[tuple[str, int]], delay: float, most: int
) -> None:
    text = HEAD + PLAYBOOK.replace("DELAY", str(delay)).replace("MAX", str(most))
    made: list[tuple[str, Json]] = []
    left = set(deaths)

    def stub(call: Call) -> Json:
        saved = sum(kind == "python" for kind, _ in made)
        at = saved if call.kind == "python" else call.config["params"]["page"] - 1
        if (call.kind, at) in left:
            left.discard((call.kind, at))
            raise Died
        made.append((call.kind, at))
        following = at + 2 if at + 1 < len(pages) else None
        return {
            "status_code": 200,
            "data": {"rows": [[at, row] for row in pages[at]], "next": following},
            "args": dict(call.args),
        }

    simulation = Simulation(text, {"http": stub, "python": stub})
    execution_id = simulation.start()
    settled(simulation, execution_id)
    report = simulation.report(execution_id)
    count = min(most, len(pages))
    assert report.row.status == "completed", report.error
    assert report.result["data"] == [[at, row] for at, page in enumerate(pages[:count]) for row in page]
    assert (report.result["pages"], report.result["truncated"]) == (count, count < len(pages))
    assert made == [(kind, at) for at in range(count) for kind in ("http", "python")]


def settled(simulation: Simulation, execution_id: str) -> None:
    for _ in range(60):
        try:
            simulation.settle()
        except Died:
            simulation.pass_time(120)
            continue
        if simulation.report(execution_id).row.status in ("completed", "failed"):
            return
        simulation.pass_time(31)


@pytest.mark.full("2 s: two thousand")
def test_two_thousand_pages_of_one_task_are_an_event_each_of_the_same_size() -> None:
    playbook = f"""{HEAD}workflow:
  - step: start
    tool: {{name: fetch, kind: http, url: http://x, pagination: {{type: page, size: 1, max_pages: 2500}}}}
"""

    def page(call: Call) -> Any:
        number = call.config["params"]["page"]
        return {"status_code": 200, "data": [number] if number < 2000 else []}

    simulation = Simulation(playbook, {"http": page})
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert report.result["data"] == list(range(1, 2000))
    assert report.result["pages"] == 2000
    events = simulation.events(report.row.execution_id)
    calls = [event.fact for event in events if isinstance(event.fact, e.TaskCallDone)]
    assert len(calls) == 2000
    assert len(events) < 2020
    assert max(len(repr(fact)) for fact in calls) < len(repr(calls[0])) + 40
