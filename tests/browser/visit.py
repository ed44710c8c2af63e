"""A window of the browser that looks at one site, and is watched.

Whatever a visitor should never meet is a finding, and fails the test that opened the window: errors
on the console and in scripts, violations of the page's policy, dialogs, requests that fail or go to
somebody else, and answers from 500 on. A test that provokes one says so with `expect`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    Response,
    WebError,
)

from tests.waiting import GUARD_S, until

Value = TypeVar("Value")

#: Sizes of windows, in pixels.
NARROW: Final = (390, 844)
WIDE: Final = (1440, 900)

#: Milliseconds until a test gives up on what a page does not show: all that Playwright waits for.
PATIENCE_MS: Final = 1000 * GUARD_S
#: How often Tab is pressed at most.
_STOPS: Final = 100
#: Names a directory for pictures of the pages.
SHOTS: Final = "NOETL_TEST_SHOTS"

#: Chromium writes most violations to the console itself, but not those that scripts cause.
_REPORT_VIOLATIONS: Final = """
addEventListener("securitypolicyviolation", event => console.error(
  `violates ${event.effectiveDirective} of its policy: ${event.blockedURI} ${event.sample}`));
"""


class Visit:
    """`page` is Playwright's, for whatever is not here."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self._context = context
        self._url = url
        self._findings: list[str] = []
        self._expected: list[str] = []
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(_REPORT_VIOLATIONS)
        context.on("console", self._take_console)
        context.on("weberror", self._take_error)
        context.on("dialog", self._take_dialog)
        context.on("request", self._take_request)
        context.on("requestfailed", self._take_failure)
        context.on("response", self._take_response)
        self.page = context.new_page()

    def open(self, path: str) -> int:
        """Goes to a page of the site. Returns its status once it is loaded."""
        answer = self.page.goto(f"{self._url}{path}")
        assert answer is not None, f"{path} leads to no other page"
        return answer.status

    def expect(self, pattern: str) -> None:
        """Findings of this window that `pattern` is found in are none."""
        self._expected.append(pattern)

    @property
    def findings(self) -> list[str]:
        """What has been found so far and was not expected."""
        # Playwright hands over what has happened while it waits for something.
        self._listen()
        return [one for one in self._findings if not any(re.search(each, one) for each in self._expected)]

    def await_heard(self, probe: Callable[[], Value], what: str) -> Value:
        """The first true value of `probe`, which asks for what handlers of the page have noted."""

        def look() -> Value:
            # They run while Playwright waits for something.
            self._listen()
            return probe()

        return until(look, what)

    def _listen(self) -> None:
        """Asks the page something, also one that is on its way to another."""
        self.page.locator("html").wait_for(state="attached")

    def close(self) -> None:
        """Closes the window, and fails where it has met what nobody expected."""
        found = self.findings
        self._context.close()
        assert not found, "the browser complains:\n" + "\n".join(found)

    def tab_to(self, target: Locator) -> None:
        """Presses Tab until `target` has the focus. Fails where that never comes."""
        for _ in range(_STOPS):
            if target.evaluate("one => one === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"Tab does not lead to {target}")

    def shoot(self, name: str) -> None:
        """Saves a picture of the whole page as NAME.png, where the environment says in which
        directory."""
        folder = os.environ.get(SHOTS)
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    # --- what happens ---------------------------------------------------------------------------

    def _take_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._findings.append(f"console: {message.text} ({message.location.get('url')})")

    def _take_error(self, error: WebError) -> None:
        self._findings.append(f"error: {error.error}")

    def _take_dialog(self, dialog: Dialog) -> None:
        self._findings.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _take_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self._url}/", "data:", "blob:", "about:")):
            self._findings.append(f"request to somebody else: {request.url}")

    def _take_failure(self, request: Request) -> None:
        # Whoever leaves a page ends what it still loads, and its stream of events.
        left = request.failure == "net::ERR_ABORTED" and not request.is_navigation_request()
        if not left:
            self._findings.append(f"request failed: {request.url}: {request.failure}")

    def _take_response(self, response: Response) -> None:
        if response.status >= 500:
            self._findings.append(f"answer {response.status}: {response.url}")


def settle(page: Page) -> None:
    """Lets the page do what it has to do with answers that have come: two more frames."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def window_options(
    size: tuple[int, int] = WIDE,
    *,
    dark: bool = False,
    scripts: bool = True,
    still: bool = False,
    zone: str = "UTC",
) -> dict[str, Any]:
    """A window as Playwright takes it: its size, whether its user likes it dark, has JavaScript,
    and wants nothing to move; and where in the world it is."""
    width, height = size
    return {
        "viewport": {"width": width, "height": height},
        "color_scheme": "dark" if dark else "light",
        "java_script_enabled": scripts,
        "reduced_motion": "reduce" if still else "no-preference",
        "locale": "en-GB",
        "timezone_id": zone,
    }
