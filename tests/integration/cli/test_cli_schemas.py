"""What commands do with a PostgreSQL database in which others have tables."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import make_url

from .conftest import Cli

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def shared_database(home: Path, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of the settings; that of tests shows others the schema `noetl`."""
    with (
        closing(psycopg2.connect(empty_postgres_url)) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("CREATE TABLE orders (id INT)")
    monkeypatch.setenv("NOETL_DATABASE_URL", empty_postgres_url)


def test_a_first_run_says_in_one_line_where_it_makes_its_tables(
    cli: Cli, caplog: pytest.LogCaptureFixture
) -> None:
    assert [cli("run", "sum.yaml").code for _ in range(2)] == [0, 0]
    (line,) = caplog.messages
    assert 'in the schema "noetl"' in line


def test_all_commands_follow_the_schema_of_the_settings(
    cli: Cli, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_DATABASE_SCHEMA", "public")
    refused = cli("run", "sum.yaml")
    assert refused.code != 0
    assert "orders" in refused.err
    assert "`noetl db upgrade`" in refused.err
    assert cli("db", "upgrade").out.endswith(" in the schema public.\n")
    assert cli("db", "check").code == 0
    assert cli("run", "sum.yaml").code == 0
    assert "completed" in cli("sql", "--csv", "select status from execution").out
    seen = cli("doctor").out
    assert "public.execution" not in seen
    assert f"{make_url(empty_postgres_url).database} (schema public)" in seen
    monkeypatch.setenv("NOETL_DATABASE_SCHEMA", "pg_own")
    assert "NOETL_DATABASE_SCHEMA='pg_own' cannot be used" in cli("db", "check").err
