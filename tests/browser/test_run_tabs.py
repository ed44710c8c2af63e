"""The tabs of an execution's page, as a visitor uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from noetl.usecases import catalog, control, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.start import StartRequest, start
from tests.acceptance.playbooks import head
from tests.gates import Gate
from tests.waiting import until

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import page_of, read_text
from .serving import Site
from .visit import NARROW, WIDE, Visit

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

TABS = ("events", "logs", "variables&expr=load", "waits", "called", "source&step=fails")

SHOP = (
    head("tabs")
    + """
workload: {said: "no such customer: Ada", six: 6}
ctx: {total: 0}
workflow:
  - step: load
    loop: {in: [1, 2, 3], iterator: page}
    tool: {kind: python, input: {page: "{{ page }}"}, code: "print('page', page, 'Timed out')\\nresult = page"}
    set: {ctx.total: "{{ six }}"}
    next: pause
  - step: pause
    tool: {kind: wait, timer: 0.01}
    next: fails
  - step: fails
    tool: {kind: python, input: {said: "{{ said }}"}, code: "raise LookupError(said)"}
"""
)
GROWS = (
    head("grows")
    + """
workflow:
  - step: stays
    tool: {kind: wait, signal: go}
"""
)


def talking(*gates: Gate) -> str:
    """Prints ten lines before each of the gates, and behind the last one."""
    code = "for number in range(200): print('early', number)\n"
    for number, gate in enumerate([*gates, None]):
        code += f"for number in range({10 * number}, {10 * number + 10}): print('line', number, 'ends')\n"
        code += gate.python() if gate else ""
    workflow = [{"step": "talks", "tool": {"kind": "python", "code": code}}]
    return f"{head('talks')}workflow: {json.dumps(workflow)}\n"


@pytest.fixture(scope="module")
def shop(site: Site) -> str:
    return site.run(SHOP)


def open_tab(visit: Visit, execution: str, tab: str) -> None:
    assert visit.open(f"{page_of(execution)}?tab={tab}") == 200


def scroll_rest(page: Page) -> float:
    """How many pixels of what is printed lie below the part that is seen."""
    box = page.locator(".printed")
    return float(
        box.evaluate(
            """one => one.querySelector("table").getBoundingClientRect().bottom - one.getBoundingClientRect().bottom"""
        )
    )


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(WIDE, False, id="wide-and-light"), pytest.param(NARROW, True, id="narrow-and-dark")],
)
def test_axe_finds_nothing_grave_and_nothing_is_too_wide(
    site: Site, shop: str, look: Look, tab: str, size: tuple[int, int], dark: bool
) -> None:
    visit = look(site.url, size=size, dark=dark, still=True)
    open_tab(visit, shop, tab)
    visit.shoot(f"tab-{tab.partition('&')[0]}-{size[0]}")
    check_axe(visit.page)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.fixture(scope="module")
def strange(site: Site) -> str:
    return site.run(untrusted.PLAYBOOK)


@pytest.mark.parametrize("scripts", [True, False], ids=["with-scripts", "without-scripts"])
@pytest.mark.parametrize(
    "tab",
    ["events&open=3", "events&order=oldest", "logs", "logs&q=%3Cscript", "variables&expr=said", "source"],
)
def test_what_is_shown_is_text(site: Site, strange: str, look: Look, tab: str, scripts: bool) -> None:
    visit = look(site.url, scripts=scripts)
    open_tab(visit, strange, tab)
    said = "".join(visit.page.locator("nav.tabs ~ *").all_text_contents())
    assert "window.pwned=1" in said
    assert [one for one in ("\x07", "\x1b", "\u202e") if one in said] == []
    untrusted.check_nothing_ran(visit.page)


def test_lines_are_searched_without_javascript(site: Site, shop: str, look: Look) -> None:
    visit = look(site.url, scripts=False)
    open_tab(visit, shop, "logs")
    visit.page.get_by_label("Search", exact=True).fill("2 TIMED")
    visit.page.get_by_role("button", name="Search").click()
    expect(visit.page.locator("mark")).to_have_text("2 Timed")
    assert "1 of 3 lines holds" in read_text(visit.page)


def test_lines_are_searched_while_one_types_and_the_address_says_so(
    site: Site, shop: str, look: Look
) -> None:
    visit = look(site.url)
    open_tab(visit, shop, "logs")
    box = visit.page.get_by_label("Search", exact=True)
    visit.tab_to(box)
    visit.page.keyboard.type("page 3")
    expect(visit.page.locator("mark")).to_have_text("page 3")
    expect(box).to_be_focused()
    expect(box).to_have_value("page 3")
    assert visit.page.url.endswith(f"{page_of(shop)}?tab=logs&q=page%203")


def test_an_expression_is_asked_by_keyboard(site: Site, shop: str, look: Look) -> None:
    visit = look(site.url)
    open_tab(visit, shop, "variables")
    visit.tab_to(visit.page.get_by_label("Expression"))
    visit.page.keyboard.type("ctx.total * 7")
    visit.page.keyboard.press("Enter")
    expect(visit.page.locator(".answer")).to_have_text("42")


def test_an_event_leads_to_what_was_true_then(site: Site, shop: str, look: Look) -> None:
    visit = look(site.url)
    open_tab(visit, shop, "events")
    visit.page.get_by_label("Type").select_option("ctx.patched")
    expect(visit.page.locator("table.events tbody tr")).to_have_count(1)
    visit.page.locator("table.events summary").click()
    expect(visit.page.locator("table.events pre")).to_contain_text('"total": 6')
    link = visit.page.locator("table.events tbody tr td a").first
    version = link.inner_text()
    link.click()
    visit.page.wait_for_url(f"**{page_of(shop)}?at={version}")


def test_the_line_that_failed_is_a_link_away(site: Site, shop: str, look: Look) -> None:
    visit = look(site.url)
    assert visit.open(page_of(shop)) == 200
    visit.page.get_by_role("link", name="line ").first.click()
    line = visit.page.locator("tr:target")
    expect(line).to_contain_text("raise LookupError(said)")
    expect(line).to_contain_text("no such customer: Ada")
    expect(line).to_have_class("marked")


def test_what_is_printed_is_followed_at_its_end_and_nowhere_else(
    site: Site, look: Look, tmp_path: Path
) -> None:
    first, second = Gate(tmp_path / "first"), Gate(tmp_path / "second")
    row = catalog.register(site.rt, talking(first, second))
    run = start(site.rt, StartRequest(row.path, row.version)).execution_id
    visit = look(site.url, still=True)
    page = visit.page
    open_tab(visit, run, "logs")
    expect(page.locator(".printed")).to_contain_text("line 9 ends")
    assert abs(scroll_rest(page)) < 3
    first.open()
    expect(page.locator(".printed")).to_contain_text("line 19 ends")
    assert abs(scroll_rest(page)) < 3
    page.locator(".printed").evaluate("one => one.scrollBy(0, -1200)")
    top = "one => one.getBoundingClientRect().top"
    seen = page.locator(".printed tr", has_text="early 150")
    before = seen.evaluate(top)
    second.open()
    expect(page.locator(".printed")).to_contain_text("line 29 ends")
    assert abs(seen.evaluate(top) - before) < 3
    until(lambda: inspect.execution(site.rt, run).status in ENDED, "the end")


def test_what_was_unfolded_stays_so_while_the_log_grows(site: Site, look: Look) -> None:
    row = catalog.register(site.rt, GROWS)
    run = start(site.rt, StartRequest(row.path, row.version)).execution_id
    visit = look(site.url)
    open_tab(visit, run, "events&order=oldest")
    unfolded = visit.page.locator("#v2 details")
    unfolded.locator("summary").click()
    rows = visit.page.locator("table.events tbody tr")
    count = rows.count()
    for number in range(11):
        control.patch_ctx(site.rt, run, {"seen": number})
    expect(rows.nth(count + 10)).to_be_visible()
    expect(unfolded).to_have_attribute("open", "")
    send_signal(site.rt, run, SignalRequest("go"))
    until(lambda: inspect.execution(site.rt, run).status in ENDED, "the end")
