"""An execution of thousands of events: its page, and its log from end to end. How smoothly 10,000
rows scroll, and how soon they are painted, is measured by `benchmarks.scrolling`.

`NOETL_TEST_ROWS` says how many iterations there are, with two events each.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from noetl.usecases import catalog, control, inspect
from noetl.usecases.start import StartRequest, start
from tests.acceptance.playbooks import head
from tests.budget import budget
from tests.waiting import until

from .axe import check_axe
from .conftest import Look
from .pages import await_text, open_execution, page_of
from .serving import Site
from .visit import NARROW, Visit, settle

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

ITEMS = budget("NOETL_TEST_ROWS", quick=600, full=800, long=5000)

MANY = (
    head("many")
    + """
workload: {items: 0}
workflow:
  - step: each
    loop: {in: "{{ range(items) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: noop}
"""
)
#: Rows that a page has at once, however many there are to be scrolled to.
MOST_ROWS = 700
WAITS = (
    head("waits")
    + """
workflow:
  - step: each
    loop: {in: "{{ range(200) | list }}", iterator: item}
    tool: {kind: noop}
    next: [{step: stays}]
  - step: stays
    tool: {kind: wait, signal: go}
"""
)


@pytest.fixture(scope="module")
def many(site: Site) -> str:
    return site.run(MANY, {"items": ITEMS})


@pytest.fixture(scope="module")
def head_version(site: Site, many: str) -> int:
    return inspect.execution(site.rt, many).head_version


def _row(page: Page, version: int) -> Locator:
    return page.locator(f"#v{version}")


def _open_events(visit: Visit, execution: str, more: str = "") -> Page:
    assert visit.open(f"{page_of(execution)}?tab=events{more}") == 200
    return visit.page


def _await_inside(row: Locator) -> None:
    expect(row).to_be_in_viewport()


_IS_SEEN = """id => {
  const box = document.getElementById(id)?.getBoundingClientRect();
  return box !== undefined && box.bottom > 0 && box.top < innerHeight;
}"""


#: The version in the middle of the window, where a row is.
_MIDDLE = "document.elementFromPoint(400, innerHeight / 2)?.closest('tr[id]')?.id.slice(1)"
PARTS = 10


def _go(page: Page, key: str, version: int) -> None:
    """To the end of the page where that row is. Chromium forgets a scroll by key where the page is
    painted at the same moment: then it is pressed again, as anybody would."""

    def is_there() -> bool:
        page.keyboard.press(key)
        settle(page)
        return page.evaluate(_IS_SEEN, f"v{version}")

    until(is_there, f"the end of the page at {key}")


def _versions(page: Page) -> list[int]:
    return list(page.eval_on_selector_all(".events tr[id]", "all => all.map(one => Number(one.id.slice(1)))"))


def test_a_loop_of_many_iterations_is_a_strip_that_does_not_grow_with_them(
    site: Site, many: str, look: Look
) -> None:
    visit = look(site.url)
    open_execution(visit, many)
    each = visit.page.get_by_role("list", name="Steps").get_by_role("listitem")
    await_text(each, f"{ITEMS:,} of {ITEMS:,}")
    assert each.locator("svg.track rect").count() < 300
    check_axe(visit.page)
    visit.shoot("run-many")


def test_the_whole_log_is_there_to_be_scrolled_and_few_rows_of_it_are(
    site: Site, many: str, head_version: int, look: Look
) -> None:
    visit = look(site.url)
    page = _open_events(visit, many)
    _await_inside(_row(page, head_version))
    _go(page, "End", 1)
    # What was scrolled past is not kept.
    assert len(_versions(page)) < MOST_ROWS
    check_axe(page)
    # All of it is looked at, part by part.
    for part in range(PARTS):
        page.evaluate(
            "part => scrollTo(0, document.documentElement.scrollHeight * part)", (part + 0.5) / PARTS
        )
        until(lambda: page.evaluate(_MIDDLE) is not None, "rows in the middle")
        wanted = head_version * (1 - (part + 0.5) / PARTS)
        assert abs(int(page.evaluate(_MIDDLE)) - wanted) < 200
    assert len(_versions(page)) < MOST_ROWS
    _go(page, "Home", head_version)
    found = _versions(page)
    assert found == sorted(set(found), reverse=True)


def test_filters_and_the_other_order_leave_nothing_of_the_rows_before(
    site: Site, many: str, head_version: int, look: Look
) -> None:
    visit = look(site.url)
    page = _open_events(visit, many)
    _go(page, "End", 1)
    page.keyboard.press("Home")
    page.get_by_label("Type").select_option("loop.done")
    await_text(page.get_by_role("status").filter(has_text="1 of"), f"1 of {head_version:,} events")
    assert len(_versions(page)) == 1
    expect(page.locator(".events tbody")).to_have_count(1)
    page.get_by_label("Type").select_option("")
    _await_inside(_row(page, head_version))
    page.get_by_label("Order").select_option("oldest")
    _await_inside(_row(page, 1))
    _go(page, "End", head_version)
    found = _versions(page)
    assert found == sorted(set(found))


def test_an_address_leads_to_its_event_wherever_it_is(
    site: Site, many: str, head_version: int, look: Look
) -> None:
    visit = look(site.url)
    there = head_version // 3
    page = _open_events(visit, many, f"&first={there}#v{there}")
    _await_inside(_row(page, there))
    page.keyboard.press("Home")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport()


def test_what_happens_meanwhile_comes_on_top_and_nobody_loses_the_place(site: Site, look: Look) -> None:
    row = catalog.register(site.rt, WAITS)
    waits = start(site.rt, StartRequest(row.path, row.version)).execution_id
    until(lambda: inspect.execution(site.rt, waits).status == "waiting", "the wait for a signal")
    before = inspect.execution(site.rt, waits).head_version
    visit = look(site.url)
    page = _open_events(visit, waits)
    _await_inside(_row(page, before))
    _go(page, "End", 1)
    for _ in range(30):
        control.pause(site.rt, waits)
        control.resume(site.rt, waits)
    after = inspect.execution(site.rt, waits).head_version
    assert after >= before + 60
    expect(page.locator(".events")).to_have_attribute("data-rows", str(after))
    expect(_row(page, 1)).to_be_in_viewport()
    _go(page, "Home", after)
    for version in (before + 1, before, before - 50):
        _row(page, version).scroll_into_view_if_needed()
    found = _versions(page)
    assert found == sorted(set(found), reverse=True)


def test_narrow_windows_have_the_whole_log_too(site: Site, many: str, head_version: int, look: Look) -> None:
    visit = look(site.url, size=NARROW, dark=True)
    page = _open_events(visit, many)
    _await_inside(_row(page, head_version))
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    _go(page, "End", 1)
    check_axe(page)


def test_without_scripts_the_log_is_read_by_page(
    site: Site, many: str, head_version: int, look: Look
) -> None:
    visit = look(site.url, scripts=False)
    page = _open_events(visit, many)
    shown = page.locator(".events tr[id]")
    assert 100 < shown.count() <= 200
    page.get_by_role("link", name="Older").click()
    expect(shown).to_have_count(100)
    expect(_row(page, head_version)).to_have_count(0)
    page.get_by_role("link", name="Newest").click()
    expect(_row(page, head_version)).to_be_visible()
