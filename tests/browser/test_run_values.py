"""Values on the page of an execution, as a visitor sees them: tables page by page, bars, pictures,
and whatever tasks say as text."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from . import untrusted
from .axe import check_axe
from .conftest import Look
from .pages import await_text, page_of, read_text
from .serving import Site
from .visit import NARROW, WIDE

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

#: A picture of 2×1 pixels, and a drawing with a script in it.
PIXELS = "R0lGODdhAgABAPAAAP8AAAAA/ywAAAAAAgABAAACAkQKADs="
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20" onload="window.pwned=1">'
    "<script>window.pwned=1</script></svg>"
)
SHOWS = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "shows", "path": "browser/shows"},
        "workload": {"said": untrusted.MARKUP[3], "keys": list(untrusted.MARKUP)},
        "workflow": [
            {
                "step": "table",
                "tool": {
                    "kind": "python",
                    "code": "result = [{'id': n, 'name': f'customer {n}', 'long': 'word ' * 9} for n in range(30000)]",
                },
                "next": "texts",
            },
            {
                "step": "texts",
                "tool": {
                    "kind": "python",
                    "input": {"said": "{{ workload.said }}", "keys": "{{ workload['keys'] }}"},
                    "code": "result = {**{key: said for key in keys}, 'rows': [{key: key} for key in keys], "
                    "'long': said * 90, 'counts': {said: 3, 'b': 5}, 'turned': 'a\\u202eb'}",
                },
                "set": {"ctx.texts": "{{ result }}", "ctx.counts": {"00": 480, "11": 520}},
                "next": "pixels",
            },
            {
                "step": "pixels",
                "tool": {"kind": "artifact", "action": "put", "key": "red & blue.gif", "encoding": "base64", "data": PIXELS},
                "next": "drawing",
            },
            {
                "step": "drawing",
                "tool": {"kind": "artifact", "action": "put", "key": "drawing.svg", "data": DRAWING},
                "next": "end",
            },
            {"step": "end", "tool": {"kind": "noop", "input": {"rows": "{{ table }}", "texts": "{{ texts }}"}}},
        ],
    }
)  # fmt: skip

BELL = json.dumps(
    {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "bell", "path": "browser/bell"},
        "workflow": [
            {
                "step": "bell",
                "tool": {
                    "kind": "quantum",
                    "builder": {"name": "ghz", "qubits": 2},
                    "repetitions": 100,
                    "seed": 1,
                },
            }
        ],
    }
)


@pytest.fixture(scope="module")
def shows(site: Site) -> str:
    return site.run(SHOWS)


@pytest.fixture(scope="module")
def bell(site: Site) -> str:
    return site.run(BELL)


def test_a_large_table_is_paged_through_without_javascript(site: Site, shows: str, look: Look) -> None:
    visit = look(site.url, scripts=False)
    visit.open(f"{page_of(shows)}?tab=variables")
    visit.page.get_by_role("link", name="open table").click()
    await_text(visit.page.get_by_role("cell", name="customer 0", exact=True), "customer 0")
    visit.page.get_by_role("link", name="Next").click()
    await_text(visit.page.get_by_role("cell", name="customer 50", exact=True), "customer 50")
    expect(visit.page.get_by_role("cell", name="customer 0", exact=True)).to_have_count(0)
    assert "rows 51 to 100 of 30,000" in read_text(visit.page)
    visit.shoot("values-table")


def test_fields_are_unfolded_with_the_keyboard(site: Site, shows: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(shows)}?tab=variables")
    folded = visit.page.locator("summary", has_text="fields").first
    visit.tab_to(folded)
    visit.page.keyboard.press("Enter")
    await_text(visit.page.locator("details[open]", has_text="rows").first, "5 rows")
    assert "48.0%" in read_text(visit.page)


def test_pictures_are_pictures_and_run_nothing(site: Site, shows: str, look: Look) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(shows)}?tab=artifacts")
    for name, width in (("red & blue.gif", 2), ("drawing.svg", 30)):
        picture = visit.page.get_by_role("img", name=name)
        picture.scroll_into_view_if_needed()
        visit.page.wait_for_function("one => one.complete", arg=picture.element_handle())
        assert picture.evaluate("one => one.naturalWidth") == width
    untrusted.check_nothing_ran(visit.page)
    visit.shoot("values-artifacts")


@pytest.mark.parametrize("tab", ["", "variables", "artifacts"])
def test_markup_in_values_is_text(site: Site, shows: str, look: Look, tab: str) -> None:
    visit = look(site.url)
    visit.open(f"{page_of(shows)}?tab={tab}&open=ctx.texts")
    visit.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    untrusted.check_nothing_ran(visit.page)
    if tab == "variables":
        said = read_text(visit.page)
        for text in untrusted.MARKUP:
            assert text in said
        assert "[U+202E]" in said


@pytest.mark.parametrize(
    ("size", "dark"),
    [pytest.param(WIDE, False, id="wide-and-light"), pytest.param(NARROW, True, id="narrow-and-dark")],
)
def test_values_are_for_everybody(
    site: Site, shows: str, bell: str, look: Look, size: tuple[int, int], dark: bool
) -> None:
    visit = look(site.url, size=size, dark=dark, still=True)
    places = [
        f"{page_of(shows)}?tab=",
        f"{page_of(shows)}?tab=variables&open=steps.table",
        f"{page_of(shows)}?tab=variables&open=ctx.texts",
        f"{page_of(shows)}?tab=artifacts",
        f"{page_of(bell)}?tab=quantum",
    ]
    for number, place in enumerate(places):
        assert visit.open(place) == 200
        visit.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= size[0], place
        check_axe(visit.page)
        visit.shoot(f"values-{number}-{size[0]}")
