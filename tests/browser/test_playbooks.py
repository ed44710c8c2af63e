"""The list of playbooks, the page of one of them, and its start form, as a visitor meets them."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from noetl.usecases import catalog, moment
from tests.acceptance.playbooks import head
from tests.acceptance.stack import Stack

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import await_text, read_text
from .playbooks import WAITS
from .serving import Site
from .visit import NARROW

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

PAGE = "/playbooks/acceptance/orders"
ORDERS = (
    head("orders")
    + """
inputs:
  day: {type: date, required: true, description: The day that is loaded}
  limit: {type: integer, default: 5, min: 1, max: 10}
  token: {type: string, secret: true}
workflow:
  - step: fetch
    tool: {kind: noop}
    next: {arcs: [{step: odd, when: "{{ workload.limit == 3 }}"}, {step: load}]}
  - step: load
    tool: {kind: noop}
  - step: odd
    tool: {kind: python, code: "raise ValueError('odd')"}
"""
)
LATER = ORDERS.replace("- step: load", "- step: load\n    desc: Into the warehouse")
DAY = {"day": "2026-03-01"}


@pytest.fixture(scope="module")
def orders(site: Site) -> list[str]:
    """Executions of two versions, the second of which fails."""
    found = [site.run(ORDERS, {**DAY, "limit": limit}) for limit in (5, 3, 5)]
    return [*found, site.run(LATER, DAY)]


def _cells(page: Page, step: str) -> Locator:
    """The cells of a step in the grid that show something."""
    row = page.locator(".grid tbody tr").filter(has=page.get_by_role("rowheader", name=step, exact=True))
    return row.locator("td a")


def test_from_the_list_to_the_step_that_failed(site: Site, orders: list[str], look: Look) -> None:
    visit = look(site.url)
    assert visit.open("/playbooks") == 200
    visit.page.get_by_role("searchbox").fill("acceptance/ord")
    visit.page.wait_for_url("**q=acceptance**")
    visit.shoot("playbooks")
    visit.page.get_by_role("link", name="acceptance/orders", exact=True).click()
    expect(_cells(visit.page, "fetch")).to_have_count(4)
    expect(_cells(visit.page, "load")).to_have_count(3)
    visit.shoot("playbook")
    _cells(visit.page, "odd").click()
    visit.page.wait_for_url(f"**/executions/{orders[1]}?step=odd")


def test_a_step_in_the_grid_is_reached_with_the_keyboard_alone(
    site: Site, orders: list[str], look: Look
) -> None:
    visit = look(site.url)
    assert visit.open(PAGE) == 200
    visit.tab_to(_cells(visit.page, "odd"))
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url(f"**/executions/{orders[1]}?step=odd")


def test_without_javascript_versions_are_compared(site: Site, orders: list[str], look: Look) -> None:
    visit = look(site.url, scripts=False)
    assert visit.open(PAGE) == 200
    visit.page.get_by_role("link", name="Versions").click()
    visit.page.get_by_label("Compare from version 2").check()
    visit.page.get_by_label("Compare to version 1").check()
    visit.page.get_by_role("button", name="Compare").click()
    removed = visit.page.locator(".diff .removed")
    await_text(removed, "desc: Into the warehouse")
    assert re.findall(r"left=2&right=1", visit.page.url)
    visit.shoot("versions")


@pytest.mark.parametrize("scripts", [True, False], ids=["with-scripts", "without-scripts"])
def test_a_form_starts_an_execution(site: Site, orders: list[str], look: Look, scripts: bool) -> None:
    visit = look(site.url, scripts=scripts)
    visit.expect("422")
    assert visit.open(PAGE) == 200
    page = visit.page
    page.get_by_role("link", name="Start", exact=True).click()
    page.get_by_label("day").fill("2026-03-04")
    page.get_by_label("token").fill("not to be seen")
    page.get_by_role("button", name="Show the plan").click()
    await_text(page.get_by_role("region", name="What would run"), "fetch")
    expect(page.get_by_label("day")).to_have_value("2026-03-04")
    expect(page.get_by_label("token")).to_have_value("")
    visit.shoot("start")
    # The server looks as well where a browser does not.
    page.get_by_label("limit").fill("11")
    page.locator("form.start-form").evaluate("form => { form.noValidate = true }")
    page.get_by_role("button", name="Start v2").click()
    await_text(page.locator("#fault-2"), "10")
    page.get_by_label("limit").fill("7")
    page.get_by_label("token").fill("not to be seen")
    page.get_by_role("button", name="Start v2").click()
    page.wait_for_url("**/executions/*")
    # There is no worker: what was asked for is in the log, and the secret is not.
    with site.rt.store.read() as tx:
        asked = moment.requested(tx, page.url.rpartition("/")[2])
    assert (asked.payload["day"], asked.payload["limit"]) == ("2026-03-04", 7)
    assert "not to be seen" not in json.dumps(asked.payload)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_narrow_window_shows_all_of_it(site: Site, orders: list[str], look: Look, dark: bool) -> None:
    visit = look(site.url, size=NARROW, dark=dark, still=True)
    for number, path in enumerate(
        ("/playbooks", PAGE, *(f"{PAGE}?tab={one}" for one in ("graph", "source", "start"))),
    ):
        assert visit.open(path) == 200
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0], path
        check_axe(visit.page)
        visit.shoot(f"playbook-narrow-{number}-{'dark' if dark else 'light'}")
    assert visit.open(f"{PAGE}?tab=versions&left=1&right=2") == 200
    check_axe(visit.page)
    assert visit.open(PAGE) == 200
    expect(_cells(visit.page, "fetch").last).to_be_in_viewport()


@pytest.mark.parametrize("scripts", [True, False], ids=["with-scripts", "without-scripts"])
def test_markup_in_playbooks_is_text(site: Site, look: Look, scripts: bool) -> None:
    site.run(untrusted.PLAYBOOK)
    path = json.loads(untrusted.PLAYBOOK)["metadata"]["path"]
    visit = look(site.url, scripts=scripts)
    for address in (
        "/playbooks",
        *(f"/playbooks/{quote(path)}?tab={tab}" for tab in ("", "source", "versions", "start", "graph")),
    ):
        assert visit.open(address) == 200, address
        said = read_text(visit.page)
        assert [one for one in (*untrusted.MARKUP, *untrusted.WORDS) if one not in said] == [], address
        untrusted.check_nothing_ran(visit.page)


@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.full("a whole stack; that the grid is shown is quick")
def test_an_open_grid_shows_what_begins_and_how_it_goes_on(live: Stack, look: Look) -> None:
    visit = look(live.api)
    catalog.register(live.rt, WAITS)
    assert visit.open("/playbooks/acceptance/waits") == 200
    visit.page.evaluate("window.isTheSame = true")
    execution = live.begin(WAITS)
    shape = visit.page.locator(f'.grid tbody a[href^="/executions/{execution}"]')
    expect(shape).to_have_class("waiting")
    live.post(f"executions/{execution}/signals/payment")
    expect(shape).to_have_class("done")
    assert visit.page.evaluate("window.isTheSame"), "the page was loaded again"
