"""The command line follows an execution over HTTP by asking and waiting, not by asking again and
again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from flask import Flask, request
from werkzeug.serving import make_server

from noetl.cli.follow import EventBatch, follow
from noetl.cli.progress import ProgressView
from noetl.cli.remote import POLL_S, WAIT_S, RemoteExecution
from noetl.client import Client
from noetl.facts.events import Event
from noetl.testing import Simulation


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
    app.before_request(lambda: asked.append(request.full_path))
    server = make_server("127.0.0.1", 0, app, threaded=True)
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
    make: Callable[..., Flask], sim: Simulation
) -> None:
    execution_id = sim.start()
    with served(make()) as (url, asked):
        settling = threading.Timer(1.0, sim.settle)
        settling.start()
        told = followed(url, execution_id)
        settling.join()
    assert told == sim.types(execution_id)
    # One finds what was there, one waits; then as many as the ending has commits, at most.
    assert len(asked) <= 2 + len(told)


def test_a_server_without_a_free_place_is_asked_now_and_then(
    make: Callable[..., Flask], sim: Simulation
) -> None:
    execution_id = sim.start()
    asked_at: list[float] = []

    class TimedExecution(RemoteExecution):
        def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
            asked_at.append(time.monotonic())
            return super().page(after, wait_s, until_idle=until_idle)

    def settle() -> None:
        ends = time.monotonic() + 30
        while len(asked_at) < 5 and time.monotonic() < ends:
            time.sleep(0.01)
        sim.settle()

    heard = Heard()
    with served(make(server_streams=0)) as (url, _), Client(url) as client:
        settling = threading.Thread(target=settle)
        settling.start()
        follow(TimedExecution(client, execution_id), heard, wait=True, wait_s=WAIT_S)
        settling.join()
    assert heard.types == sim.types(execution_id)
    # The first answer had events; from one that had none to the next question there is a pause.
    pauses = [after - before for before, after in pairwise(asked_at[1:5])]
    assert len(pauses) == 3
    assert min(pauses) >= POLL_S


@pytest.mark.parametrize("before", [True, False])
def test_who_does_not_wait_leaves_as_soon_as_the_execution_is_idle(
    make: Callable[..., Flask], sim: Simulation, before: bool
) -> None:
    execution_id = sim.start({"wait_for_go": True})
    if before:
        sim.settle()
    with served(make()) as (url, _):
        settling = threading.Timer(0.2, sim.settle)
        settling.start()
        began = time.monotonic()
        assert followed(url, execution_id, wait=False) == sim.types(execution_id)
        assert time.monotonic() - began < WAIT_S / 2
        settling.join()


def test_a_turn_that_writes_nothing_ends_the_waiting_of_who_does_not_wait(
    make: Callable[..., Flask], sim: Simulation
) -> None:
    """A patch that opens no gate: its event comes before the turn after which the execution is idle
    again."""
    execution_id = sim.start({"wait_for_go": True})
    sim.settle()
    with served(make()) as (url, _), Client(url) as client:
        from noetl.usecases import control

        control.patch_ctx(sim.rt, execution_id, {"x": 1})
        settling = threading.Timer(0.3, sim.settle)
        settling.start()
        heard = Heard()
        began = time.monotonic()
        follow(RemoteExecution(client, execution_id), heard, wait=False, wait_s=WAIT_S)
        assert time.monotonic() - began < WAIT_S / 2
        settling.join()
    assert heard.types[-1] == "ctx.patched" or len(heard.types) == len(sim.types(execution_id))
