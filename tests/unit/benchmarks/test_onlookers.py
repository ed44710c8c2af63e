"""The browsers of the benchmark do what the script of the pages does, and its table says what they
saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from tests.httpd import Handler, Server, started, stopped
from tests.waiting import until

ROOT = Path(__file__).parents[3]
MOMENT = "machine:12.5"


@pytest.fixture(scope="module")
def browsers() -> dict[str, Any]:
    # What is installed is NoETL alone.
    return run_path(str(ROOT / "benchmarks/browsers.py"))


@pytest.fixture
def server() -> Iterator[Server]:
    running = started()
    yield running
    stopped(running)


def _send_news(handler: Handler, commit: Callable[[], None]) -> None:
    """A greeting, a commit, and a change, in chunks as gunicorn sends them."""
    handler.send_response(200)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    changed = {"ids": [], "any": True, "at": MOMENT, "spread": 0}
    for kind, frame in (("hello", {"ids": [], "at": "machine:1.5"}), ("changed", changed)):
        text = f"event: {kind}\ndata: {json.dumps(frame)}\n\n".encode()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        commit()
    handler.server.stopping.wait()


async def _stay(browser: Any) -> None:
    with contextlib.closing(browser):
        await browser.stay_on_list()


def test_a_browser_looks_again_as_the_script_of_the_pages_does(
    browsers: dict[str, Any], server: Server
) -> None:
    looked: list[tuple[str | None, str | None]] = []

    def show_list(handler: Handler) -> None:
        looked.append((handler.headers.get("HX-Request"), handler.headers.get("News-At")))
        # The third time it is one that does not change any more.
        handler.answer(b"<section data-live>" if len(looked) < 3 else b"<section>")

    commits, counted = browsers["Commits"](), browsers["Counted"]()
    # What this one has changed is on the page when it is opened.
    commits.note("7", 0.0)

    def commit() -> None:
        """Once it has heard the greeting."""
        until(lambda: len(looked) >= 2, "the second look")
        commits.note("7", time.monotonic())

    server.routes = {"/": show_list, "/news": lambda handler: _send_news(handler, commit)}
    asyncio.run(_stay(browsers["Browser"](server.server_address[1], commits, counted)))
    # The page, what the greeting lets it look at, and the change, behind a rest.
    assert looked == [(None, None), ("true", None), ("true", MOMENT)]
    assert len(counted.looks) == 2
    assert len(counted.news["list"]) == 1
    assert counted.news["list"][0] > 0


def test_a_browser_that_is_refused_its_news_says_so(browsers: dict[str, Any], server: Server) -> None:
    server.routes = {
        "/": lambda handler: handler.answer(b"<section data-live>"),
        "/news": lambda handler: handler.answer(b"All places are taken.", 503),
    }
    one = browsers["Browser"](server.server_address[1], browsers["Commits"](), browsers["Counted"]())
    with pytest.raises(ExceptionGroup) as refused:
        asyncio.run(_stay(one))
    assert "no news of /" in str(refused.value.exceptions[0])


@pytest.mark.parametrize(("took", "rests"), [(0.01, 0.1), (0.06, 0.3), (0.1, 0.5), (2.0, 10.0)])
def test_a_browser_rests_the_longer_the_longer_it_waited(
    browsers: dict[str, Any], took: float, rests: float
) -> None:
    assert browsers["find_rest"](took) == pytest.approx(rests)


def test_what_a_frame_tells_of_is_the_oldest_commit_that_was_not_told(browsers: dict[str, Any]) -> None:
    commits = browsers["Commits"]()
    for moment, payload in ((1.0, "7"), (2.0, "7,8"), (3.0, "")):
        commits.note(payload, moment)
    assert [commits.first_after("7", moment) for moment in (0.0, 1.0, 2.0)] == [1.0, 2.0, None]
    assert [commits.first_after("", moment) for moment in (0.0, 1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0, None]
    assert commits.first_after("9", 0.0) is None


def test_the_table_pairs_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(seconds: float) -> dict[str, Any]:
        return {
            "answered": {"median": seconds, "p90": 2 * seconds},
            "completed": {"median": 3 * seconds, "p90": 4 * seconds},
            "server_cpu_ms": 1000 * seconds,
        }

    seen = {
        "looks_per_s": 40.0,
        "look": {"median": 0.02, "p90": 0.05},
        "news": {"list": {"median": 4.0, "p90": 4.3}, "run": None},
        "browsers_cpu": 0.05,
    }
    # One round met bad weather on both of its sides.
    pairs = [(0.01, 0.011), (0.04, 0.044), (0.01, 0.02)]
    rounds = [
        {"load1": 0.5, "without": sample(before), "with": {**sample(after), **seen}}
        for before, after in pairs
    ]
    found = {"browsers": 200, "seconds": 20.0, "rounds": rounds}
    monkeypatch.syspath_prepend(ROOT)
    told = import_module("benchmarks.report").onlookers(found)
    assert "| answered, median | 10.0 ms | **20.0 ms** | 1.10 | ≤ 1.25 | reached |" in told
    assert "**40.0** looks a second, each in **20.0 ms** (nine of ten within 50.0 ms)" in told
    assert "**4.00 s** (nine of ten within 4.30 s) for lists, none for pages of runs." in told
