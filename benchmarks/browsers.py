"""Browsers that have the pages of a server open, for `benchmarks.onlookers`, which runs this file
as a process of its own: `python -m benchmarks.browsers PORT DATABASE_URL COUNT`.

They do what `noetl/ui/static/pages.js` and `news.js` do, and show nothing. "ready" is printed once
all of them are there. A line on stdin begins to count, its end says what was counted, as JSON.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, TypeAlias

import psycopg2

from noetl.store.installation import DEFAULT, Installation
from noetl.store.watching import find_channel

#: The installation of an empty database.
OURS = Installation(DEFAULT, predates_schemas=False, has_tables=True)
#: As the pages have them: the least rest between two looks in seconds, and how many times as long
#: as the last answer took.
MOST_OFTEN_S, SHARE = 0.1, 5
#: Seconds for which somebody reads a page that does not change any more, before going on.
READS_S = 60.0
#: Of the executions that a list shows first, how many somebody may choose from.
CHOICE = 10

Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Commits:
    """When executions were committed to, in seconds of `time.monotonic`, by id; "" is any."""

    def __init__(self) -> None:
        self._moments: defaultdict[str, list[float]] = defaultdict(list)

    def note(self, payload: str, moment: float) -> None:
        """One that tells of the executions in `payload`; moments come in their order."""
        for execution_id in {"", *payload.split(",")}:
            self._moments[execution_id].append(moment)

    def first_after(self, execution_id: str, moment: float) -> float | None:
        moments = self._moments.get(execution_id, [])
        place = bisect.bisect_right(moments, moment)
        return moments[place] if place < len(moments) else None


class Counted:
    """What all browsers of the process have seen since it began to count.

    `looks` are the seconds that each took to be answered, `news` those between a commit and the
    frame that told of it, for lists and for pages of runs.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._began, self._cpu_began = time.monotonic(), time.process_time()
        self.looks: list[float] = []
        self.news: dict[str, list[float]] = {"list": [], "run": []}

    def summarize(self) -> dict[str, Any]:
        spent = time.monotonic() - self._began
        return {
            "looks_per_s": round(len(self.looks) / spent, 2),
            "look": middle(self.looks),
            "news": {kind: middle(samples) for kind, samples in self.news.items()},
            "browsers_cpu": round((time.process_time() - self._cpu_began) / spent, 3),
        }


def middle(samples: Sequence[float]) -> dict[str, float] | None:
    """Median and ninth decile of so many samples; None where there are none."""
    if not samples:
        return None
    p90 = quantiles(samples, n=10, method="inclusive")[-1] if len(samples) > 1 else samples[0]
    return {"median": round(median(samples), 5), "p90": round(p90, 5), "count": len(samples)}


@dataclass
class Browser:
    """One that has one page open at a time, and asks on one connection, which it keeps."""

    port: int
    commits: Commits
    counted: Counted
    is_there: asyncio.Event = field(default_factory=asyncio.Event)
    _kept: Connection | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept[1].close()

    async def stay_on_list(self) -> None:
        await self._open("/", "all=1", "")

    async def visit_runs(self, listed: str, tab: str) -> None:
        """Opens one after the other of the executions that the address lists, each until it
        ends."""
        while True:
            found = re.findall(r'href="/executions/(\d+)"', await self._ask(listed))
            if found:
                execution_id = random.choice(found[:CHOICE])
                await self._open(f"/executions/{execution_id}{tab}", f"id={execution_id}", execution_id)
            self.is_there.set()
            await asyncio.sleep(READS_S)

    async def _open(self, address: str, watched: str, execution_id: str) -> None:
        """Has a page open for as long as it is one that changes."""
        page = _Page(address)
        if not page.show(await self._ask(address)):
            return
        async with asyncio.TaskGroup() as open_page:
            hearing = open_page.create_task(self._hear(page, watched, execution_id))
            await self._look_again(page)
            hearing.cancel()

    async def _hear(self, page: _Page, watched: str, execution_id: str) -> None:
        """Raises ConnectionError where there is no stream, or it ends."""
        reader, writer = await self._send(f"/news?{watched}")
        with contextlib.closing(writer):
            if b" 200 " not in (status := await reader.readline()):
                raise ConnectionError(f"There are no news of {page.address}: {status!r}")
            kind, heard_at = "", 0.0
            # The lines between frames that say how long the next one is need not be understood.
            while line := (await reader.readline()).decode():
                name, _, text = line.rstrip().partition(": ")
                if name == "event":
                    kind = text
                elif name == "data" and text:
                    now = time.monotonic()
                    page.hear(kind, json.loads(text))
                    self.is_there.set()
                    # The oldest change that it had not been told of.
                    committed_at = self.commits.first_after(execution_id, heard_at)
                    if kind == "changed" and committed_at is not None:
                        self.counted.news["run" if execution_id else "list"].append(now - committed_at)
                    heard_at = now
        raise ConnectionError(f"The stream of {page.address} ended.")

    async def _look_again(self, page: _Page) -> None:
        while True:
            await page.changed.wait()
            await asyncio.sleep(page.rests_until - time.monotonic())
            # What is heard of while it rests is seen by this look.
            page.changed.clear()
            began = time.monotonic()
            is_live = page.show(await self._ask(page.address, page.headers()))
            took = time.monotonic() - began
            self.counted.looks.append(took)
            page.rests_until = began + took + find_rest(took)
            if not is_live:
                return

    async def _ask(self, address: str, headers: str = "") -> str:
        """The body of the answer. Raises ConnectionError where it is none, or refuses."""
        for kept in (self._kept, None):
            self._kept = None
            reader, writer = await self._send(address, headers, kept)
            head = await _read_head(reader)
            if head is None:  # The server had closed what was kept: browsers ask again.
                writer.close()
                continue
            status, length = head
            body = (await reader.readexactly(length)).decode()
            self._kept = reader, writer
            if status != 200:
                raise ConnectionError(f"{address} answers {status}: {body[:300]}")
            return body
        raise ConnectionError(f"{address} is not answered.")

    async def _send(self, address: str, headers: str = "", kept: Connection | None = None) -> Connection:
        reader, writer = kept or await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(f"GET {address} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{headers}\r\n".encode())
        return reader, writer


