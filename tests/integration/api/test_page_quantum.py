"""The tab of quantum tasks: circuits as diagrams."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.facts.reference import Retention
from noetl.net.model import KindInfo
from noetl.testing import Simulation

from .browsing import Page

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bell, path: examples/bell}
workflow:
  - step: bell
    tool: {kind: quantum, builder: {name: ghz, qubits: 2}}
"""
TEXT = "0: ───H───@───M('m')───\n          │   │\n1: ───────X───M────────"
DRAWN = {"qubits": 2, "operations": 3, "depth": 3, "text": TEXT}
ABOUT = "2 qubits, 3 operations, depth 3"
TOO_LARGE = "too large for a diagram"


class Told:
    """What the quantum task of the next execution yields as the diagram of its circuit; None: what
    results had before there were any."""

    diagram: Any = None

    def ask(self, _call: object) -> Any:
        diagram = {} if self.diagram is None else {"diagram": self.diagram}
        task = {"name": "bell", "circuit": '{"cirq_type":"Circuit"}', "config": {}}
        return {"points": [], "provenance": {"seed": 7, "source": {"form": "qasm3"}, "task": task, **diagram}}


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def sim(told: Told) -> Simulation:
    kinds = {"quantum": KindInfo("quantum", queue="quantum", effects="none")}
    return Simulation(PLAYBOOK, {"quantum": told.ask}, kinds=kinds)


def look(browser: FlaskClient, sim: Simulation) -> str:
    execution_id = sim.start()
    sim.settle()
    answer = browser.get(f"/executions/{execution_id}?tab=quantum")
    assert answer.status_code == 200, answer.text
    return answer.text


def pictures(page: str) -> list[tuple[str, str]]:
    """The label and the text of each diagram, as a browser understands them: it drops a line break
    at the beginning."""
    found = re.findall(r'<pre [^>]*role="img"[^>]*aria-label="([^"]*)"[^>]*>\n(.*?)</pre>', page, re.DOTALL)
    return [(unescape(label), unescape(text)) for label, text in found]


def test_a_circuit_is_a_diagram_with_its_json_folded_below(
    browser: FlaskClient, sim: Simulation, told: Told
) -> None:
    told.diagram = DRAWN
    page = look(browser, sim)
    assert pictures(page) == [(f"Diagram of the circuit: {ABOUT}", TEXT)]
    below = page.partition("</pre>")[2]
    folded = below[below.index("<details>") : below.index("</details>")]
    assert "cirq_type" in Page(folded).text


def test_a_history_without_diagrams_shows_the_json(browser: FlaskClient, sim: Simulation) -> None:
    page = look(browser, sim)
    assert pictures(page) == []
    text = Page(page).text
    assert "cirq_type" in text
    assert "Seed" in text
    assert TOO_LARGE not in text


@pytest.mark.parametrize(
    "diagram",
    [None, "text", 7, [], {}, {"text": TEXT}, {**DRAWN, "qubits": "2"}, {**DRAWN, "depth": None}],
    ids=str,
)
def test_what_is_no_diagram_is_not_shown_as_one(
    browser: FlaskClient, sim: Simulation, told: Told, diagram: Any
) -> None:
    told.diagram = diagram
    page = look(browser, sim)
    assert pictures(page) == []
    assert "cirq_type" in page


@pytest.mark.parametrize("text", [None, "─" * 70_000, 7], ids=["none", "long", "number"])
def test_a_circuit_that_is_too_large_says_so(
    browser: FlaskClient, sim: Simulation, told: Told, text: Any
) -> None:
    told.diagram = {"qubits": 1, "operations": 12_000, "depth": 12_000, "text": text}
    page = look(browser, sim)
    assert pictures(page) == []
    seen = Page(page).text
    assert "1 qubit, 12,000 operations, depth 12,000" in seen
    assert TOO_LARGE in seen
    assert "cirq_type" in seen


def test_a_diagram_is_opened_where_it_is_kept(browser: FlaskClient, sim: Simulation, told: Told) -> None:
    told.diagram = {**DRAWN, "text": sim.rt.results.put(TEXT, Retention("7"))}
    assert pictures(look(browser, sim)) == [(f"Diagram of the circuit: {ABOUT}", TEXT)]


def test_a_diagram_that_is_gone_costs_nothing_else(browser: FlaskClient, sim: Simulation, told: Told) -> None:
    told.diagram = {**DRAWN, "text": sim.rt.results.put(TEXT, Retention("7"))}
    sim.rt.results.remove(Retention("7").place)
    page = look(browser, sim)
    assert pictures(page) == []
    text = Page(page).text
    for said in (ABOUT, "Seed", "cirq_type"):
        assert said in text, said
    assert TOO_LARGE not in text


HOSTILE = (
    "</pre><script>window.pwned=1</script>: ───H───\n"
    "turned\u202e and\u2066, tab\t, bell\x07, return\r, next\x85, line\u2028, none\u200b\ufeff, half\ud800: ───X───\n"
    "θ é 測 אב: ───M───"
)


def test_everything_in_a_diagram_is_text_and_keeps_its_column(
    browser: FlaskClient, sim: Simulation, told: Told
) -> None:
    told.diagram = {**DRAWN, "text": HOSTILE}
    page = look(browser, sim)
    ((_, text),) = pictures(page)
    assert "script" not in Page(page[page.index('role="img"') :]).tags
    assert len(text) == len(HOSTILE)
    assert [one for one in text if not one.isprintable()] == ["\n", "\n"]
    for said, seen in zip(HOSTILE, text, strict=True):
        assert seen == (said if said.isprintable() or said == "\n" else "\ufffd")
