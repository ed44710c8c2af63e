"""How smoothly a browser scrolls through the log of an execution of 10,000 events, and how soon its
page is painted: `python -m benchmarks.scrolling [--reps N]`.

The server is `noetl server` on SQLite, on this machine, as is Chromium: what else the machine does
makes frames late. That the rows are there, whatever that takes, is tested in `tests/browser`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from benchmarks.report import scrolling as table
from benchmarks.servers import noetl_server
from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.start import StartRequest, start
from tests.browser.chromium import chromium
from tests.services import Missing

ITEMS = 5_000
#: Pixels with each frame: some four rows.
STEP = 120
SIZE = {"width": 1440, "height": 900}

PLAYBOOK = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: scrolled, path: benchmarks/scrolled}}
workflow:
  - step: each
    loop: {{in: "{{{{ range({ITEMS}) | list }}}}", iterator: n, spec: {{mode: parallel, max_in_flight: 8}}}}
    tool: {{kind: noop}}
"""

#: Scrolls down, some pixels with each of 250 frames: how many milliseconds lay between two frames,
#: and in how many of them the middle of the window had no row.
_SCROLL = """async pixels => {
  const gaps = [];
  let blank = 0, last = performance.now();
  for (let frame = 0; frame < 250; frame++) {
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
    if (document.elementFromPoint(400, innerHeight / 2)?.closest(".gap")) blank += 1;
    scrollBy(0, pixels);
  }
  return { gaps: gaps.sort((one, other) => one - other), blank };
}"""
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def measure(reps: int) -> dict[str, Any]:
    """`reps` times a thousand rows, and as many first paints. Raises services.Missing."""
    with (
        tempfile.TemporaryDirectory(prefix="noetl-bench-") as home,
        chromium() as browser,
        _serving(Path(home)) as (url, execution),
        browser.used() as window,
    ):
        page = window.new_page(viewport=SIZE)
        paints = [_paint(page, f"{url}/executions/{execution}") for _ in range(reps)]
        page.goto(f"{url}/executions/{execution}?tab=events")
        page.locator(".events tbody tr[id]").first.wait_for()
        walks = [page.evaluate(_SCROLL, STEP) for _ in range(reps)]
    return {
        "events": 2 * ITEMS,
        "first_paint_ms": paints,
        "frame_ms": [{"p50": _share(one["gaps"], 0.5), "p95": _share(one["gaps"], 0.95)} for one in walks],
        "blank_frames": [one["blank"] for one in walks],
    }


@contextlib.contextmanager
def _serving(home: Path) -> Iterator[tuple[str, str]]:
    """A server that has such an execution: its address, and the execution's id."""
    settings = Settings(home=home)
    with bootstrap.local(settings) as rt:
        path = catalog.register(rt, PLAYBOOK).path
        execution = start(rt, StartRequest(path)).execution_id
        while inspect.execution(rt, execution).status not in ENDED:
            time.sleep(0.1)
        with noetl_server(settings) as url:
            yield url, execution


def _paint(page: Page, address: str) -> float:
    """Milliseconds from when the page was asked for until its content was painted first."""
    page.goto(address)
    page.wait_for_function(f"{_PAINT} > 0")
    return float(page.evaluate(_PAINT))


def _share(gaps: Sequence[float], part: float) -> float:
    return gaps[int(part * (len(gaps) - 1))]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scrolling", description=__doc__)
    parser.add_argument("--reps", type=int, default=5, help="walks and paints (default: %(default)s)")
    args = parser.parse_args(argv)
    try:
        print(table(measure(args.reps)))
    except Missing as error:
        print(f"Cannot measure: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
