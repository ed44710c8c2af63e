"""The Chromium of this machine, driven by Playwright. No browser is ever downloaded."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from tests.services import Missing

#: Names under which it is installed, the first that is found.
NAMES = ("chromium", "chromium-browser", "google-chrome")
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


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without windows on the screen. Raises Missing.

    As long as it runs, Playwright's event loop runs in this thread, where `asyncio.run` is refused.
    """
    program = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()