class _Page:
    """What the script of an open page knows."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.changed = asyncio.Event()
        self.rests_until = 0.0
        self._moment = ""
        self._rows = ""

    def show(self, body: str) -> bool:
        """Whether it is a page that changes."""
        if found := re.search(r'data-rows="(\d+)"', body):
            self._rows = f"Rows-Known: {found[1]}\r\n"
        return "data-live" in body

    def hear(self, kind: str, frame: dict[str, Any]) -> None:
        # The page that has just begun to listen looks by itself, not with others.
        self._moment = frame["at"] if kind == "changed" else ""
        spread_ms = frame.get("spread", 0)
        asyncio.get_running_loop().call_later(random.random() * spread_ms / 1000, self.changed.set)

    def headers(self) -> str:
        moment = f"News-At: {self._moment}\r\n" if self._moment else ""
        return f"HX-Request: true\r\n{moment}{self._rows}"


def find_rest(took: float) -> float:
    """Seconds until the next look, behind one that took so long."""
    return max(MOST_OFTEN_S, SHARE * took)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, int] | None:
    """Status and length of an answer; None where there is none."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        return None
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), int(headers["content-length"])


@contextlib.contextmanager
def _listening(database_url: str, commits: Commits) -> Iterator[None]:
    """Hears of every commit as soon as the server does."""
    with contextlib.closing(psycopg2.connect(database_url)) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"LISTEN {find_channel(OURS)}")

        def hear() -> None:
            connection.poll()
            for notice in connection.notifies:
                commits.note(notice.payload, time.monotonic())
            connection.notifies.clear()

        loop = asyncio.get_running_loop()
        loop.add_reader(connection.fileno(), hear)
        try:
            yield
        finally:
            loop.remove_reader(connection.fileno())


async def _live(browser: Browser, number: int) -> None:
    """Every other one has the list open, one in four a run that goes on, one in four a new one; a
    third of those their events."""
    listed = "/?status=running" if number % 4 == 1 else "/"
    with contextlib.closing(browser):
        if number % 2 == 0:
            await browser.stay_on_list()
        else:
            await browser.visit_runs(listed, "?tab=events" if number % 3 == 0 else "")


async def main(port: str, database_url: str, count: str) -> None:
    commits, counted = Commits(), Counted()
    browsers = [Browser(int(port), commits, counted) for _ in range(int(count))]
    with _listening(database_url, commits):
        async with asyncio.TaskGroup() as together:
            living = [together.create_task(_live(one, number)) for number, one in enumerate(browsers)]
            for one in browsers:
                await one.is_there.wait()
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            counted.begin()
            await asyncio.to_thread(sys.stdin.read)
            print(json.dumps(counted.summarize()), flush=True)
            for task in living:
                task.cancel()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
