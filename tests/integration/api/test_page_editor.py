"""The page on which playbooks are written, as a browser without scripts has it, and what its
scripts ask for."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.context import KEY
from noetl.dsl.completion import Completer
from noetl.dsl.read.source import MAX_BYTES
from noetl.net.model import KindInfo
from noetl.testing import Simulation
from noetl.ui.editor import complete
from noetl.usecases import catalog, tokens
from noetl.usecases.credentials import audience, save
from tests.waiting import until

from .browsing import OWN, Page, sign_in

ORDER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: order, path: shop/order}
workflow:
  - step: take
    tool: {kind: http, url: "https://shop.example/orders"}
    next: pay
  - step: pay
    tool: {kind: playbook, path: shop/pay}
"""
WRONG = ORDER.replace("next: pay", "next: pya")
#: With a warning: nothing leads to the step.
WARNED = ORDER.replace("    next: pay\n", "")


def typed(page: Any) -> str:
    """The text that the field of the page holds."""
    return Page(page.text).fields["text"]


def send(browser: FlaskClient, text: str, do: str = "register", where: str = "/edit") -> Any:
    """Types the text into the page, as browsers send it, and presses a button."""
    fields = Page(browser.get(where).text).fields
    return send_again(browser, fields, text, do)


def send_again(browser: FlaskClient, fields: dict[str, str], text: str, do: str = "register") -> Any:
    return browser.post("/edit", data={**fields, "text": text.replace("\n", "\r\n"), "do": do}, headers=OWN)


def content(sim: Simulation, path: str = "shop/order") -> list[str]:
    return [row.content for row in catalog.versions(sim.rt, path)]


# --- looking ---


def test_a_new_playbook_begins_with_one_that_can_be_registered(browser: FlaskClient, sim: Simulation) -> None:
    answer = send(browser, typed(browser.get("/edit")))
    assert answer.status_code == 303
    (row,) = catalog.versions(sim.rt, "examples/my-playbook")
    assert row.warnings == ()


def test_a_playbook_is_shown_with_its_newest_text_or_an_older_one(
    browser: FlaskClient, sim: Simulation
) -> None:
    for text in (ORDER, "\n" + WARNED):
        catalog.register(sim.rt, text)
    newest = browser.get("/edit?path=shop/order")
    assert typed(newest) == "\n" + WARNED, "an empty line at its beginning is there, too"
    assert "Version 2" in newest.text
    older = browser.get("/edit?path=shop/order&version=1")
    assert typed(older) == ORDER
    assert "Version 1 of 2" in older.text
    assert "becomes version 3" in older.text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("path=shop/nothing", 404),
        ("path=examples/doubling&version=9", 404),
        ("path=examples/doubling&version=x", 400),
    ],
)
def test_what_there_is_not_is_said(browser: FlaskClient, query: str, status: int) -> None:
    page = browser.get(f"/edit?{query}")
    assert (page.status_code, page.mimetype) == (status, "text/html")


# --- checking ---


def test_problems_stand_beside_the_text_with_places_and_what_was_meant(
    browser: FlaskClient, sim: Simulation
) -> None:
    page = send(browser, WRONG, "check")
    assert page.status_code == 200
    assert typed(page) == WRONG
    text = unescape(page.text)
    assert "1 error" in text
    assert re.search(r'data-line="7" data-column="11" data-severity="error"', text)
    assert "did you mean 'pay'?" in text
    assert "NOETL301" in text
    assert not catalog.is_known(sim.rt, "shop/order"), "nothing was registered"


def test_a_text_without_errors_has_its_plan_beside_it(browser: FlaskClient, sim: Simulation) -> None:
    shown = Page(send(browser, ORDER, "check").text).text
    assert "No problems" in shown
    for said in (
        "Plan: 2 steps",
        "take",
        "queue",
        "https://shop.example/orders",
        "→ pay",
        "What it needs",
        "shop/pay",
    ):
        assert said in shown
    warned = Page(send(browser, WARNED, "check").text).text
    assert "1 warning" in warned
    assert "Never reached: pay" in warned
    assert not catalog.is_known(sim.rt, "shop/order")


def test_what_would_fail_is_said_in_the_plan(browser: FlaskClient) -> None:
    text = ORDER.replace("https://shop.example/orders", "{{ 7 // 0 }}")
    assert "would fail" in Page(send(browser, text, "check").text).text


