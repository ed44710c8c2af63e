"""The command line follows an execution over HTTP by asking and waiting, not by asking again and
again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from flask import Flask
from werkzeug.serving import make_server

from noetl.cli import remote
from noetl.cli.follow import EventBatch, follow
from noetl.cli.progress import ProgressView
from noetl.cli.remote import POLL_S, WAIT_S, RemoteExecution
from noetl.client import Client
from noetl.facts.events import Event
from noetl.testing import Simulation
from noetl.usecases import control

from .watched import Watching

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


class Heard(ProgressView):
    """Keeps what it was told."""

    def __init__(self) -> None:
        self.types: list[str] = []

    def on(self, event: Event) -> None:
        self.types.append(event.fact.type)


@contextmanager
def served(app: Flask) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the requests that were made of it."""
    asked: list[str] = []

    def note(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked.append(f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}")
        return app(environ, start_response)

    server = make_server("127.0.0.1", 0, note, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def followed(url: str, execution_id: str, *, wait: bool = True) -> list[str]:
    heard = Heard()
    with Client(url) as client:
        follow(RemoteExecution(client, execution_id), heard, wait=wait, wait_s=WAIT_S)
    return heard.types


def test_following_asks_once_for_as_long_as_nothing_happens(
    make: Callable[..., Flask], sim: Simulation, watching: Watching
) -> None:
    execution_id = sim.start()
    watching.meanwhile = sim.settle
    with served(make()) as (url, asked):
        told = followed(url, execution_id)
    assert told == sim.types(execution_id)
    assert f"wait={WAIT_S:g}" in asked[1], "it waits for as long as one question may"
    # One finds what was there, one waits; then as many as the ending has commits, at most.
    assert len(asked) <= 2 + len(told)


def test_a_server_without_a_free_place_is_asked_now_and_then(
    make: Callable[..., Flask], sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = sim.start()
    now = 0.0
    asked_at: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    class TimedExecution(RemoteExecution):
        def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
            asked_at.append(now)
            if len(asked_at) == 5:
                sim.settle()
            return super().page(after, wait_s, until_idle=until_idle)

    monkeypatch.setattr(remote, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    heard = Heard()
    with served(make(server_streams=0)) as (url, _), Client(url) as client:
        follow(TimedExecution(client, execution_id), heard, wait=True, wait_s=WAIT_S)
    assert heard.types == sim.types(execution_id)
    # The first answer had events; from one that had none to the next question there is a pause.
    pauses = [after - before for before, after in pairwise(asked_at[1:5])]
    assert pauses == pytest.approx([POLL_S] * 3)


@pytest.mark.parametrize("before", [True, False])
def test_who_does_not_wait_leaves_as_soon_as_the_execution_is_idle(
    make: Callable[..., Flask], sim: Simulation, watching: Watching, before: bool
) -> None:
    """The time of a request that waits is never over here."""
    execution_id = sim.start({"wait_for_go": True})
    if before:
        sim.settle()
    else:
        watching.meanwhile = sim.settle
    with served(make()) as (url, _):
        assert followed(url, execution_id, wait=False) == sim.types(execution_id)


def test_a_turn_that_writes_nothing_ends_the_waiting_of_who_does_not_wait(
    make: Callable[..., Flask], sim: Simulation, watching: Watching
) -> None:
    """A patch that opens no gate: its event comes before the turn after which the execution is idle
    again."""
    execution_id = sim.start({"wait_for_go": True})
    sim.settle()
    control.patch_ctx(sim.rt, execution_id, {"x": 1})
    watching.meanwhile = sim.settle
    with served(make()) as (url, _), Client(url) as client:
        heard = Heard()
        follow(RemoteExecution(client, execution_id), heard, wait=False, wait_s=WAIT_S)
    assert heard.types[-1] == "ctx.patched" or len(heard.types) == len(sim.types(execution_id))
