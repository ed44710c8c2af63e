"""What people look for on NoETL's pages, and where it is found: the only place that knows how these
are built."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Locator, Page, expect

from .visit import Visit

#: Where the executions are listed.
LIST: Final = "/"


def page_of(execution: str) -> str:
    """The path of an execution's page."""
    return f"/executions/{execution}"


def find_entry(page: Page, execution: str) -> Locator:
    """What the list shows of an execution: the row, or the item, with the link to its page."""
    link = page.locator(f'a[href$="{page_of(execution)}"]')
    return page.locator("tr, li, article").filter(has=link).first


def find_link(page: Page, execution: str) -> Locator:
    """The link that leads from the list to an execution."""
    return find_entry(page, execution).locator(f'a[href$="{page_of(execution)}"]').first


def open_list(visit: Visit, *executions: str) -> None:
    """Opens the list, and returns once it shows these executions."""
    assert visit.open(LIST) == 200
    for one in executions:
        await_text(find_entry(visit.page, one), "")


def open_execution(visit: Visit, execution: str) -> None:
    """Opens the page of an execution, which has to be there."""
    assert visit.open(page_of(execution)) == 200


def await_text(place: Locator, text: str) -> None:
    """Returns once the text is there to be seen, in capitals or not."""
    expect(place).to_be_visible()
    expect(place).to_contain_text(text, ignore_case=True)


def read_text(page: Page) -> str:
    """All that a visitor can read on the page."""
    return page.locator("body").inner_text()
