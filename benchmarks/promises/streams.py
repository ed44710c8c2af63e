"""How soon those who watch an execution have what another process commits: in a store, or over HTTP
from a server on the same database."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from benchmarks.promises.model import Promise, elapsed
from noetl.facts.events import CtxPatched
from noetl.facts.logs import LogChunk, LogPosition
from noetl.store import open_store
from noetl.usecases import catalog
from noetl.usecases.ports import Mark, Store
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.acceptance.test_client_view import GATED

#: Commits of one repetition.
COMMITS = 11
#: Seconds from when something has arrived until the next commit. The news come a tenth of a second
#: apart to one browser, and what happens meanwhile is told of then.
REST_S, REST_OF_NEWS_S = 0.02, 0.2
#: Seconds after which a watcher looks by itself, and the benchmark gives up.
LONG_S, PATIENCE_S = 15.0, 60.0


class Streams:
    """An execution that waits, and what is heard of it. Commits are made by this process through
    `rt`, and heard by the server at `url`, or another store on `database`."""

    def __init__(self, rt: Runtime, database: str, url: str) -> None:
        self._rt = rt
        self._database = database
        self._url = url
        self._execution = start(rt, StartRequest(catalog.register(rt, GATED).path)).execution_id
        self._place = LogPosition(self._execution, "start", "start#1", None, "task", 1, 1)
        self._numbers = count()

    def watcher(self) -> list[float]:
        with closing(open_store(self._database)) as elsewhere, elsewhere.watch(self._execution) as watch:
            known = self._mark(elsewhere)

            def hear(_words: bytes) -> None:
                nonlocal known
                while (now := self._mark(elsewhere)) == known:
                    watch.wait(LONG_S)
                known = now

            return _lateness(self._print, hear)

    def events(self) -> list[float]:
        with self._opened(f"/api/executions/{self._execution}/events") as stream:
            return _lateness(self._patch, lambda words: _read_to(stream, words))

    def logs(self) -> list[float]:
        with self._opened(f"/api/executions/{self._execution}/logs") as stream:
            return _lateness(self._print, lambda words: _read_to(stream, words))

    def news(self) -> list[float]:
        with self._opened(f"/news?id={self._execution}") as stream:
            _read_to(stream, b"event: hello")
            return _lateness(self._print, lambda _: _read_to(stream, b"event: changed"), REST_OF_NEWS_S)

    def _print(self) -> bytes:
        """Commits a line as a task's, and says how it is told from others. No turn comes of it."""
        text = f"line {next(self._numbers)}"
        with self._rt.store.begin_async_commit() as tx:
            tx.executions.lock(self._execution)
            tx.logs.add(self._execution, [LogChunk(self._place, "stdout", 0, text, self._rt.clock())])
        return f'"{text}"'.encode()

    def _patch(self) -> bytes:
        """Commits an event, as a patch of ctx does, and says the same of it. Nobody is woken."""
        name = f"n{next(self._numbers)}"
        with self._rt.store.begin() as tx:
            row = tx.executions.lock(self._execution)
            assert row is not None
            draft = self._rt.ask_for(CtxPatched({name: 1}, "client"))
            tx.events.append(self._execution, row.head_version, [draft], self._rt.clock())
        return f'"{name}"'.encode()

    def _mark(self, store: Store) -> Mark:
        with store.read() as tx:
            return tx.executions.marks([self._execution])[self._execution]

    @contextmanager
    def _opened(self, path: str) -> Iterator[http.client.HTTPResponse]:
        place = urlsplit(self._url)
        with closing(http.client.HTTPConnection(str(place.hostname), place.port, PATIENCE_S)) as connection:
            connection.request("GET", path, headers={"Accept": "text/event-stream"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {answer.read()[:300]!r}")
            yield answer


def _lateness(
    commit: Callable[[], bytes], hear: Callable[[bytes], None], rest_s: float = REST_S
) -> list[float]:
    """Seconds from the end of each commit until it was heard of."""
    late = []
    for _ in range(COMMITS):
        time.sleep(rest_s)
        words = commit()
        late.append(elapsed(partial(hear, words)))
    return late


def _read_to(stream: http.client.HTTPResponse, words: bytes) -> None:
    """Reads up to a line with these words. Raises RuntimeError where the stream ends before."""
    for line in stream:
        if words in line:
            return
    raise RuntimeError(f"The stream ended without {words!r}.")


def promises(streams: Streams, where: str) -> list[Promise]:
    """Those about this database, which is called `where`."""
    # News tell of turns, too, and in a stack a turn comes of each event: events come last.
    told = {
        "watcher": ("who watches the store", streams.watcher),
        "news": ("the news stream of the pages", streams.news),
        "log stream": ("a log stream", streams.logs),
        "event stream": ("an event stream", streams.events),
    }
    return [
        Promise(f"{name}, {where}", f"from a commit until {who} has it", 0.02, "s", measure)
        for name, (who, measure) in told.items()
    ]
