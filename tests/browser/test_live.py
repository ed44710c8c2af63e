"""Pages that are open while something happens."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from noetl.usecases import inspect
from noetl.usecases.signals import SignalRequest, send_signal
from tests.acceptance.stack import Stack

from .conftest import Look
from .pages import await_text, find_entry, open_execution, open_list
from .playbooks import ASKS, WAITS

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.browser,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.full("a whole stack; that pages are shown is quick"),
]


def test_an_open_list_shows_what_begins_and_how_it_goes_on(live: Stack, look: Look) -> None:
    visit = look(live.api)
    open_list(visit)
    visit.page.evaluate("window.isTheSame = true")
    execution = live.begin(WAITS)
    entry = find_entry(visit.page, execution)
    await_text(entry, "waiting")
    live.post(f"executions/{execution}/signals/payment")
    live.wait([execution])
    await_text(entry, "completed")
    assert visit.page.evaluate("window.isTheSame"), "the page was loaded again"
    visit.shoot("list-live")


def test_an_open_execution_shows_how_it_goes_on_and_keeps_what_is_typed(live: Stack, look: Look) -> None:
    execution = live.begin(ASKS)
    visit = look(live.api)
    open_execution(visit, execution)
    facts = visit.page.locator(".facts")
    await_text(facts, "waiting")
    # Somebody else looks at the same: where that is shown, this page has heard of it as well.
    other = look(live.api)
    open_execution(other, execution)
    visit.page.get_by_label("Reason").fill("half a senten")
    for verb, status in (("pause", "paused"), ("resume", "waiting")):
        live.post(f"executions/{execution}/{verb}")
        await_text(other.page.locator(".facts"), status)
        expect(visit.page.get_by_label("Reason")).to_have_value("half a senten")
    visit.page.get_by_role("button", name="Approve").click()
    await_text(facts, "completed")
    (answer,) = inspect.report(live.rt, execution).result["answers"]
    assert answer["reason"] == "half a senten"


def test_what_happened_while_a_page_was_cut_off_is_shown_once_it_is_back(live: Stack, look: Look) -> None:
    execution = live.begin(WAITS)
    visit = look(live.api)
    visit.expect("")  # the server goes away under it
    open_list(visit, execution)
    await_text(find_entry(visit.page, execution), "waiting")
    live.kill("api")
    await_text(visit.page.locator("#live"), "Reconnecting")
    send_signal(live.rt, execution, SignalRequest("payment"))
    live.start("api")
    await_text(find_entry(visit.page, execution), "completed")
    await_text(visit.page.locator("#live"), "Live")
