"""Pages that are open while something happens."""

from __future__ import annotations

import pytest

from tests.acceptance.stack import Stack

from .conftest import Look
from .pages import await_text, find_entry, open_list
from .playbooks import WAITS

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
