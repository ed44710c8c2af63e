"""The Chromium of this machine, driven by Playwright. No browser is ever downloaded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from tests.services import Missing

#: Names under which it is installed, the first that is found. The one without a window of its own
#: draws the same pages for four fifths of the processor's time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
#: Names its program, where that is another one.
VARIABLE = "NOETL_TEST_CHROMIUM"
#: It is to load our pages and nothing else. Its sandbox is off, which Playwright does by itself: it
#: cannot be had as root, nor in most containers.
OPTIONS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str:
    """Raises Missing."""
    given = os.environ.get(VARIABLE)
    for name in (given,) if given else NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    if given:
        raise Missing(f"{VARIABLE} is {given!r}, which is no program; name that of Chromium.")
    raise Missing(
        f"Chromium is not on PATH (as {', '.join(NAMES)}); install it (Debian: apt-get install chromium), "
        f"or set {VARIABLE} to the path of its program."
    )


class Chromium:
    """A browser without windows on the screen, for as many tests of this process as like.

    Playwright's event loop runs in a greenlet of this thread, whenever somebody waits for the
    browser. In between it says that it runs, and so `asyncio.run` is refused: what other tests do.
    Therefore it says so only in `used`.
    """

    def __init__(self, browser: Browser, loop: asyncio.AbstractEventLoop) -> None:
        self._browser = browser
        self._loop = loop

    @contextlib.contextmanager
    def used(self) -> Iterator[Browser]:
        """The browser, for the length of a block."""
        asyncio._set_running_loop(self._loop)
        try:
            yield self._browser
        finally:
            asyncio._set_running_loop(None)


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """Raises Missing."""
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        found = Chromium(browser, asyncio.get_running_loop())
        asyncio._set_running_loop(None)
        try:
            yield found
        finally:
            with found.used():
                browser.close()