@pytest.mark.parametrize("text", ["", "[", "\t", "a: &a [*a]", "- 1\n- 2", "\x07: \x1b"])
def test_any_text_can_be_checked_and_comes_back(browser: FlaskClient, text: str) -> None:
    page = send(browser, text, "check")
    assert page.status_code == 200
    assert typed(page) == text
    assert re.search(r"\d error", page.text)


def test_a_text_as_large_as_playbooks_may_be_can_be_sent(browser: FlaskClient) -> None:
    large = ORDER + "# ü" + "ü" * (MAX_BYTES // 2 - len(ORDER))
    assert "No problems" in send(browser, large[: MAX_BYTES // 2], "check").text
    assert "NOETL104" in send(browser, large + "ü" * 1000, "check").text


def test_what_playbooks_say_is_shown_as_text(browser: FlaskClient) -> None:
    evil = "</textarea><script>alert(1)</script>"
    page = send(
        browser, ORDER.replace("shop/pay", evil).replace("- step: take", f"- step: '{evil}'"), "check"
    )
    assert "<script>alert" not in page.text
    assert evil in typed(page)


# --- registering ---


def test_a_text_is_registered_and_the_page_goes_on_with_it(browser: FlaskClient, sim: Simulation) -> None:
    answer = send(browser, ORDER)
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/edit?path=shop/order&version=1&now=registered",
    )
    assert content(sim) == [ORDER], "the line ends are those of the text, and not those of forms"
    page = browser.get(answer.headers["Location"])
    assert "Version 1 is registered." in page.text
    assert "/playbooks/shop/order?tab=start&amp;version=1" in page.text
    assert typed(page) == ORDER


def test_an_unchanged_text_says_so(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, ORDER)
    answer = send(browser, ORDER, where="/edit?path=shop/order")
    page = browser.get(answer.headers["Location"])
    assert "Nothing was registered: version 1 has the same text." in page.text
    assert len(content(sim)) == 1


def test_a_text_with_errors_is_not_registered_and_not_lost(browser: FlaskClient, sim: Simulation) -> None:
    page = send(browser, WRONG)
    assert page.status_code == 422
    assert typed(page) == WRONG
    assert "Nothing was registered" in page.text
    assert "NOETL301" in page.text
    assert not catalog.is_known(sim.rt, "shop/order")


def test_what_somebody_else_registered_meanwhile_is_not_overwritten_unseen(
    browser: FlaskClient, sim: Simulation
) -> None:
    catalog.register(sim.rt, ORDER)
    fields = Page(browser.get("/edit?path=shop/order").text).fields
    catalog.register(sim.rt, ORDER + "# theirs\n")
    page = send_again(browser, fields, ORDER + "# mine\n")
    assert page.status_code == 409
    assert "Version 2 was registered since you began" in page.text
    assert typed(page) == ORDER + "# mine\n"
    assert len(content(sim)) == 2
    answer = send_again(browser, Page(page.text).fields, ORDER + "# mine\n")
    assert answer.status_code == 303
    assert content(sim)[2] == ORDER + "# mine\n"


def test_a_path_that_is_taken_is_asked_about(browser: FlaskClient, sim: Simulation) -> None:
    catalog.register(sim.rt, ORDER)
    page = send(browser, ORDER + "# new\n")
    assert page.status_code == 409
    assert "There is a playbook 'shop/order' already" in unescape(page.text)
    assert send_again(browser, Page(page.text).fields, ORDER + "# new\n").status_code == 303
    assert len(content(sim)) == 2


# --- who may ---


def signed_in(app: Flask, sim: Simulation, *scopes: str) -> FlaskClient:
    made = tokens.create(sim.rt, "alice", scopes)
    browser = app.test_client()
    sign_in(browser, made.text)
    return browser


def test_who_may_only_read_looks_at_it(closed: Flask, sim: Simulation) -> None:
    catalog.register(sim.rt, ORDER)
    browser = signed_in(closed, sim, "read:shop/*")
    page = browser.get("/edit?path=shop/order")
    assert typed(page) == ORDER
    assert "Plan: 2 steps" in Page(page.text).text
    assert "readonly" in page.text
    assert 'value="register"' not in page.text
    assert send_again(browser, Page(page.text).fields, ORDER + "#\n").status_code == 403
    assert len(content(sim)) == 1
    assert browser.get("/edit?path=examples/doubling").status_code == 404


def test_one_registers_where_one_may(closed: Flask, sim: Simulation) -> None:
    browser = signed_in(closed, sim, "operate:shop/*")
    assert send(browser, ORDER).status_code == 303
    elsewhere = ORDER.replace("shop/order", "bank/order")
    page = send(browser, elsewhere)
    assert page.status_code == 403
    assert typed(page) == elsewhere, "nothing is lost"
    assert "`operate`" in page.text
    assert not catalog.is_known(sim.rt, "bank/order")


# --- what scripts ask for ---


def ask(browser: FlaskClient, path: str, **fields: object) -> Any:
    marked = Page(browser.get("/edit").text).fields
    return browser.post(path, data={**marked, **fields}, headers={**OWN, "HX-Request": "true"})


def test_a_check_answers_with_the_part_that_changes(browser: FlaskClient) -> None:
    answer = ask(browser, "/edit/check", text=WRONG)
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<div class="edit-found" id="found"')
    assert 'data-line="7"' in answer.text


def test_completion_answers_for_a_place(browser: FlaskClient) -> None:
    answer = ask(browser, "/edit/complete", text="kind: Pl", line=0, column=8).get_json()
    assert answer == {
        "begin": 6,
        "offers": [{"label": "Playbook", "text": "Playbook", "what": "value", "about": ""}],
    }
    for line, column in (("x", "1"), ("1", "-1"), ("", ""), ("9" * 30, "1")):
        assert ask(browser, "/edit/complete", text="", line=line, column=column).status_code == 400
    assert ask(browser, "/edit/complete", text="kind", line=99, column=99).get_json()["offers"] == []


def test_completion_is_made_by_one_thread_however_many_ask_at_once(
    browser: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11 cannot parse sources in two threads."""
    came: list[int] = []
    made: list[int] = []

    class Noted:
        """The lock, which notes who comes to it."""

        inner = threading.Lock()

        def __enter__(self) -> None:
            came.append(threading.get_ident())
            self.inner.acquire()

        def __exit__(self, *_: object) -> None:
            self.inner.release()

    class Met(Completer):
        """One that is made while all others want one."""

        def __init__(self, kinds: Mapping[str, KindInfo]) -> None:
            made.append(threading.get_ident())
            until(lambda: len(came) == 4 or len(made) > 1, "all four to ask")
            super().__init__(kinds)

    monkeypatch.setattr(complete, "_making", Noted())
    monkeypatch.setattr(complete, "Completer", Met)

    def offered() -> list[str]:
        answer = ask(browser.application.test_client(), "/edit/complete", text="kind: Pl", line=0, column=8)
        return [one["label"] for one in answer.get_json()["offers"]]

    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(offered) for _ in range(4)]
        assert [one.result() for one in found] == [["Playbook"]] * 4
    assert len(made) == 1


def test_completion_offers_names_that_one_may_know(closed: Flask, sim: Simulation) -> None:
    catalog.register(sim.rt, ORDER)
    rt = closed.extensions[KEY].rt
    save(rt, "everybodys", "basic", {"username": "a", "password": "b"})
    save(rt, "shops", "basic", {"username": "a", "password": "b"}, audience("shop"))
    calls, opens = "tool: {kind: playbook, path: ", "tool: {auth: "

    def offered(browser: FlaskClient, text: str) -> list[str]:
        whole = f"workflow:\n- {text}"
        found = ask(browser, "/edit/complete", text=whole, line=1, column=len(text) + 2).get_json()["offers"]
        return [one["label"] for one in found]

    shop = signed_in(closed, sim, "operate:shop/*")
    assert (offered(shop, calls), offered(shop, opens)) == (["shop/order"], [])
    elsewhere = signed_in(closed, sim, "admin:bank/*")
    assert offered(elsewhere, opens) == []
    keeper = signed_in(closed, sim, "admin:shop/*", "admin:shop")
    assert offered(keeper, opens) == ["shops"]
    admin = signed_in(closed, sim, "admin")
    assert offered(admin, calls) == ["examples/doubling", "shop/order"]
    assert offered(admin, opens) == ["everybodys", "shops"]


@pytest.mark.parametrize("path", ["/edit", "/edit/check", "/edit/complete"])
def test_only_this_page_sends_its_forms(browser: FlaskClient, path: str) -> None:
    browser.get("/edit")
    assert browser.post(path, data={"text": ORDER}, headers=OWN).status_code == 400
