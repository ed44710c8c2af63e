"""What axe-core, which the wheel of axe-playwright-python brings, finds on a page that keeps people
out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any, Final

from playwright.sync_api import Page

_SCRIPT: Final = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
_GRAVE: Final = ("serious", "critical")


def check_axe(page: Page) -> None:
    """Fails where the page has findings that are serious or critical: says rule, place, and what
    helps."""
    # As a debugger does it: the page's policy stays as it is, and lets no script in.
    page.evaluate(_SCRIPT)
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    told = [line for one in found["violations"] if one["impact"] in _GRAVE for line in _describe(one)]
    assert not told, f"axe finds on {page.url}:\n" + "\n".join(told)


def _describe(violation: Mapping[str, Any]) -> Iterator[str]:
    for node in violation["nodes"]:
        place = " ".join(map(str, node["target"]))
        summary = " ".join(node["failureSummary"].split())
        yield f"{violation['id']} ({violation['impact']}) at {place}: {violation['help']}. {summary}"
