"""How the databases are used: plans, pragmas, forks."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import event, text

from noetl.errors import Unavailable
from noetl.store import commands, events, executions, open_store
from noetl.store.connections import Connections
from noetl.store.engine import open_engine
from noetl.usecases.ports import ExecutionRow

NOW = datetime(2026, 3, 1, tzinfo=UTC)

QUERIES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "owing": (executions._owing, {"now": NOW, "limit": 9, "shard": ""}, "ix_execution_owing"),
    "waking": (executions._owing, {"now": NOW, "limit": 9, "shard": ""}, "ix_execution_next_wake_at"),
    "unsent": (commands._unsent, {"now": NOW, "limit": 9, "shard": ""}, "ix_command_unsent"),
    "unclaimed": (commands._unclaimed, {"before": NOW, "limit": 9, "shard": ""}, "ix_command_unclaimed"),
    "expired": (commands._expired, {"now": NOW, "limit": 9, "shard": ""}, "ix_command_leased"),
    "open": (commands._open_of, {"execution": 5}, "ix_command_open"),
    "run": (events._run_iteration, {"id": 5, "run": "s#1", "iteration": 5}, "ix_event_run"),
    "recorded": (events._recorded, {"id": 5, "dedup_key": "k"}, "uq_event_dedup_key"),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_each_index_serves_its_query(request: pytest.FixtureRequest, kind: str, name: str) -> None:
    statement, values, index = QUERIES[name]
    connections = Connections(open_engine(request.getfixturevalue(f"{kind}_url")))
    with connections.open("durable") as connection:
        if kind == "postgres":  # the tables are empty: what is asked is whether the index can serve
            connection.execute(text("SET LOCAL enable_seqscan TO off"))
        plan = _plan(connection, statement, values, "EXPLAIN QUERY PLAN" if kind == "sqlite" else "EXPLAIN")
    connections.engine.dispose()
    assert index in plan


def _plan(connection: Any, statement: Any, values: dict[str, Any], explain: str) -> str:
    compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"render_postcompile": True})
    processors = compiled._bind_processors
    bound = {
        name: processors[name](value) if name in processors else value
        for name, value in compiled.construct_params(values).items()
    }
    sql = f"{explain} {compiled}"
    if compiled.positional:
        found = connection.exec_driver_sql(sql, tuple(bound[name] for name in compiled.positiontup))
    else:
        found = connection.exec_driver_sql(sql, bound)
    return "\n".join(str(row) for row in found)


def test_only_claims_may_be_lost_in_a_power_cut_on_sqlite(sqlite_url: str) -> None:
    connections = Connections(open_engine(sqlite_url))
    for mode, synchronous in (("durable", 2), ("relaxed", 1), ("durable", 2)):
        with connections.open(mode) as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
    connections.engine.dispose()


@pytest.mark.postgres
def test_only_claims_may_be_lost_in_a_power_cut_on_postgresql(postgres_url: str) -> None:
    connections = Connections(open_engine(postgres_url))
    for mode, commit in (("durable", "on"), ("relaxed", "off"), ("durable", "on")):
        with connections.open(mode) as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == commit
    connections.engine.dispose()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_forked_child_and_its_parent_do_not_share_connections(
    request: pytest.FixtureRequest, kind: str
) -> None:
    store = open_store(request.getfixturevalue(f"{kind}_url"))
    with store.begin() as tx:
        tx.executions.create(ExecutionRow("1", "a", 1, "d", "running", 0, 0, NOW, NOW))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with store.begin() as tx:
                tx.executions.set_halt("1", "cancel")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with store.read() as tx:
        row = tx.executions.get("1")
    store.close()
    assert row is not None
    assert row.halt == "cancel"


def test_a_full_disk_is_named_with_the_next_move(sqlite_url: str) -> None:
    connections = Connections(open_engine(sqlite_url))
    event.listen(connections.engine, "connect", lambda raw, _: raw.execute("PRAGMA max_page_count=1"))
    with (
        pytest.raises(Unavailable, match=r"has no room left on its disk \(.*full\); make room there\."),
        connections.open("durable") as connection,
    ):
        connection.exec_driver_sql("CREATE TABLE large AS SELECT zeroblob(100000) AS zeros")
    connections.engine.dispose()
