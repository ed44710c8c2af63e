"""A PostgreSQL database that is not NoETL's alone: where the tables are, and what stays apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import psycopg2
import pytest
from sqlalchemy import make_url

from noetl.errors import ConfigError, Unavailable
from noetl.store import migrate, open_store
from noetl.store.connections import connect
from noetl.store.installation import Installation, lock_number
from noetl.store.schema.database import HEAD
from noetl.store.watching import find_channel, listen
from tests import services
from tests.pooler import open_pooler
from tests.waiting import GUARD_S

from .given import append, create, execution, patched

pytestmark = pytest.mark.postgres

#: A name with all that SQL, its drivers and the options of a connection read otherwise.
ODD = 'Two: 100 %s \\ :"x"'


@pytest.fixture
def database(empty_postgres_url: str) -> str:
    """The URL of an empty database with the search_path of PostgreSQL, as others know it."""
    ask(empty_postgres_url, f"ALTER DATABASE {make_url(empty_postgres_url).database} RESET search_path")
    return empty_postgres_url


@pytest.fixture
def installed(postgres_server: services.Postgres, postgres_template: str) -> Iterator[str]:
    """The same, of a database with NoETL's tables."""
    url = postgres_server.create(postgres_template)
    ask(url, f"ALTER DATABASE {make_url(url).database} RESET search_path")
    yield url
    postgres_server.drop(url)


@pytest.fixture
def older(installed: str) -> str:
    """The same, of one that a version made which put no schema into names."""
    ask(
        installed,
        "DROP SCHEMA public",
        "ALTER SCHEMA noetl RENAME TO public",
        "ALTER TABLE noetl_version RENAME CONSTRAINT noetl_version_pkc TO alembic_version_pkc",
        "ALTER TABLE noetl_version RENAME TO alembic_version",
    )
    return installed


