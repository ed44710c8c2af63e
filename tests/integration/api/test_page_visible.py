"""Names of any characters: pages show what is in them, and forms send them as they are."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.start import StartRequest, start

from .browsing import Page

ODD = "turned\u202eround \x07\x1b[31m"
SEEN = "turned[U+202E]round \u2407\u241b[31m"
PATH = f"tests/{ODD}"
#: Steps have names without control characters.
STEP = "back\u2066wards"
PLAYBOOK = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": ODD, "path": PATH, "description": ODD},
        "workflow": [
            {"step": STEP, "tool": {"kind": "noop"}, "next": "fails"},
            {"step": "fails", "tool": {"kind": "python", "code": f"raise ValueError({ODD!r})"}},
        ],
    }
)
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class _Read(HTMLParser):
    """The texts of a page that people read, or have read to them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._is_typed = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_typed = tag == "textarea"
        self.texts += [value or "" for name, value in attrs if name in ("title", "aria-label", "placeholder")]

    def handle_endtag(self, tag: str) -> None:
        self._is_typed = False

    def handle_data(self, data: str) -> None:
        if not self._is_typed:
            self.texts.append(data)


@pytest.fixture
def run(sim: Simulation) -> str:
    catalog.register(sim.rt, PLAYBOOK)
    execution_id = start(sim.rt, StartRequest(PATH)).execution_id
    sim.settle()
    return execution_id


def test_no_page_has_text_that_nobody_sees(browser: FlaskClient, run: str) -> None:
    tabs = ("", "events", "logs", "variables", "source")
    book = f"/playbooks/{quote(PATH)}"
    for address in (
        "/",
        f"/?path={quote(PATH)}",
        "/playbooks",
        "/failures",
        f"/edit?path={quote(PATH)}",
        *(f"/executions/{run}?tab={tab}&step={quote(STEP)}" for tab in tabs),
        *(f"{book}?tab={tab}" for tab in ("", "graph", "source", "versions", "start")),
    ):
        answer = browser.get(address)
        assert answer.status_code == 200, address
        read = _Read(answer.text).texts
        assert [one for one in read if _UNSEEN.search(one)] == [], address
        assert address == "/failures" or any(SEEN in one for one in read), address


def test_what_a_form_sends_is_what_it_was_given(browser: FlaskClient, run: str) -> None:
    assert Page(browser.get("/", query_string={"path": PATH}).text).fields["path"] == PATH
    assert Page(browser.get("/playbooks", query_string={"q": ODD}).text).fields["q"] == ODD
    edited = Page(browser.get("/edit", query_string={"path": PATH}).text).fields
    assert edited["path"] == PATH
    logs = Page(browser.get(f"/executions/{run}", query_string={"tab": "logs", "step": STEP}).text)
    assert logs.fields["step"] == STEP
