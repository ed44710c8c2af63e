"""Gates in PostgreSQL: statements wait at a locked table until the test lets them pass.

with held(url, "t"):
    calls = [pool.submit(insert_into_t) for _ in range(2)]
    until_waiting(url, 2)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2

from tests.waiting import until


@contextmanager
def held(url: str, table: str) -> Iterator[None]:
    """Nobody else gets at `table` meanwhile."""
    with closing(psycopg2.connect(url)) as holder, holder.cursor() as cursor:
        cursor.execute(f"lock table {table}")
        yield


def until_waiting(url: str, count: int) -> None:
    """Until so many statements wait for locks in the database."""
    until_true(
        url,
        f"select count(*) = {count} from pg_stat_activity "
        "where datname = current_database() and wait_event_type = 'Lock'",
    )


def until_true(url: str, query: str) -> None:
    """Until the database answers `query` with true."""
    with closing(psycopg2.connect(url)) as looking, looking.cursor() as cursor:
        looking.autocommit = True

        def look() -> bool:
            cursor.execute(query)
            return cursor.fetchall() == [(True,)]

        until(look, query)