def ask(url: str, *statements: str) -> list[Any]:
    """Runs statements as somebody else's program does; the rows of the last."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def tables(url: str) -> dict[str, set[str]]:
    """The names of tables by schema."""
    found: dict[str, set[str]] = {}
    for schema, name in ask(
        url,
        "SELECT schemaname, tablename FROM pg_tables "
        "WHERE schemaname <> 'information_schema' AND schemaname NOT LIKE 'pg\\_%'",
    ):
        found.setdefault(schema, set()).add(name)
    return found


def with_options(url: str, options: str) -> str:
    return f"{url}?options={quote(options)}"


def test_a_new_installation_has_a_schema_of_its_own_beside_the_tables_of_others(database: str) -> None:
    theirs = (
        "CREATE TABLE alembic_version (version_num TEXT)",
        "INSERT INTO alembic_version VALUES ('theirs')",
    )
    ask(database, *theirs, "CREATE TABLE execution (id INT)")
    early = open_store(database)
    with pytest.raises(Unavailable), early.read() as tx:
        tx.executions.get("100")
    assert migrate.upgrade(database)
    assert migrate.check(database) == []
    assert set(tables(database)) == {"public", "noetl"}
    assert tables(database)["public"] == {"alembic_version", "execution"}
    assert ask(database, "SELECT * FROM alembic_version") == [("theirs",)]
    create(early)
    early.close()
    assert ask(database, "SELECT execution_id FROM noetl.execution") == [(100,)]


@pytest.mark.parametrize("schema", ["etl", "schéma", "s" * 63])
def test_the_settings_name_the_schema(installed: str, schema: str) -> None:
    name = schema.replace('"', '""')
    ask(installed, f'ALTER SCHEMA noetl RENAME TO "{name}"')
    with (
        closing(open_store(installed, schema=schema)) as store,
        closing(open_store(installed, schema=schema)) as elsewhere,
    ):
        create(store)
        with store.watch("100") as watch:
            assert watch.wait(GUARD_S)
            append(elsewhere, [patched("x")])
            assert watch.wait(GUARD_S)
    assert ask(installed, f'SELECT execution_id FROM "{name}".execution') == [(100,)]


def test_an_installation_of_before_stays_where_it_is(older: str) -> None:
    before = tables(older)
    assert not migrate.upgrade(older)
    assert migrate.check(older) == []
    assert tables(older) == before
    with closing(open_store(older)) as store:
        create(store)
    assert ask(older, "SELECT execution_id FROM public.execution") == [(100,)]


def test_an_installation_of_before_gets_the_new_version_table_beside_the_old_one(older: str) -> None:
    ask(
        older,
        "UPDATE alembic_version SET version_num = '0017'",
        "DROP TRIGGER event_refuses_update ON event",
        "DROP TRIGGER event_refuses_delete ON event",
    )
    assert migrate.upgrade(older)
    assert migrate.check(older) == []
    assert ask(older, "SELECT version_num FROM noetl_version") == [(HEAD,)]
    assert ask(older, "SELECT version_num FROM alembic_version") == [("0018",)], "what older ones know"


@pytest.mark.parametrize("adopt", [False, True])
def test_processes_of_before_and_of_now_meet_at_one_channel_and_at_one_lock(older: str, adopt: bool) -> None:
    assert not migrate.upgrade(older, is_asked_for=adopt)
    assert ("noetl_version" in tables(older)["public"]) == adopt
    with closing(open_store(older)) as store, closing(psycopg2.connect(older)) as listening:
        listening.autocommit = True
        with listening.cursor() as cursor:
            cursor.execute("LISTEN noetl_changed")
            create(store)
            with store.begin() as tx:
                tx.slots.lock(["k"])
                cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock_number("noetl:slot:k")])
                assert cursor.fetchone() == (False,)
            append(store, [patched("x")])
            cursor.execute("SELECT 1")
        assert [one.payload for one in listening.notifies] == ["100"]


def test_the_search_path_of_a_database_keeps_showing_an_installation(older: str) -> None:
    name = make_url(older).database
    ask(older, "ALTER SCHEMA public RENAME TO theirs", f"ALTER DATABASE {name} SET search_path = theirs")
    assert migrate.find_schema(older) == "theirs"
    assert migrate.check(older) == []


def test_the_options_of_the_url_are_kept(database: str) -> None:
    ask(database, "CREATE SCHEMA theirs")
    url = with_options(database, "-csearch_path=theirs -c statement_timeout=54321") + "&application_name=etl"
    assert migrate.upgrade(url)
    assert set(tables(database)) == {"theirs"}
    with closing(connect(url)) as connections, connections.open("read") as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("search_path", "statement_timeout", "timezone", "application_name")
        ]
    assert shown == ['"theirs"', "54321ms", "UTC", "etl"]


def test_tables_that_an_older_version_made_without_the_options_of_the_url_are_found(older: str) -> None:
    ask(older, "CREATE SCHEMA theirs")
    assert migrate.find_schema(with_options(older, "-csearch_path=theirs")) == "public"


def test_a_search_path_without_any_schema_says_what_to_do(database: str) -> None:
    with pytest.raises(ConfigError, match=r"CREATE SCHEMA.*NOETL_DATABASE_SCHEMA"):
        migrate.upgrade(with_options(database, "-csearch_path=nowhere"))


def test_no_tables_are_made_unasked_among_those_of_others(database: str) -> None:
    ask(database, "CREATE TABLE orders (id INT)")
    with pytest.raises(ConfigError, match=r"orders.*noetl db upgrade.*NOETL_DATABASE_SCHEMA"):
        migrate.upgrade(database, "public")
    assert tables(database) == {"public": {"orders"}}
    assert migrate.upgrade(database, "public", is_asked_for=True)
    assert migrate.check(database, "public") == []
    assert not migrate.upgrade(database, "public")


@pytest.fixture
def poor(database: str) -> Iterator[str]:
    """The URL of the empty database for a role that may do nothing but connect."""
    url = make_url(database)
    role = f"poor_{url.database}"
    ask(database, f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    yield url.set(username=role, password="x").render_as_string(hide_password=False)
    ask(database, f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


def read_advice(use: Callable[[], object]) -> str:
    """The statement that an error asks an owner to run."""
    with pytest.raises(ConfigError) as failed:
        use()
    return failed.value.message.split("`")[1]


def test_a_role_is_told_what_it_needs_to_make_the_tables(database: str, poor: str) -> None:
    ask(database, "CREATE SCHEMA etl")
    ask(database, read_advice(lambda: migrate.current(poor, "etl")))
    ask(database, read_advice(lambda: migrate.upgrade(poor, "etl")))
    ask(database, read_advice(lambda: migrate.upgrade(poor)))
    assert migrate.upgrade(poor)


@pytest.mark.parametrize("schema", ["noetl", ODD])
def test_a_role_is_told_what_it_needs_to_work_with_the_tables(database: str, poor: str, schema: str) -> None:
    migrate.upgrade(database, schema)
    name, role = '"{}"'.format(schema.replace('"', '""')), f'"{make_url(poor).username}"'
    ask(database, f"GRANT USAGE ON SCHEMA {name} TO {role}")
    ask(database, f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {role}")
    store = open_store(poor, schema=schema)
    letter = ("api", "too large", "", datetime.now(UTC))
    try:
        with (
            pytest.raises(Unavailable, match="permission denied for table dead_letter") as failed,
            store.begin() as tx,
        ):
            tx.dead_letters.add(*letter)
        assert role in failed.value.message
        ask(database, failed.value.message.split("`")[1])
        with store.begin() as tx:
            tx.dead_letters.add(*letter)
    finally:
        store.close()


@pytest.fixture
def pooled(database: str) -> Iterator[str]:
    """The URL of the empty database behind a pooler."""
    with open_pooler(database) as url:
        yield url


def test_a_pooler_that_drops_the_search_path_is_told_of(database: str, pooled: str) -> None:
    statement = read_advice(lambda: migrate.upgrade(pooled))
    assert tables(database) == {}
    ask(database, statement)
    assert migrate.upgrade(pooled)
    assert set(tables(database)) == {"noetl"}


def test_two_installations_in_one_database_do_not_meet(installed: str) -> None:
    ask(installed, "ALTER SCHEMA noetl RENAME TO one")
    assert migrate.upgrade(installed, ODD)
    with (
        closing(open_store(installed, schema="one")) as first,
        closing(open_store(installed, schema=ODD)) as second,
        closing(connect(installed, schema=ODD)) as connections,
        listen(connections) as hear,
    ):
        with first.begin() as tx, second.begin() as other:
            tx.slots.lock(["k"])
            other.slots.lock(["k"])
        create(first)
        append(first, [patched("x")])
        create(second, execution("101"))
        append(second, [patched("y")], execution_id="101")
        assert hear(GUARD_S) == {"101"}


def test_channels_of_schemas_are_names_that_postgresql_takes() -> None:
    odd = [find_channel(Installation(schema, False, True)) for schema in ("a b", 'a"b', "A", "é", "s" * 63)]
    assert len(set(odd)) == len(odd)
    assert all(len(one) < 64 and one.replace("_", "").isalnum() and one.islower() for one in odd)
