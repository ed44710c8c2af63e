"""What a connection to PostgreSQL keeps of the statements that it was sent."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from noetl.store.sql import SqlStore

from .given import create, execution


def kept(store: SqlStore) -> int:
    with store._connections.engine.connect() as connection:
        return int(connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar() or 0)


@pytest.mark.postgres
def test_asking_for_other_values_prepares_no_other_statement(postgres_url: str) -> None:
    store = SqlStore(postgres_url, pool_size=1)
    create(store, execution("100"))
    counts = []
    for turn in range(3):
        with store.read() as tx:
            tx.executions.find(path=f"a/{turn}")
            tx.executions.find(status="running", path=f"a/{turn}", before=str(turn))
            tx.executions.find(parent=str(turn))
            tx.events.read("100", after=turn, limit=turn + 1)
            tx.playbooks.get(f"a/{turn}", turn)
        counts.append(kept(store))
    store.close()
    assert counts == [counts[0]] * 3
    assert counts[0] >= 4
