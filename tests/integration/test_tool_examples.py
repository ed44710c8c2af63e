"""The example on the page of each tool runs as it stands, against the real thing."""

from __future__ import annotations

import sqlite3
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.tools.kit.manual import manual_of
from noetl.tools.kit.registry import kinds, load
from noetl.usecases import catalog, credentials
from noetl.usecases.runtime import Runtime
from noetl.usecases.signals import SignalRequest, send_signal
from tests.httpd import Server, started, stopped
from tests.waiting import until

Run = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class World:
    """What examples may find: an engine, its directory, a web server, and (asked for by name) real
    servers."""

    rt: Runtime
    folder: Path
    web: Server
    fixture: Callable[[str], Any]


@dataclass(frozen=True)
class Example:
    """What the example's playbook is given, what must be there before, and what it yields."""

    result: Any
    workload: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[World], Mapping[str, Any] | None] = lambda _: None


def warehouse(world: World) -> None:
    url = world.fixture("empty_postgres_url")
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE readings (day date, value int)")
    credentials.save(world.rt, "warehouse", "postgres", {"dsn": url})


def orders(world: World) -> None:
    with closing(sqlite3.connect(world.folder / "orders.db")) as connection, connection:
        connection.executescript("CREATE TABLE orders (city); INSERT INTO orders VALUES ('Oslo'), ('Rome')")


def payment(world: World) -> None:
    """Somebody pays as soon as the example waits for that."""

    def pay() -> None:
        (waiting, *_) = until(waiting_ones, "an execution to wait")
        send_signal(world.rt, waiting, SignalRequest("payment", {"order": 7}))

    def waiting_ones() -> list[str]:
        with world.rt.store.read() as tx:
            return [row.execution_id for row in tx.executions.find(limit=10) if row.waiting_for]

    threading.Thread(target=pay, daemon=True).start()


def day(world: World) -> None:
    steps = (
        "[{step: start, tool: {kind: noop}, next: totals}, {step: totals, tool: {kind: noop, input: "
        "{d: '{{ day }}'}}}]"
    )
    catalog.register(world.rt, f"metadata: {{path: sales/load_day}}\nworkflow: {steps}\n")


def rows(world: World) -> Mapping[str, Any]:
    world.web.routes["/rows"] = lambda handler: handler.json({"rows": [handler.headers["authorization"]]})
    return {"base_url": world.web.url}


def broker(world: World) -> None:
    credentials.save(world.rt, "broker", "generic", {"url": world.fixture("redis_url")})


def customer(world: World) -> Mapping[str, Any]:
    credentials.save(world.rt, "acme", "generic", {"token": "s3cret-of-acme"})
    world.web.routes["/orders"] = lambda handler: handler.answer(
        status=200 if handler.headers["authorization"] == "Bearer s3cret-of-acme" else 401
    )
    return {"base_url": world.web.url}


EXAMPLES: Mapping[str, Example] = {
    "artifact": Example({"amount": 12}),
    "duckdb": Example(
        {"rows": [{"city": "Oslo", "amount": 12}]},
        {"sales": [{"city": "Oslo", "amount": 12}, {"city": "Rome", "amount": 3}]},
    ),
    "http": Example({"rows": ["Bearer t"]}, {"token": "t"}, rows),
    "message": Example({"bytes": 12}, {"order": 7}, broker),
    "noop": Example({"text": "Hello, Ada!"}, {"name": "Ada"}),
    "playbook": Example({"totals": {"d": 3}}, {"day": 3}, day),
    "postgres": Example(
        {"loaded": 2},
        {"day": "2026-01-01", "rows": [{"day": "2026-01-01", "value": 1}, {"day": "2026-01-01", "value": 2}]},
        warehouse,
    ),
    "python": Example({"value": 55}),
    "quantum": Example({"seen": ["00", "11"], "zz": 1.0}),
    "secrets": Example({"status": 200}, {"customer": "acme"}, customer),
    "shell": Example({"words": 3}, {"text": "it's $(two)\nthree"}),
    "sqlite": Example({"n": 1}, {"city": "Oslo"}, orders),
    "transfer": Example({"rows": 1}, {"rows": [{"station": "north", "day": "2026-01-01", "mm": 0.5}]}),
    "wait": Example({"by": None}, {"order": 7}, payment),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Runtime]:
    with bootstrap.local(Settings(home=folder / "home"), base_dir=folder) as opened:
        yield opened


@pytest.fixture
def world(engine: Runtime, folder: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    web = started()
    yield World(engine, folder, web, request.getfixturevalue)
    stopped(web)


@pytest.mark.parametrize("kind", kinds())
def test_the_example_of_a_tool_runs_as_it_stands(
    kind: str, world: World, run_in: Callable[[Runtime], Run]
) -> None:
    example = EXAMPLES[kind]
    given = {**example.workload, **(example.before(world) or {})}
    steps = textwrap.indent(manual_of(load(kind)).example, "  ")
    report = run_in(world.rt)(f"workflow:\n{steps}\n", **given)
    assert report["status"] == "completed", report["error"]
    assert report["result"] == example.result
