"""An execution of more than 10,000 events: its page, and its log from end to end."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from noetl.usecases import catalog, control, inspect
from noetl.usecases.start import StartRequest, start
from tests.acceptance.playbooks import head
from tests.waiting import until

from .axe import check_axe
from .conftest import Look
from .pages import await_text, open_execution, page_of
from .serving import Site
from .visit import NARROW, Visit

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

MANY = (
    head("many")
    + """
workflow:
  - step: each
    loop: {in: "{{ range(5000) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 8}}
    tool: {kind: noop}
"""
)
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

#: Scrolls down, some pixels with each of 250 frames, and returns how many milliseconds lay between
#: two frames, and in how many of them the middle of the window had no row.
SCROLL = """async pixels => {
  const gaps = [];
  let blank = 0, last = performance.now();
  for (let frame = 0; frame < 250; frame++) {
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
    if (document.elementFromPoint(400, innerHeight / 2)?.closest(".gap")) blank += 1;
    scrollBy(0, pixels);
  }
  return { gaps: gaps.sort((one, other) => one - other), blank, reached: scrollY };
}"""


@pytest.fixture(scope="module")
def many(site: Site) -> str:
    return site.run(MANY)


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


def _go(page: Page, key: str, version: int) -> None:
    """To the end of the page where that row is. Chromium forgets a scroll by key where the page is
    painted at the same moment: then it is pressed again, as anybody would."""

    def is_there() -> bool:
        page.keyboard.press(key)
        try:
            expect(_row(page, version)).to_be_in_viewport(timeout=2_000)
        except AssertionError:
            return False
        return True

    until(is_there, f"the end of the page at {key}")


def _versions(page: Page) -> list[int]:
    return list(page.eval_on_selector_all(".events tr[id]", "all => all.map(one => Number(one.id.slice(1)))"))


def test_a_loop_of_5000_is_a_strip_and_painted_within_a_second(site: Site, many: str, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, many)
    each = visit.page.get_by_role("list", name="Steps").get_by_role("listitem")
    await_text(each, "5,000 / 5,000")
    assert each.locator("svg.track rect").count() < 300
    check_axe(visit.page)
    visit.shoot("run-5000")
    # Of some, the quickest: what else the machine does is no matter of the page's.
    assert min(_time_paint(visit, many) for _ in range(3)) <= 1000


def _time_paint(visit: Visit, execution: str) -> float:
    """Milliseconds from when the page was asked for until its content was painted first."""
    assert visit.open(page_of(execution)) == 200
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"
    until(lambda: visit.page.evaluate(paint) > 0, "the first paint")
    return float(visit.page.evaluate(paint))


def test_the_whole_log_is_there_to_be_scrolled_and_few_rows_of_it_are(
    site: Site, many: str, head_version: int, look: Look
) -> None:
    visit = look(site.url)
    page = _open_events(visit, many)
    _await_inside(_row(page, head_version))
    _go(page, "End", 1)
    assert len(_versions(page)) < 1000
    check_axe(page)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    in_the_middle = "document.elementFromPoint(400, innerHeight / 2)?.closest('tr[id]')?.id.slice(1)"
    until(lambda: page.evaluate(in_the_middle) is not None, "rows in the middle")
    assert abs(int(page.evaluate(in_the_middle)) - head_version / 2) < 200
    _go(page, "Home", head_version)
    found = _versions(page)
    assert found == sorted(set(found), reverse=True)


def test_ten_thousand_rows_scroll_smoothly(site: Site, many: str, head_version: int, look: Look) -> None:
    visit = look(site.url)
    page = _open_events(visit, many)
    _await_inside(_row(page, head_version))
    # What else the machine does is no matter of the page's: another round where it was busy.
    for _ in range(4):
        page.evaluate("scrollTo(0, 0)")
        _await_inside(_row(page, head_version))
        smoothest = _scroll_far(page)
        if _share(smoothest["gaps"], 0.95) < 50:
            break
    assert _share(smoothest["gaps"], 0.5) < 20
    assert _share(smoothest["gaps"], 0.95) < 50
    assert smoothest["blank"] < 10
    # What was scrolled past is not kept.
    assert len(_versions(page)) < 1000


def _scroll_far(page: Page) -> dict[str, Any]:
    """Four times a thousand rows in 250 frames, of which each takes 16.7 ms where nothing is late:
    the smoothest."""
    walks = [page.evaluate(SCROLL, 120) for _ in range(4)]
    assert walks[-1]["reached"] > 100_000
    return min(walks, key=lambda walk: _share(walk["gaps"], 0.95))


def _share(gaps: list[float], part: float) -> float:
    return gaps[int(part * (len(gaps) - 1))]


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
    assert page.locator(".events tbody").count() == 1
    page.get_by_label("Type").select_option("")
    _await_inside(_row(page, head_version))
    page.get_by_label("Order").select_option("oldest")
    _await_inside(_row(page, 1))
    _go(page, "End", head_version)
    found = _versions(page)
    assert found == sorted(set(found))


def test_an_address_leads_to_its_event_wherever_it_is(site: Site, many: str, look: Look) -> None:
    visit = look(site.url)
    page = _open_events(visit, many, "&first=4321#v4321")
    _await_inside(_row(page, 4321))
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
    assert shown.count() == 100
    expect(_row(page, head_version)).to_have_count(0)
    page.get_by_role("link", name="Newest").click()
    expect(_row(page, head_version)).to_be_visible()
