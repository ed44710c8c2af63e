"""The drawer of a step, and what begins anew from there, as a visitor sees and uses them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.acceptance.playbooks import head

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import page_of, read_text
from .serving import Site
from .visit import NARROW, WIDE

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

LOOPS = (
    head("loops")
    + """
workflow:
  - step: start
    tool: {kind: python, code: "result = [1, 2, 3]"}
    next: {step: each, args: {items: "{{ start }}"}}
  - step: each
    loop:
      in: "{{ args.items }}"
      iterator: item
      spec: {mode: parallel, policy: {failure: {mode: best_effort, tolerate: {count: 5}}}}
    tool:
      kind: python
      input: {item: "{{ iter.item }}"}
      code: |
        print("looking at", item)
        if item == 2:
            raise ValueError("there is no second one")
        result = item
    next: end
  - step: end
    tool: {kind: noop}
"""
)


@pytest.fixture(scope="module")
def run(site: Site) -> str:
    return site.run(LOOPS)


@pytest.fixture(scope="module")
def strange(site: Site) -> str:
    """An execution of `untrusted.PLAYBOOK`."""
    return site.run(untrusted.PLAYBOOK)


def test_keys_open_the_filter_close_the_step_and_are_listed(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    page = visit.page
    visit.open(page_of(run))
    link = page.get_by_role("link", name="each", exact=True)
    link.focus()
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    expect(drawer).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(link).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    visit.open("/")
    page.keyboard.press("/")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("type", "search")
    page.keyboard.type("a?/")
    expect(focused).to_have_value("a?/")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_step_is_opened_and_closed_with_the_keyboard_alone(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(page_of(run))
    visit.tab_to(visit.page.get_by_role("link", name="each", exact=True))
    visit.page.keyboard.press("Enter")
    drawer = visit.page.get_by_role("complementary", name="Step each")
    expect(drawer).to_contain_text("3: 2 completed, 1 failed")
    assert visit.page.url.endswith("?step=each")
    visit.tab_to(drawer.get_by_role("link", name="1", exact=True))
    visit.page.keyboard.press("Enter")
    expect(drawer).to_contain_text("Iteration 1 of each#1")
    expect(drawer).to_contain_text("looking at 2")
    expect(drawer.locator(".line.marked")).to_contain_text("raise ValueError")
    visit.shoot("drawer-iteration")
    visit.tab_to(visit.page.get_by_role("link", name="Close the step"))
    visit.page.keyboard.press("Enter")
    expect(drawer).to_have_count(0)
    visit.page.go_back()
    expect(drawer).to_contain_text("Iteration 1 of each#1")


def test_a_fork_is_begun_in_a_dialog(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(run)}?step=end")
    visit.page.get_by_role("button", name="Fork here").click()
    dialog = visit.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Fork before run end#1?")
    expect(dialog).to_contain_text("start, each")
    dialog.get_by_label("Changed variables").fill("n: [1")
    visit.expect("400")
    dialog.get_by_role("button", name="Fork").click()
    expect(dialog.get_by_role("alert")).to_contain_text("must be a mapping")
    dialog.get_by_label("Changed variables").fill("n: 1")
    dialog.get_by_role("button", name="Fork").click()
    visit.page.wait_for_url(lambda url: "/executions/" in url and run not in url)
    expect(visit.page.get_by_role("link", name=run)).to_be_visible()


def test_a_plan_is_shown_again_before_a_retry_of_something_else(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(run)}?step=each")
    visit.page.get_by_role("button", name="Retry from here").click()
    dialog = visit.page.get_by_role("dialog")
    retry = dialog.get_by_role("button", name="Retry", exact=True)
    dialog.get_by_label("Repeat these calls").check()
    expect(retry).to_be_enabled()
    dialog.get_by_label("Iterations of loops").select_option("all")
    expect(retry).to_be_disabled()
    dialog.get_by_role("button", name="Show the plan again").click()
    expect(retry).to_be_enabled()
    expect(dialog.get_by_label("Iterations of loops")).to_have_value("all")


def test_without_javascript_a_step_is_read_and_run_again(site: Site, run: str, look: Look) -> None:
    visit = look(site.url, scripts=False)
    visit.open(page_of(run))
    visit.page.get_by_role("link", name="each", exact=True).click()
    assert "there is no second one" in read_text(visit.page)
    sections = visit.page.get_by_role("navigation", name="About the step")
    sections.get_by_role("link", name="Logs").click()
    assert "looking at 3" in read_text(visit.page)
    visit.page.get_by_label("Iteration", exact=True).fill("2")
    drawer = visit.page.get_by_role("complementary", name="Step each")
    drawer.get_by_role("button", name="Show").click()
    assert "looking at 1" not in read_text(visit.page)
    visit.page.get_by_role("button", name="Make a test of it").click()
    assert f"as execution {run} went" in read_text(visit.page)
    visit.page.go_back()
    visit.page.get_by_role("button", name="Retry from here").click()
    visit.page.get_by_label("Repeat these calls").check()
    visit.page.get_by_role("button", name="Retry", exact=True).click()
    assert "retry of" in read_text(visit.page)


@pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(WIDE, False, id="wide-and-light"), pytest.param(NARROW, True, id="narrow-and-dark")],
)
def test_axe_finds_nothing_grave(site: Site, run: str, look: Look, size: tuple[int, int], dark: bool) -> None:
    visit = look(site.url, size=size, dark=dark, still=True)
    for query in ("step=each", "step=each&iteration=1", "step=each&about=events", "step=end&at=9"):
        assert visit.open(f"{page_of(run)}?{query}") == 200
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        check_axe(visit.page)
    visit.page.get_by_role("button", name="Make a test of it").click()
    expect(visit.page.get_by_role("dialog")).to_be_visible()
    check_axe(visit.page)


def test_a_request_that_fails_says_so_beside_what_was_clicked(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(run)}?step=end")
    visit.expect("/again|ERR_FAILED|sendError|htmx:afterRequest")
    visit.page.route("**/again", lambda route: route.abort())
    button = visit.page.get_by_role("button", name="Fork here")
    button.click()
    alert = visit.page.get_by_role("complementary", name="Step end").get_by_role("alert")
    expect(alert).to_contain_text("The server cannot be reached. Nothing was changed")
    visit.page.unroute("**/again")
    button.click()
    expect(visit.page.get_by_role("dialog")).to_contain_text("Fork before run end#1?")
    expect(alert).to_have_count(0)


def test_a_click_that_is_refused_says_why_beside_it(site: Site, run: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(page_of(run))
    link = visit.page.get_by_role("link", name="each", exact=True)
    link.evaluate(
        "one => { one.href = one.href.replace('step=each', 'step=nowhere'); htmx.process(one.parentNode); }"
    )
    visit.expect("404|400")
    link.click()
    expect(visit.page.locator(".request-failed")).to_contain_text("nowhere")
    expect(link).to_be_visible()


def test_what_was_printed_is_read_downwards_and_from_its_end(site: Site, look: Look) -> None:
    printing = """
