"""What watches the pages notices what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.services import Missing

from .axe import check_axe
from .chromium import VARIABLE, find_chromium
from .visit import Visit, window_options

pytestmark = [pytest.mark.acceptance, pytest.mark.browser]

#: Nobody answers there but the test.
URL = "http://127.0.0.1:9"
POLICY = "default-src 'none'; script-src 'unsafe-inline'; connect-src *"
#: Without a language or a name of the picture, and everything that is not to happen.
PAGE = """<!doctype html><html><title>Bad</title><img src="/picture.png"><script>
console.error("said");
setTimeout(() => { throw new Error("thrown"); });
fetch("/broken");
fetch("http://127.0.0.2:9/elsewhere").catch(() => 0);
fetch("/cut").catch(() => 0);
alert("asked");
eval("1");
</script>"""
FINDINGS = {
    "console: said",
    "error: thrown",
    "answer 500",
    "request to somebody else: http://127.0.0.2:9/elsewhere",
    f"request failed: {URL}/cut",
    "dialog: asked",
    "violates img-src",
    "violates script-src",
}


def serve(page: Page) -> None:
    page.route(
        "**/bad",
        lambda route: route.fulfill(
            body=PAGE, headers={"Content-Security-Policy": POLICY, "Content-Type": "text/html"}
        ),
    )
    page.route("**/broken", lambda route: route.fulfill(status=500))
    page.route("**/cut", lambda route: route.abort("connectionreset"))
    page.route("**/elsewhere", lambda route: route.fulfill(body=""))


@pytest.fixture
def visit(browser: Browser) -> Visit:
    """A window that has met everything."""
    found = Visit(browser.new_context(**window_options()), URL)
    serve(found.page)
    found.open("/bad")
    found.page.wait_for_load_state("networkidle")
    return found


def test_what_no_visitor_should_meet_is_found_unless_it_was_expected(visit: Visit) -> None:
    said = "\n".join(visit.findings)
    assert [one for one in FINDINGS if one not in said] == []
    visit.expect("answer 500")
    assert "answer 500" not in "\n".join(visit.findings)
    with pytest.raises(AssertionError, match="error: thrown"):
        visit.close()


def test_axe_names_rule_place_and_help(visit: Visit) -> None:
    with pytest.raises(AssertionError) as found:
        check_axe(visit.page)
    assert "image-alt (critical) at img: Images must have alternative text." in str(found.value)
    assert "html-has-lang (serious) at html" in str(found.value)
    visit.expect("")
    visit.close()


def test_where_no_chromium_is_found_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(Missing, match="apt-get install chromium"):
        find_chromium()
    monkeypatch.setenv(VARIABLE, "/nowhere/chromium")
    with pytest.raises(Missing, match="NOETL_TEST_CHROMIUM is '/nowhere/chromium', which is no program"):
        find_chromium()
    monkeypatch.setenv(VARIABLE, "/bin/sh")
    assert find_chromium() == "/bin/sh"
