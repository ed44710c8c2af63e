"""The steps of an execution: the graph, the time beside it, and the slider that moves both."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.playbooks import head

from .axe import check_axe
from .conftest import Look
from .pages import open_execution
from .serving import Site
from .visit import NARROW

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

BRANCHES = (
    head("branches")
    + """
workload: {n: 3}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    set: {"ctx.seen": "{{ output.data }}"}
    next: [{step: each}]
  - step: each
    loop: {in: "{{ [1, 2, 3, 4] }}", iterator: item}
    tool: {kind: python, args: {item: "{{ item }}"}, code: "result = item * 2"}
    next:
      spec: {mode: inclusive}
      arcs:
        - {step: kept, when: "{{ workload.n > 2 }}"}
        - {step: dropped, when: "{{ workload.n <= 2 }}"}
  - step: kept
    desc: Keeps it
    tool: {kind: python, code: "result = 'kept'"}
    set: {"ctx.kept": "{{ output.data }}"}
  - step: dropped
    tool: {kind: noop}
"""
)


@pytest.fixture(scope="module")
def run(site: Site) -> str:
    return site.run(BRANCHES)


def _row(page: Page, step: str) -> Locator:
    """The row of a step."""
    return (
        page.get_by_role("list", name="Steps")
        .get_by_role("listitem")
        .filter(has=page.get_by_role("link", name=step, exact=True))
    )


def _slider(page: Page) -> Locator:
    return page.get_by_role("slider", name="Version")


def _mark(page: Page, step: str) -> Locator:
    """The mark of a step in the graph."""
    return page.locator(f'.node[data-step="{step}"]')


def _await_said(page: Page, step: str, text: str) -> None:
    expect(_row(page, step)).to_contain_text(text)


def _version(page: Page) -> int:
    return int(_slider(page).input_value())


def test_each_step_says_what_became_of_it_and_what_led_there(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, run)
    _await_said(visit.page, "start", "done")
    _await_said(visit.page, "each", "4 of 4")
    _await_said(visit.page, "kept", "workload.n > 2")
    _await_said(visit.page, "dropped", "not run")
    for step, fate in (("kept", "taken"), ("dropped", "missed")):
        expect(_row(visit.page, step).locator(".arc")).to_have_class(re.compile(fate))
    lines = visit.page.locator(".wire")
    expect(lines).to_have_count(3)
    expect(visit.page.locator(".wire.taken")).to_have_count(2)
    visit.shoot("run")


LONG = head("long") + "".join(
    f"""
  - step: {"start" if at == 0 else f"s{at}"}
    tool: {{kind: noop}}
    next: s{at + 1}"""
    for at in range(40)
).join(["workflow:", "\n  - step: s40\n    tool: {kind: noop}\n"])


def test_many_steps_are_low_rows_over_which_the_slider_stays_in_sight(site: Site, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, f"{site.run(LONG)}?step=s40")
    page = visit.page
    rows = page.get_by_role("list", name="Steps").get_by_role("listitem")
    expect(rows).to_have_count(41)
    heights = rows.evaluate_all("rows => rows.map((row) => row.getBoundingClientRect().height)")
    assert max(heights) <= 28
    edges = page.locator(".ticks text").evaluate_all(
        """texts => [...texts.map((one) => one.getBoundingClientRect().right),
        document.querySelector("[data-flow]").getBoundingClientRect().right]"""
    )
    assert max(edges) == edges[-1], "the labels of the axis stay beside the drawer"
    rows.last.scroll_into_view_if_needed()
    expect(_slider(page)).to_be_in_viewport(ratio=1)


def test_the_slider_goes_back_and_forth_through_the_log(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, run)
    page, asked = visit.page, list[str]()
    page.on("request", lambda request: asked.append(request.url))
    last = _version(page)
    _slider(page).focus()
    page.keyboard.press("Home")
    _await_said(page, "start", "not run")
    expect(_mark(page, "start")).to_have_class(re.compile("not_run"))
    page.wait_for_url("**at=1")
    while _version(page) < last and "running" not in (_row(page, "each").text_content() or ""):
        page.keyboard.press("ArrowRight")
    _await_said(page, "start", "done")
    _await_said(page, "each", "running")
    _await_said(page, "kept", "not run")
    expect(page.locator("#moment")).to_contain_text("seen")
    expect(page.locator("#moment")).not_to_contain_text("kept")
    visit.shoot("run-earlier")
    page.keyboard.press("End")
    _await_said(page, "kept", "done")
    expect(page.locator("#moment")).to_contain_text("kept")
    page.wait_for_url(lambda url: "at=" not in url)
    assert len([url for url in asked if "/timeline" in url]) == 1, "what all versions were is asked for once"


def test_a_moment_has_an_address_that_shows_the_same_to_others(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, run)
    _slider(visit.page).focus()
    visit.page.keyboard.press("Home")
    visit.page.wait_for_url("**at=1")
    other = look(site.url, scripts=False)
    assert other.open(visit.page.url.removeprefix(site.url)) == 200
    _await_said(other.page, "start", "not run")
    assert _version(other.page) == 1


def test_a_click_on_the_time_goes_to_what_was_true_then(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, run)
    last = _version(visit.page)
    box = _row(visit.page, "kept").locator("svg.track").bounding_box()
    assert box is not None
    visit.page.mouse.click(box["x"] + 2, box["y"] + 20)
    expect(_slider(visit.page)).not_to_have_value(str(last))
    _await_said(visit.page, "kept", "not run")


def test_play_goes_through_all_of_it(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    page = visit.page
    page.clock.install()
    open_execution(visit, run)
    last = _version(page)
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    play, stop = (page.get_by_role("button", name=name) for name in ("Play", "Stop"))
    play.click()
    expect(stop).to_be_visible()
    page.clock.run_for(5_000)
    assert 1 < _version(page) < last
    stop.click()
    expect(play).to_be_visible()
    expect(page).to_have_url(re.compile("at="))
    play.click()
    expect(stop).to_be_visible()
    page.clock.run_for(10_000)
    expect(play).to_be_visible()
    assert _version(page) == last
    expect(page).not_to_have_url(re.compile("at="))


def test_without_javascript_one_goes_event_by_event(site: Site, run: str, look: Look) -> None:
    visit = look(site.url, scripts=False)
    open_execution(visit, run)
    last = _version(visit.page)
    expect(visit.page.get_by_role("button", name="Play")).to_have_count(0)
    visit.page.get_by_role("link", name="One event back").click()
    assert _version(visit.page) == last - 1
    visit.page.get_by_role("link", name="To the first event").click()
    _await_said(visit.page, "start", "not run")
    visit.page.get_by_role("link", name="To now").click()
    _await_said(visit.page, "start", "done")


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_window_shows_name_and_time_of_every_step(
    site: Site, run: str, look: Look, dark: bool
) -> None:
    visit = look(site.url, size=NARROW, dark=dark, still=True)
    open_execution(visit, run)
    for step in ("start", "each", "kept", "dropped"):
        expect(_row(visit.page, step).get_by_role("link", name=step, exact=True)).to_be_in_viewport(ratio=0.1)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    visit.shoot(f"run-narrow-{'dark' if dark else 'light'}")
    check_axe(visit.page)