workflow:
  - step: start
    tool:
      kind: python
      code: |
        import sys
        for number in range(100):
            print("line", number, file=sys.stderr if number % 2 else sys.stdout, flush=True)
"""
    visit = look(site.url)
    visit.open(f"{page_of(site.run(head('printing') + printing))}?step=start&about=logs")
    printed = visit.page.get_by_role("region", name="What it printed")
    expect(printed).to_contain_text("line 99")
    for first, stream in enumerate(("stdout", "stderr")):
        shown = "".join(printed.locator(f"span.{stream}").all_inner_texts()).splitlines()
        assert shown == [f"line {number}" for number in range(first, 100, 2)]
    # They are seen in the order in which they are copied, and read aloud.
    spans = printed.locator("span").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().bottom)"
    )
    assert len(spans) > 1
    assert spans == sorted(spans)
    frame = printed.evaluate("one => one.getBoundingClientRect().bottom")
    assert spans[-1] <= frame


@pytest.mark.parametrize("about", ["", "values", "logs", "attempts"])
def test_what_a_step_says_is_shown_as_text(site: Site, strange: str, look: Look, about: str) -> None:
    visit = look(site.url)
    step = "says" if about in ("values", "logs") else "fails"
    assert visit.open(f"{page_of(strange)}?step={step}&about={about}") == 200
    said = visit.page.get_by_role("complementary").inner_text()
    wanted = (*untrusted.MARKUP, *untrusted.WORDS, untrusted.TEMPLATE)
    assert [one for one in wanted if one not in said and one.replace('"', '\\"') not in said] == []
    untrusted.check_nothing_ran(visit.page)
