"""The list of executions and the page of one of them, as a visitor sees them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from playwright.sync_api import expect

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import await_text, find_entry, find_link, open_execution, open_list, page_of, read_text
from .playbooks import FAILS, WELL, WHY
from .serving import Site
from .visit import NARROW, WIDE

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]


@dataclass(frozen=True)
class Shown:
    """Executions of the site."""

    well: str
    failed: str


@pytest.fixture(scope="module")
def shown(site: Site) -> Shown:
    return Shown(well=site.run(WELL), failed=site.run(FAILS))


def test_the_list_shows_how_executions_ended(site: Site, shown: Shown, look: Look) -> None:
    visit = look(site.url)
    open_list(visit, shown.well, shown.failed)
    await_text(find_entry(visit.page, shown.well), "completed")
    await_text(find_entry(visit.page, shown.well), "acceptance/well")
    await_text(find_entry(visit.page, shown.failed), "failed")
    assert "Traceback" not in read_text(visit.page)
    visit.shoot("list")


def test_the_page_of_an_execution_says_why_it_failed(site: Site, shown: Shown, look: Look) -> None:
    visit = look(site.url)
    open_execution(visit, shown.failed)
    said = read_text(visit.page)
    assert "failed" in said.lower()
    assert WHY in said
    assert "Traceback" not in said
    visit.shoot("execution-failed")


def test_an_execution_is_reached_with_the_keyboard_alone(site: Site, shown: Shown, look: Look) -> None:
    visit = look(site.url)
    open_list(visit, shown.failed)
    visit.tab_to(find_link(visit.page, shown.failed))
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url(f"**{page_of(shown.failed)}")
    assert WHY in read_text(visit.page)


def test_without_javascript_the_list_is_there_and_filtered(site: Site, shown: Shown, look: Look) -> None:
    visit = look(site.url, scripts=False)
    open_list(visit, shown.well, shown.failed)
    visit.page.locator("label", has_text="failed").first.click()
    visit.page.get_by_role("button", name="Filter").click()
    await_text(find_entry(visit.page, shown.failed), "failed")
    expect(find_link(visit.page, shown.well)).to_have_count(0)


def test_without_javascript_an_execution_says_its_status_and_its_error(
    site: Site, shown: Shown, look: Look
) -> None:
    visit = look(site.url, scripts=False)
    open_execution(visit, shown.failed)
    said = read_text(visit.page)
    assert "failed" in said.lower()
    assert WHY in said


def test_an_execution_that_does_not_exist_is_not_found(site: Site, look: Look) -> None:
    visit = look(site.url)
    visit.expect("404")
    assert visit.open(page_of("1")) == 404
    assert "Traceback" not in read_text(visit.page)


def test_a_narrow_window_scrolls_in_one_direction_only(site: Site, shown: Shown, look: Look) -> None:
    visit = look(site.url, size=NARROW, still=True)
    open_list(visit, shown.failed)
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    open_execution(visit, shown.failed)
    visit.shoot("execution-failed-narrow")
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


@pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(WIDE, False, id="wide-and-light"), pytest.param(NARROW, True, id="narrow-and-dark")],
)
def test_axe_finds_nothing_grave(
    site: Site, shown: Shown, look: Look, size: tuple[int, int], dark: bool
) -> None:
    visit = look(site.url, size=size, dark=dark)
    open_list(visit, shown.well, shown.failed)
    visit.shoot(f"list-{size[0]}-{'dark' if dark else 'light'}")
    check_axe(visit.page)
    for execution in (shown.well, shown.failed):
        open_execution(visit, execution)
        check_axe(visit.page)


# --- what playbooks and their tasks say is text, whatever it says --------------------------------


@pytest.fixture(scope="module")
def strange(site: Site) -> str:
    """An execution of `untrusted.PLAYBOOK`."""
    return site.run(untrusted.PLAYBOOK, key=untrusted.MARKUP[1])


def test_the_list_shows_markup_as_text(site: Site, strange: str, look: Look) -> None:
    visit = look(site.url)
    open_list(visit, strange)
    said = read_text(visit.page)
    assert [one for one in (*untrusted.MARKUP, *untrusted.WORDS) if one not in said] == []
    untrusted.check_nothing_ran(visit.page)
    visit.shoot("list-untrusted")


@pytest.mark.parametrize("scripts", [True, False], ids=["with-scripts", "without-scripts"])
def test_the_page_of_an_execution_shows_markup_as_text(
    site: Site, strange: str, look: Look, scripts: bool
) -> None:
    visit = look(site.url, scripts=scripts)
    open_execution(visit, strange)
    said = read_text(visit.page)
    wanted = (*untrusted.MARKUP, *untrusted.WORDS, untrusted.TEMPLATE)
    assert [one for one in wanted if one not in said] == []
    untrusted.check_nothing_ran(visit.page)
    visit.shoot("execution-untrusted")
