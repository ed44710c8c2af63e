"""Diagrams of circuits, as a visitor sees them: each character in its column, and nothing of it
taken for markup."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.waiting import until

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import page_of, read_text
from .serving import Site
from .visit import NARROW, WIDE

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

#: Its keys and symbols are markup, and turn the direction round.
HOSTILE = f"""
import cirq, sympy
said = {list(untrusted.MARKUP)!r}
first, *others = [cirq.NamedQubit(f"{{n}} {{one}}") for n, one in enumerate(said)]
odd = "turned\\u202eend, bell\\x07, tab\\t, אב, next\\x85"
result = cirq.Circuit(
    cirq.rx(sympy.Symbol(said[0]))(first), [cirq.CNOT(first, one) for one in others],
    cirq.measure(first, key=odd), cirq.X(others[0]).with_classical_controls(odd),
    cirq.measure(others[0], key=said[3]),
)
"""


def _step(name: str, *, next: str = "", **config: object) -> dict[str, object]:
    tool = {"kind": "quantum", "repetitions": 20, "seed": 1, **config}
    return {"step": name, "tool": tool, **({"next": next} if next else {})}


CIRCUITS = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "circuits", "path": "browser/circuits"},
        "workflow": [
            _step("large", builder={"name": "ghz", "qubits": 51}, backend="clifford", next="wide"),
            _step("wide", builder={"name": "random", "qubits": 8, "depth": 60, "seed": 3}, next="hostile"),
            _step("hostile", code=HOSTILE, params={untrusted.MARKUP[0]: 0.5}, next="bell"),
            _step("bell", builder={"name": "ghz", "qubits": 2}),
        ],
    }
)


@pytest.fixture(scope="module")
def circuits(site: Site) -> str:
    return f"{page_of(site.run(CIRCUITS))}?tab=quantum"


def test_a_wide_diagram_is_scrolled_with_the_keyboard_and_without_javascript(
    site: Site, circuits: str, look: Look
) -> None:
    visit = look(site.url, scripts=False, size=NARROW)
    assert visit.open(circuits) == 200
    wide = visit.page.get_by_role("img", name="8 qubits")
    visit.tab_to(wide)
    for _ in range(3):
        visit.page.keyboard.press("ArrowRight")
    until(lambda: wide.evaluate("one => one.scrollLeft > 0"), "a diagram that has moved")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    folded = visit.page.locator("summary", has_text="The circuit as JSON").last
    visit.tab_to(folded)
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator("details[open]", has_text="cirq_type")).to_be_visible()
    assert "too large for a diagram" in read_text(visit.page)


#: How far the left edge of each character is from that of its line, in widths of a character.
_COLUMNS = """one => {
  const text = one.firstChild, range = document.createRange(), found = []
  let left = 0
  const width = place => {
    range.setStart(text, place); range.setEnd(text, place + 1)
    return range.getBoundingClientRect()
  }
  const unit = width(0).width
  for (let place = 0, column = 0; place < text.length; place++) {
    if (text.data[place] === "\\n") { column = 0; continue }
    const box = width(place)
    if (column === 0) left = box.left
    found.push([(box.left - left) / unit, column++])
  }
  return found
}"""


def test_each_character_stands_in_its_column_and_none_is_markup(
    site: Site, circuits: str, look: Look
) -> None:
    visit = look(site.url)
    visit.open(circuits)
    untrusted.check_nothing_ran(visit.page)
    hostile = visit.page.get_by_role("img", name=f"{len(untrusted.MARKUP)} qubits")
    said = hostile.inner_text()
    for text in untrusted.MARKUP:
        assert text in said
    for seen, column in hostile.evaluate(_COLUMNS):
        assert seen == pytest.approx(column, abs=0.5)


@pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(WIDE, False, id="wide-and-light"), pytest.param(NARROW, True, id="narrow-and-dark")],
)
def test_circuits_are_for_everybody(
    site: Site, circuits: str, look: Look, size: tuple[int, int], dark: bool
) -> None:
    visit = look(site.url, size=size, dark=dark, still=True)
    assert visit.open(circuits) == 200
    expect(
        visit.page.get_by_role("img", name="Diagram of the circuit: 2 qubits, 3 operations")
    ).to_have_count(1)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    check_axe(visit.page)
    visit.shoot(f"circuits-{size[0]}")
