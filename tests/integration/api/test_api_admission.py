"""How many requests are answered at once, and that those which wait do not count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from werkzeug.test import Client

from noetl.api.limits import RequestLimit, WaitingPlaces
from noetl.cli.services import server_argv
from noetl.config import Settings
from noetl.errors import Unavailable
from tests.waiting import GUARD_S, until

ROOT = Path(__file__).resolve().parents[3]


class Served:
    """An application whose requests stay until they are let go, and how many of them were inside at
    once."""

    def __init__(self) -> None:
        self.places = WaitingPlaces(1)
        self.inside, self.most = 0, 0
        self.entered = threading.Semaphore(0)
        self.leave = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, environ: dict, start_response: Callable) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/breaks":
            raise KeyError("a defect")
        if environ["PATH_INFO"] == "/waits":
            with self.places.hold(environ):
                self._stay()
        else:
            with self._lock:
                self.inside += 1
                self.most = max(self.most, self.inside)
            self._stay()
            with self._lock:
                self.inside -= 1
        start_response("200 OK", [])
        return [b"done"]

    def _stay(self) -> None:
        self.entered.release()
        assert self.leave.wait(GUARD_S)


class Turns(threading.BoundedSemaphore):
    """Turns that count who found none free."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.in_vain: list[int] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        if super().acquire(blocking=False):
            return True
        self.in_vain.append(threading.get_ident())
        return super().acquire(blocking, timeout)


def ask(app: RequestLimit, path: str, times: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=lambda: Client(app).get(path).close()) for _ in range(times)]
    for thread in threads:
        thread.start()
    return threads


def test_so_many_requests_are_answered_at_once_and_the_others_have_their_turn_behind_them() -> None:
    served, turns = Served(), Turns(2)
    app = RequestLimit(served, 2)
    app._turns = turns
    threads = ask(app, "/", 5)
    until(lambda: len(turns.in_vain) == 3 or served.inside > 2, "three to wait for their turn")
    until(lambda: served.inside >= 2, "two to be inside")
    served.leave.set()
    for thread in threads:
        thread.join(GUARD_S)
    assert (served.most, served.inside) == (2, 0)
    assert served.entered._value == 5


def test_who_waits_leaves_its_turn_to_others_and_a_defect_keeps_none() -> None:
    served = Served()
    app = RequestLimit(served, 1)
    for _ in range(3):
        with pytest.raises(KeyError):
            Client(app).get("/breaks")
    threads = ask(app, "/waits", 1)
    assert served.entered.acquire(timeout=GUARD_S)
    with pytest.raises(Unavailable, match="All 1 places"):
        served.places.take({})
    threads += ask(app, "/", 1)
    assert served.entered.acquire(timeout=GUARD_S)
    served.leave.set()
    for thread in threads:
        thread.join(GUARD_S)
    served.places.take({})


def test_servers_are_started_with_a_thread_for_each_request_that_is_answered_or_waits() -> None:
    settings = Settings()
    needed = settings.server_threads + settings.server_streams
    (line,) = [one for one in (ROOT / "Procfile").read_text().splitlines() if one.startswith("server:")]
    for words in (line.split(), server_argv("127.0.0.1", 1)):
        assert int(words[words.index("--threads") + 1]) == needed
