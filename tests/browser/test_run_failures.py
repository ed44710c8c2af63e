"""The page of failures as one works with it, and operations that go on while one looks."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from noetl.usecases.fleet import operations
from tests.acceptance.playbooks import head
from tests.acceptance.stack import Stack

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import await_text, read_text
from .serving import Site
from .visit import NARROW

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

FAILS = (
    head("fleeting")
    + """
workload: {number: 1}
workflow:
  - step: price
    tool: {kind: python, input: {n: "{{ number }}"}, code: "raise TimeoutError(f'no price for order {n}')"}
"""
)


@pytest.fixture(scope="module")
def failed(site: Site) -> None:
    for number in range(3):
        site.run(FAILS, {"number": number})
    site.run(untrusted.PLAYBOOK)


@pytest.mark.parametrize("dark", [False, True])
def test_what_failed_alike_is_one_group_on_a_telephone_too(
    site: Site, failed: None, look: Look, dark: bool
) -> None:
    visit = look(site.url, size=NARROW, dark=dark)
    assert visit.open("/failures") == 200
    group = visit.page.locator(".groups > li").filter(has_text="no price for order <number>")
    await_text(group, "3")
    await_text(group, "TimeoutError")
    width = visit.page.evaluate("document.documentElement.scrollWidth")
    assert width <= NARROW[0], "it is to be read without scrolling to the side"
    check_axe(visit.page)
    visit.shoot(f"failures-{'dark' if dark else 'light'}")
    untrusted.check_nothing_ran(visit.page)
    said = read_text(visit.page)
    visit.page.locator(".groups summary").first.click()
    assert all(word in said + read_text(visit.page) for word in ("bell", "escape", "turned"))


def test_filters_narrow_the_groups_while_one_types(site: Site, failed: None, look: Look) -> None:
    visit = look(site.url)
    visit.open("/failures")
    expect(visit.page.locator(".groups > li")).to_have_count(2)
    visit.page.get_by_label("Error").fill("NO PRICE")
    expect(visit.page.locator(".groups > li")).to_have_count(1)
    assert parse_qs(urlsplit(visit.page.url).query) == {"error": ["NO PRICE"]}
    visit.page.reload()
    expect(visit.page.locator(".groups > li")).to_have_count(1)


def test_groups_are_retried_without_javascript(site: Site, failed: None, look: Look) -> None:
    visit = look(site.url, scripts=False)
    visit.open("/failures?error=no+price")
    visit.page.locator(".groups > li").get_by_role("checkbox").check()
    visit.page.locator(".acts").get_by_role("button", name="Retry").click()
    await_text(visit.page.get_by_role("heading"), "Retry 3 executions?")
    visit.page.get_by_label("At once").fill("2")
    visit.page.get_by_label("Reason").fill("prices are back")
    visit.page.get_by_role("button", name="Plan again").click()
    expect(visit.page.get_by_label("At once")).to_have_value("2")
    visit.page.get_by_role("button", name="Retry 3 executions").click()
    await_text(visit.page.get_by_role("main"), "prices are back")
    await_text(visit.page.get_by_role("main"), "3 pending")
    visit.page.get_by_role("button", name="Pause").click()
    visit.page.get_by_role("button", name="Pause").click()
    await_text(visit.page.get_by_role("main"), "paused")
    (made,) = operations.operations(site.rt)
    assert (made.row.status, made.row.concurrency) == ("paused", 2)


def test_an_operation_is_begun_by_keyboard_and_goes_on_while_one_looks(live: Stack, look: Look) -> None:
    live.wait([live.begin(FAILS, {"number": number}) for number in range(3)])
    visit = look(live.api, dark=True)
    visit.open("/failures")
    visit.tab_to(visit.page.locator(".groups > li").get_by_role("button", name="Retry").first)
    visit.page.keyboard.press("Enter")
    dialog = visit.page.get_by_role("dialog")
    await_text(dialog, "Retry 3 executions?")
    check_axe(visit.page)
    visit.shoot("failures-plan")
    visit.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert operations.operations(live.rt) == [], "it was not meant"
    visit.tab_to(visit.page.locator(".groups > li").get_by_role("button", name="Retry").first)
    visit.page.keyboard.press("Enter")
    visit.tab_to(dialog.get_by_role("button", name="Retry 3 executions"))
    visit.page.keyboard.press("Enter")
    await_text(visit.page.get_by_role("heading", name="Retry of 3 executions"), "")
    # Nothing is pressed: the page looks again by itself.
    expect(visit.page.locator(".facts .status")).to_have_text("completed")
    await_text(visit.page.locator(".counts"), "3 failed")
    check_axe(visit.page)
    visit.shoot("operation")
