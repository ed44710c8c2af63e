"""The list as one works with it: filters while one types, and acts on those that one chooses."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Route, expect

from noetl.usecases import catalog, inspect
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

from .axe import check_axe
from .conftest import Look
from .pages import await_text, find_entry, open_list
from .playbooks import FAILS, WAITS, WELL
from .serving import Site
from .visit import NARROW, settle

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]


@pytest.fixture(scope="module")
def runs(site: Site) -> dict[str, str]:
    catalog.register(site.rt, WAITS)
    waiting = start(site.rt, StartRequest("acceptance/waits", labels={"team": "data"})).execution_id
    return {"well": site.run(WELL), "failed": site.run(FAILS), "waiting": waiting}


def test_filters_narrow_the_list_while_one_types_and_stand_in_the_address(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    open_list(visit, *runs.values())
    visit.page.get_by_label("Playbook").fill("*/fails")
    expect(find_entry(visit.page, runs["well"])).to_have_count(0)
    await_text(find_entry(visit.page, runs["failed"]), "failed")
    assert parse_qs(urlsplit(visit.page.url).query) == {"path": ["*/fails"]}
    visit.page.reload()
    await_text(find_entry(visit.page, runs["failed"]), "failed")
    expect(visit.page.get_by_label("Playbook")).to_have_value("*/fails")
    visit.page.get_by_role("link", name="Playbook: */fails").click()
    await_text(find_entry(visit.page, runs["well"]), "completed")


def test_each_filter_is_a_step_of_the_way_back_and_what_is_typed_is_one(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    open_list(visit, *runs.values())
    page = visit.page
    page.get_by_label("Called executions").select_option("hidden")
    expect(page).to_have_url(re.compile(r"\?called=hidden$"))
    for text in ("*/f", "*/fails"):
        page.get_by_label("Playbook").fill(text)
        expect(page).to_have_url(re.compile(rf"path={re.escape(quote(text, safe='*'))}&"))
    page.go_back()
    expect(page).to_have_url(re.compile(r"\?called=hidden$"))
    await_text(find_entry(page, runs["well"]), "completed")
    page.go_back()
    expect(page).to_have_url(re.compile(r"/$"))


def test_a_look_that_was_asked_for_before_a_filter_does_not_take_its_place(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    open_list(visit, *runs.values())
    held: list[Route] = []
    visit.page.route(
        lambda url: urlsplit(url).path == "/" and "fails" not in url, lambda one: held.append(one), times=1
    )
    visit.page.evaluate("look_again()")
    visit.await_heard(lambda: held, "another look")
    visit.page.get_by_label("Playbook").fill("*/fails")
    expect(find_entry(visit.page, runs["well"])).to_have_count(0)
    # Behind its answer the page looks again, at what is asked for now.
    with visit.page.expect_response(lambda answer: "fails" in answer.url):
        held[0].continue_()
    settle(visit.page)
    expect(find_entry(visit.page, runs["well"])).to_have_count(0)
    await_text(find_entry(visit.page, runs["failed"]), "failed")


def test_a_label_of_an_execution_leads_to_all_that_have_it(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    open_list(visit, *runs.values())
    visit.page.get_by_role("link", name="team=data").first.click()
    await_text(find_entry(visit.page, runs["waiting"]), "acceptance/waits")
    expect(find_entry(visit.page, runs["well"])).to_have_count(0)
    expect(visit.page.get_by_label("Label")).to_have_value("team=data")


def test_what_is_wrong_with_a_filter_is_said_and_what_was_typed_stays(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    visit.expect("400")
    open_list(visit, *runs.values())
    visit.page.get_by_text("More filters").click()
    visit.page.get_by_label("Expression").fill("stat = 'failed'")
    await_text(visit.page.get_by_role("alert"), "Did you mean 'status'?")
    visit.page.get_by_label("Expression").fill("status = 'failed'")
    await_text(find_entry(visit.page, runs["failed"]), "failed")


def test_without_javascript_one_is_asked_on_a_page_of_its_own(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url, scripts=False)
    open_list(visit, *runs.values())
    visit.page.get_by_label(f"Select execution {runs['waiting']}").check()
    visit.page.get_by_role("button", name="Pause").click()
    await_text(visit.page.get_by_role("heading"), "Pause 1 execution?")
    visit.page.get_by_role("button", name="Pause 1 execution").click()
    await_text(visit.page.get_by_role("main"), "was asked to pause")
    # Without scripts the list is as of the moment at which it is opened.
    until(lambda: inspect.execution(site.rt, runs["waiting"]).status == "paused", "it to be paused")
    visit.page.get_by_role("link", name="Back").click()
    await_text(find_entry(visit.page, runs["waiting"]), "paused")


def test_those_that_one_chooses_are_cancelled_once_that_is_confirmed(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    open_list(visit, *runs.values())
    expect(visit.page.get_by_role("button", name="Cancel")).to_be_hidden()
    visit.page.get_by_label(f"Select execution {runs['waiting']}").check()
    visit.page.get_by_label(f"Select execution {runs['failed']}").check()
    await_text(visit.page.locator(".chosen-count"), "2 selected")
    visit.page.get_by_role("button", name="Cancel").click()
    dialog = visit.page.get_by_role("dialog")
    await_text(dialog, "Cancel 1 execution?")
    await_text(dialog, "is skipped: it has ended (failed)")
    visit.shoot("dialog-cancel")
    check_axe(visit.page)
    visit.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert inspect.execution(site.rt, runs["waiting"]).status == "paused", "it was not confirmed"
    visit.page.get_by_label(f"Select execution {runs['waiting']}").check()
    visit.page.get_by_role("button", name="Cancel").click()
    dialog.get_by_label("Reason").fill("enough")
    dialog.get_by_role("button", name="Cancel 1 execution").click()
    await_text(dialog, "was asked to cancel")
    dialog.get_by_role("link", name="Back").click()
    expect(dialog).to_be_hidden()
    await_text(find_entry(visit.page, runs["waiting"]), "cancelled")
    (cancelled,) = inspect.executions(site.rt, path="acceptance/waits")
    assert cancelled.status == "cancelled"


def test_what_is_shown_stays_where_another_look_is_refused(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url)
    visit.expect("429")
    open_list(visit, *runs.values())
    refused: list[str] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        route.fulfill(status=429, content_type="text/html", body="<h1>Too many requests</h1>")

    visit.page.route("**/?*", refuse)
    visit.page.get_by_label("Playbook").fill("*/fails")
    expect(visit.page.get_by_label("Playbook")).to_have_value("*/fails")
    visit.await_heard(lambda: refused, "another look")
    settle(visit.page)
    await_text(find_entry(visit.page, runs["well"]), "completed")
    visit.page.unroute("**/?*")
    visit.page.get_by_label("Playbook").fill("*/well")
    expect(find_entry(visit.page, runs["failed"])).to_have_count(0)
    await_text(find_entry(visit.page, runs["well"]), "completed")


def test_no_page_is_wider_than_a_small_window(site: Site, look: Look) -> None:
    name, key = "n" * 120, "k" * 200
    long = WELL.replace("acceptance/well", f"acceptance/{name}")
    site.run(long)
    run = f"/executions/{site.run(long + '# ' + 'x' * 300, key=key)}"
    diff = f"/playbooks/acceptance/{name}?tab=versions&left=1&right=2"
    visit = look(site.url, size=NARROW)
    wide = []
    for path in (
        "/",
        "/playbooks",
        diff,
        run,
        *(f"{run}?tab={one}" for one in ("events", "waits", "source")),
    ):
        assert visit.open(path) == 200
        if visit.page.evaluate("document.documentElement.scrollWidth") > NARROW[0]:
            wide.append(path[:40] + path[-16:])
    assert not wide


def test_tooltips_say_times_in_the_zone_in_which_cells_do(
    site: Site, runs: dict[str, str], look: Look
) -> None:
    visit = look(site.url, zone="Asia/Kathmandu")
    open_list(visit, *runs.values())
    tooltips = visit.page.locator(".chart title")
    expect(tooltips.first).to_have_text(re.compile(r"\d\d:\d\d:\d\d: "))
    assert not [one for one in tooltips.all_text_contents() if "UTC" in one]
    expect(visit.page.locator("#zone")).to_contain_text("GMT+05:45")
