"""The pages of queues, workers and limits, and of who may do what, in a browser."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from noetl.usecases import catalog, credentials, tokens
from noetl.usecases.ports import WorkerRow
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.start import StartRequest, start
from tests.acceptance.playbooks import head
from tests.acceptance.stack import Stack

from .axe import check_axe
from .conftest import Look
from .pages import await_text, read_text
from .serving import Site
from .untrusted import MARKUP, check_nothing_ran
from .visit import NARROW, WIDE, settle

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

TABS = ("/queues", "/access", "/access?new=postgres", "/access?tab=tokens", "/access?tab=audit")
#: Whether all of it is marked, to be copied.
_MARKED = """text => {
  const {value, selectionStart, selectionEnd} = document.activeElement;
  return value === text && selectionEnd - selectionStart === text.length;
}"""
_TOKEN = re.compile(r"noetl_[a-z0-9]{10}_[\w-]{43}")

BOUNDED = (
    head("bounded")
    + """
workflow:
  - step: load
    spec: {concurrency: {limit: 1, key: disk}}
    tool: {kind: wait, signal: {name: go}}
"""
)


def see_worker(site: Site, name: str, silent_s: float = 0) -> None:
    now = datetime.now(UTC)
    row = WorkerRow(name, "worker", ("python", "http"), now, now - timedelta(seconds=silent_s))
    with site.rt.store.begin() as tx:
        tx.workers.see(row)


@pytest.fixture(scope="module")
def filled(site: Site) -> Site:
    """There is something to show, and it says what no page may take for its own."""
    for number, said in enumerate(MARKUP):
        see_worker(site, f"worker {number} {said}", 20 * number)
    credentials.save(site.rt, "warehouse", "generic", {"password": "x"}, credentials.audience(MARKUP[0]))
    tokens.create(site.rt, "ci", ["read", "run:etl/*"], groups=["ops"])
    row = catalog.register(site.rt, BOUNDED)
    for _ in range(2):
        start(site.rt, StartRequest(row.path, row.version, {}))
    return site


@pytest.mark.parametrize(("size", "dark"), [(WIDE, True), (NARROW, False)])
def test_everybody_can_use_the_pages(filled: Site, look: Look, size: tuple[int, int], *, dark: bool) -> None:
    visit = look(filled.url, size=size, dark=dark)
    for path in TABS:
        assert visit.open(path) == 200
        check_axe(visit.page)
        check_nothing_ran(visit.page)
        width = visit.page.evaluate("document.documentElement.scrollWidth")
        assert width <= size[0], f"{path} is wider than its window"
        visit.shoot(f"parts-{re.sub(r'[^a-z]', '', path)}-{size[0]}-{'dark' if dark else 'light'}")


def test_what_workers_and_places_are_called_is_shown_as_text(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.open("/queues")
    for said in MARKUP:
        assert said in read_text(visit.page)
    visit.open("/access")
    assert MARKUP[0].strip("/") in read_text(visit.page)
    check_nothing_ran(visit.page)


def test_a_queue_is_paused_and_resumed_with_the_keyboard_alone(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.open("/queues")
    page = visit.page
    visit.tab_to(page.get_by_role("button", name="Pause queue http"))
    page.keyboard.press("Enter")
    await_text(page.get_by_role("dialog"), "Pause the queue http?")
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.type("the vendor is down")
    page.keyboard.press("Enter")
    await_text(page.get_by_role("dialog"), "The queue http is paused")
    expect(page.get_by_role("dialog").get_by_role("link", name="Back")).to_be_focused()
    page.keyboard.press("Enter")
    await_text(
        page.locator("tr", has=page.get_by_role("link", name="http", exact=True)), "the vendor is down"
    )
    visit.tab_to(page.get_by_role("button", name="Resume queue http"))
    page.keyboard.press("Enter")
    resume = page.get_by_role("dialog").get_by_role("button", name="Resume")
    expect(resume).to_be_focused()
    page.keyboard.press("Enter")
    await_text(page.get_by_role("dialog"), "The queue http goes on")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Pause queue http")).to_be_visible()


def test_heartbeats_are_looked_at_while_nothing_else_happens(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.page.clock.install()
    visit.open("/queues")
    expect(visit.page.get_by_text("late-comer")).to_have_count(0)
    see_worker(filled, "late-comer")
    visit.page.clock.run_for(6_000)
    # However long it took to look again, it may be missed by now.
    expect(visit.page.locator("tr", has_text="late-comer")).to_be_visible()


def test_a_page_that_is_hidden_does_not_ask(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.page.clock.install()
    visit.page.add_init_script("Object.defineProperty(document, 'hidden', {value: true, configurable: true})")
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url.removeprefix(filled.url)))
    visit.open("/queues")
    visit.page.clock.run_for(60_000)
    settle(visit.page)
    assert asked.count("/queues") == 1, "the page itself"
    visit.page.evaluate("delete document.hidden")
    visit.page.clock.run_for(6_000)
    visit.await_heard(lambda: asked.count("/queues") > 1, "it to ask again")


def test_a_token_is_made_without_scripts(filled: Site, look: Look) -> None:
    visit = look(filled.url, scripts=False)
    visit.open("/access?tab=tokens")
    text = _make_token(visit.page, "no-scripts")
    assert tokens.recognize(filled.rt, text).name == "no-scripts"


def _make_token(page: Page, principal: str) -> str:
    page.get_by_text("New token").click()
    page.get_by_label("Owner").fill(principal)
    page.get_by_label("read look at").check()
    page.get_by_role("button", name="Create").click()
    text = page.get_by_label("Token", exact=True).input_value()
    assert _TOKEN.fullmatch(text)
    assert text.split("_", 2)[2] not in page.url
    return text


def test_a_new_token_is_gone_for_who_goes_back_and_forth(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.open("/access?tab=tokens")
    page = visit.page
    text = _make_token(page, "once")
    page.wait_for_function(_MARKED, arg=text)
    check_axe(page)
    visit.open("/queues")
    page.go_back()
    await_text(page.get_by_text("New token"), "")
    assert text not in page.content()
    expect(page.locator("[data-once]")).to_have_count(0)
    again = _make_token(page, "twice")
    page.get_by_role("link", name="I have copied it").click()
    await_text(page.locator("tr", has_text="twice"), "good")
    assert again not in page.content()


def test_what_was_typed_for_a_token_stays_where_it_is_refused(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.expect("400")
    visit.open("/access?tab=tokens")
    page = visit.page
    page.get_by_text("New token").click()
    page.get_by_label("Owner").fill("not a name")
    page.get_by_label("read look at").check()
    page.get_by_role("button", name="Create").click()
    await_text(page.get_by_role("dialog"), "is no name for a principal")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Owner")).to_have_value("not a name")


def test_a_credential_is_kept_replaced_and_deleted(filled: Site, look: Look) -> None:
    visit = look(filled.url)
    visit.open("/access")
    page = visit.page
    page.get_by_label("New credential of type").select_option("basic")
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("Name", exact=True).fill("mail")
    page.get_by_label("username").fill("ada")
    page.get_by_label("password").fill("canary-pass")
    page.get_by_role("button", name="Save").click()
    row = page.locator("tr", has_text="mail")
    await_text(row, "password, username")
    assert "canary-pass" not in page.content()
    page.get_by_role("link", name="Replace mail").click()
    expect(page.get_by_label("password")).to_have_value("")
    page.go_back()
    page.get_by_role("button", name="Delete mail").click()
    await_text(page.get_by_role("dialog"), "Delete the credential mail?")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(row).to_have_count(0)


def test_who_waits_for_a_slot_is_shown_as_it_happens(live: Stack, look: Look) -> None:
    visit = look(live.api)
    visit.open("/queues")
    first, second = live.begin(BOUNDED), live.begin(BOUNDED)
    limit = visit.page.locator(".limit", has_text="disk")
    await_text(limit.locator("tr", has_text=first), "has a slot")
    await_text(limit.locator("tr", has_text=second), "waits")
    send_signal(live.rt, first, SignalRequest("go"))
    await_text(limit.locator("tr", has_text=second), "has a slot")
    send_signal(live.rt, second, SignalRequest("go"))
    expect(limit).to_have_count(0)
