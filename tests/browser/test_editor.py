"""The editor of playbooks: what it says while somebody types, what it completes, and how one gets
out of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from noetl.usecases import catalog
from tests.acceptance.playbooks import head

from .axe import check_axe
from .conftest import Look
from .serving import Site
from .untrusted import PLAYBOOK, check_nothing_ran
from .visit import NARROW, Visit

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

#: Its last step lacks a tool.
LACKING = head("typed") + "workflow:\n  - step: take\n    tool: {kind: noop}\n    next: pay\n  - step: pay\n"
BEGUN = LACKING + "    tool: {kind: noop}\n"
#: With a warning: no arc leads to `pay`.
WARNED = BEGUN.replace("    next: pay\n", "")

#: Keeps what each answer to a check says that is shown.
_NOTE_HEADINGS = """() => {
  window.headings = [];
  const note = () => window.headings.push(document.querySelector("#found h2").textContent);
  new MutationObserver(note).observe(document.getElementById("found").parentElement, {childList: true});
}"""

#: Whether one element ends before another begins. Asked in one step, since an answer to a check
#: replaces elements.
_IS_ABOVE = """([one, other]) => {
  const [{bottom}, {top}] = [one, other].map(each => document.querySelector(each).getBoundingClientRect());
  return bottom <= top;
}"""


def edit(visit: Visit, text: str) -> Page:
    """Opens the editor with that text in the place of what a new playbook begins with, and the
    cursor at its end."""
    visit.open("/edit")
    page = visit.page
    page.locator(".ace_content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)
    return page


def offers(page: Page) -> Locator:
    return page.locator(".ace_autocomplete .ace_line")


def problems(page: Page) -> Locator:
    return page.locator("#found").get_by_role("listitem").filter(has=page.get_by_role("link"))


def shown(page: Page) -> Callable[[], str]:
    """What the editor holds, as a program asks it."""
    return lambda: str(page.evaluate("ace.edit(document.querySelector('.edit-ace')).getValue()"))


def test_a_problem_is_shown_at_its_line_while_somebody_types(look: Look, site: Site) -> None:
    page = edit(look(site.url), BEGUN)
    expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    page.keyboard.insert_text("    next: tkae\n")
    expect(page.get_by_role("heading", name="1 error")).to_be_visible()
    expect(problems(page)).to_contain_text("did you mean 'take'?")
    line = BEGUN.count("\n") + 1
    marked = page.locator(".ace_gutter-layer > .ace_error")
    expect(marked).to_have_count(1)
    expect(marked).to_contain_text(str(line))
    # The plan of what could be run stays in sight.
    expect(page.locator(".edit-plan")).to_contain_text("before these errors")
    # The link leads there: what is typed next is typed in that place.
    page.keyboard.press("Control+Home")
    problems(page).get_by_role("link").click()
    expect(page.locator(".ace_gutter-active-line")).to_have_text(str(line))
    page.keyboard.press("Shift+End")
    page.keyboard.insert_text("take")
    expect(page.get_by_role("heading", name="1 warning")).to_be_visible()


def test_an_answer_that_comes_late_is_passed_over(look: Look, site: Site) -> None:
    visit = look(site.url)
    page = edit(visit, BEGUN)
    expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    held: list[Route] = []
    page.route("**/edit/check", lambda route: held.append(route), times=1)
    page.keyboard.insert_text("    next: nowhere\n")
    visit.await_heard(lambda: held, "the text to be sent")
    page.evaluate(_NOTE_HEADINGS)
    page.keyboard.press("Control+z")
    page.keyboard.insert_text("# not tke\n")
    visit.await_heard(lambda: page.evaluate("window.headings.length"), "an answer to the text as it is now")
    with page.expect_response(lambda answer: answer.request == held[0].request):
        held[0].continue_()
    # What is typed next is answered behind it.
    page.keyboard.insert_text("    remark: x\n")
    expect(page.get_by_role("heading", name="1 warning")).to_be_visible()
    assert set(page.evaluate("window.headings")) == {"No problems", "1 warning"}


def test_keys_and_values_are_completed_in_a_text_that_is_no_yaml_yet(look: Look, site: Site) -> None:
    page = edit(look(site.url), LACKING)
    page.keyboard.type("    to")
    expect(offers(page).first).to_contain_text("tool")
    page.keyboard.press("Enter")
    # What comes behind a key is offered at once.
    expect(offers(page).first).to_be_visible()
    page.keyboard.type("ht")
    expect(offers(page).first).to_contain_text("http")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.keyboard.type("ur")
    expect(offers(page).first).to_contain_text("url")
    expect(page.locator(".ace_doc-tooltip")).to_contain_text("Address, http or https")
    page.keyboard.press("Enter")
    page.keyboard.type('"http://shop.example"')
    assert shown(page)().endswith('    tool:\n      kind: http\n      url: "http://shop.example"')
    expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    expect(page.locator(".edit-plan")).to_contain_text("http://shop.example")


def test_a_new_line_stands_where_one_goes_on(look: Look, site: Site) -> None:
    page = edit(look(site.url), "metadata:")
    typed = ("name: a", "workflow:", "- step: b", "tool:", "x: 1")
    for one in typed:
        page.keyboard.press("Enter")
        if one == "workflow:":
            page.keyboard.press("Backspace")
        page.keyboard.insert_text(one)
    assert shown(page)() == "metadata:\n  name: a\nworkflow:\n  - step: b\n    tool:\n      x: 1"


def test_the_keyboard_registers_asks_about_warnings_and_gets_out(look: Look, site: Site) -> None:
    page = edit(look(site.url), WARNED)
    page.keyboard.press("Control+s")
    dialog = page.get_by_role("dialog", name="Register with 1 warning?")
    expect(dialog).to_be_visible()
    check_axe(page)
    page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    assert not catalog.is_known(site.rt, "acceptance/typed")
    page.keyboard.press("Control+s")
    expect(dialog.get_by_role("button", name="Register")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("Version 1 is registered.")).to_be_visible()
    assert catalog.playbook(site.rt, "acceptance/typed").content == WARNED
    # The cursor is where it was, and Tab indents there: Escape leads out.
    page.keyboard.type("# more")
    assert shown(page)() == WARNED + "# more"
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Register")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Check")).to_be_focused()


def test_errors_keep_a_text_from_being_registered(look: Look, site: Site) -> None:
    page = edit(look(site.url), BEGUN.replace("next: pay", "next: pya"))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("status").filter(has_text="Not registered: 1 error")).to_be_visible()
    expect(page.locator(".ace_gutter-active-line")).to_have_text("7")


def test_who_leaves_with_unsaved_text_is_warned(look: Look, site: Site) -> None:
    visit = look(site.url)
    visit.expect("dialog: ")
    page = edit(visit, BEGUN)
    asked = []
    page.on("dialog", lambda dialog: asked.append(dialog.type))
    page.get_by_role("link", name="Executions").click()
    visit.await_heard(lambda: asked, "the question")
    assert asked == ["beforeunload"]
    assert page.url.endswith("/edit")


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(look: Look, site: Site, dark: bool) -> None:
    visit = look(site.url, dark=dark)
    page = edit(visit, BEGUN + "    ne")
    expect(page.get_by_role("heading", name="1 error")).to_be_visible()
    visit.shoot(f"editor-{'dark' if dark else 'light'}")
    check_axe(page)
    page.keyboard.press("Control+Space")
    expect(offers(page).first).to_contain_text("next")
    check_axe(page)


def test_a_telephone_shows_all_of_it_one_below_the_other(look: Look, site: Site) -> None:
    visit = look(site.url, size=NARROW)
    page = edit(visit, BEGUN)
    expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    assert page.evaluate(_IS_ABOVE, [".edit-ace", "#found"])
    visit.shoot("editor-narrow")


def test_what_a_playbook_says_is_shown_as_text(look: Look, site: Site) -> None:
    page = edit(look(site.url), PLAYBOOK.replace('"fails"', '"fails<img src=x onerror=window.pwned=1>"', 1))
    expect(page.locator("#found").get_by_role("link").first).to_be_visible()
    page.locator(".ace_gutter_annotation").first.hover()
    expect(page.locator(".ace_tooltip").filter(visible=True)).to_contain_text("pwned")
    check_nothing_ran(page)


def test_without_scripts_there_are_a_field_and_two_buttons(look: Look, site: Site) -> None:
    visit = look(site.url, scripts=False)
    visit.open("/edit")
    page = visit.page
    text = BEGUN.replace("typed", "plain")
    page.get_by_label("Text of the playbook").fill(text.replace("next: pay", "next: pya"))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="1 error")).to_be_visible()
    page.get_by_label("Text of the playbook").fill(text)
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_text("Version 1 is registered.")).to_be_visible()
