"""What an upgrade promises on both databases."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import IntegrityError

from noetl.errors import ConfigError, Unavailable
from noetl.store import migrate, open_store, schema
from noetl.store.engine import parse
from noetl.store.schema.database import SUBJECTS, metadata
from noetl.store.version import table_of
from noetl.usecases.where import parse_where
from tests import zygote


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database in which there is nothing."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/er/noetl.sqlite"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


def _execute(url: str, statement: str) -> None:
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_an_upgrade_from_nothing_equals_the_definition(empty_url: str) -> None:
    assert migrate.current(empty_url) is None
    assert migrate.check(empty_url) == [
        "Revision 0001 (The tables.) is pending.",
        "Revision 0002 (Executions that others called.) is pending.",
        "Revision 0003 (Credentials that are kept for some playbooks, or for one execution.) is pending.",
        "Revision 0004 (Versions of playbooks keep what the compiler warned of.) is pending.",
        "Revision 0005 (How many errors an execution went on after, and how many warnings it has.) is "
        "pending.",
        "Revision 0006 (What user code prints.) is pending.",
        "Revision 0007 (How far the clocks of workers are off.) is pending.",
        "Revision 0008 (What executions descend from, and which events are copies.) is pending.",
        "Revision 0009 (Executions that were imported, to be looked at.) is pending.",
        "Revision 0010 (What calls of tasks with `cache` came to, for others that are equal.) is pending.",
        "Revision 0011 (Business keys, and which execution each of them means.) is pending.",
        "Revision 0012 (What is done to many executions at once.) is pending.",
        "Revision 0013 (Tokens, who asked for what, and the audit.) is pending.",
        "Revision 0014 (What executions wait for, signals that nobody waits for, and how many iterations "
        "were cancelled.) is pending.",
        "Revision 0015 (Who has a slot of what, who waits for one, and what is paused.) is pending.",
        "Revision 0016 (How many approvals of an execution are open.) is pending.",
        "Revision 0017 (Labels and inputs that executions can be asked for.) is pending.",
        "Revision 0018 (The database refuses to change or delete events.) is pending.",
    ]
    assert migrate.upgrade(empty_url)
    assert migrate.current(empty_url) == migrate.HEAD
    assert migrate.check(empty_url) == []


NOW = datetime(2026, 1, 1, tzinfo=UTC)

#: How the program of revision 0001 writes an execution.
INSERT_0001 = (
    "INSERT INTO execution (execution_id, path, playbook_version, digest, status, head_version, "
    "decided_version, "
    "created_at, updated_at, halt, shard) VALUES ({}, 'a/b', 1, 'd', 'completed', 0, 0, "
    "'2026-01-01T00:00:00.000000+00:00', '2026-01-01T00:00:00.000000+00:00', '', '')"
)


def _at(url: str, revision: str) -> None:
    with migrate._connections(url) as connections:
        if connections.dialect == "postgresql":
            migrate._prepare(connections, is_asked_for=True)
        with connections.engine.connect() as connection:
            command.upgrade(migrate._config(connection), revision)
            connection.commit()


def _go_back_to_0016(url: str) -> None:
    """As the database was then."""
    _at(url, "0016")


def test_executions_of_revision_0001_are_read_as_called_by_nobody(empty_url: str) -> None:
    _at(empty_url, "0001")
    _execute(empty_url, INSERT_0001.format(7))

    assert migrate.upgrade(empty_url)

    assert migrate.check(empty_url) == []
    store = open_store(empty_url)
    with store.read() as tx:
        (row,) = tx.executions.find()
    store.close()
    assert (row.execution_id, row.parent_id, row.status) == ("7", None, "completed")


def test_a_program_of_revision_0001_goes_on_writing_behind_the_upgrade(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    _execute(empty_url, INSERT_0001.format(7))
    store = open_store(empty_url)
    with store.read() as tx:
        assert [row.parent_id for row in tx.executions.find()] == [None]
        assert tx.executions.find(parent="7") == []
    store.close()


def test_executions_of_before_have_no_labels_and_no_inputs(empty_url: str) -> None:
    _go_back_to_0016(empty_url)
    _execute(empty_url, INSERT_0001.format(7))
    assert migrate.upgrade(empty_url)
    # A program of the revision before goes on writing.
    _execute(empty_url, INSERT_0001.format(8))
    store = open_store(empty_url)
    with store.read() as tx:
        found = tx.executions.find(where=parse_where("label.team is null and input.n is null", NOW))
        assert [(row.execution_id, row.labels, row.inputs) for row in found] == [
            ("8", None, None),
            ("7", None, None),
        ]
        assert tx.executions.find(where=parse_where("label.team ~ '' or input.n = 1", NOW)) == []
    store.close()


@pytest.mark.postgres
def test_an_upgrade_to_0017_that_was_interrupted_is_taken_up_again(empty_postgres_url: str) -> None:
    _go_back_to_0016(empty_postgres_url)
    _execute(empty_postgres_url, "ALTER TABLE execution ADD COLUMN labels TEXT")
    assert migrate.upgrade(empty_postgres_url)
    assert migrate.check(empty_postgres_url) == []


@pytest.mark.postgres
def test_an_upgrade_to_0002_that_was_interrupted_is_taken_up_again(empty_postgres_url: str) -> None:
    _at(empty_postgres_url, "0001")
    _execute(empty_postgres_url, "ALTER TABLE execution ADD COLUMN parent_id BIGINT")
    _execute(empty_postgres_url, "CREATE INDEX ix_execution_parent_id ON execution (parent_id)")
    assert migrate.upgrade(empty_postgres_url)
    assert migrate.check(empty_postgres_url) == []


def test_an_upgrade_of_an_upgraded_database_does_nothing(empty_url: str) -> None:
    assert migrate.upgrade(empty_url)
    assert not migrate.upgrade(empty_url)


def test_the_database_has_the_tables_of_every_module_in_which_some_stand() -> None:
    modules = {f"{schema.__name__}.{one.name}" for one in iter_modules(schema.__path__)}
    assert {one.__name__ for one in SUBJECTS} == modules - {
        "noetl.store.schema.columns",
        "noetl.store.schema.database",
        "noetl.store.schema.triggers",
    }


def test_the_revisions_lead_to_the_tables_that_an_empty_sqlite_file_gets_at_once(tmp_path: Path) -> None:
    short, long = (f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("short", "long"))
    migrate.upgrade(short)
    with migrate._connections(long) as connections, connections.open("durable") as connection:
        migrate._run_revisions(connection, None)
    assert _shape(short) == _shape(long)
    assert _triggers(short) == _triggers(long) != []
    assert migrate.check(long) == []


def _index(index: Any) -> str:
    options = {name: str(value) for name, value in index["dialect_options"].items()}
    return str({**index, "dialect_options": options})


def _shape(url: str) -> dict[str, Any]:
    engine = create_engine(url)
    found = inspect(engine)
    shape = {
        name: (
            [{**column, "type": str(column["type"])} for column in found.get_columns(name)],
            sorted(_index(index) for index in found.get_indexes(name)),
            found.get_pk_constraint(name),
            sorted(map(str, found.get_foreign_keys(name))),
        )
        for name in found.get_table_names()
    }
    engine.dispose()
    return shape


def _triggers(url: str) -> list[tuple[str, str]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
        )
        triggers = [(name, sql) for name, sql in found]
    engine.dispose()
    return triggers


def _append_by_hand(url: str) -> None:
    _execute(
        url,
        "INSERT INTO event (execution_id, version, type, entity_type, entity_id, source, status, payload, "
        "recorded_at, schema) VALUES (7, 1, 'workflow.started', 'workflow', 'w', 'server', 'started', "
        "'{}', '2026-01-01T00:00:00.000000+00:00', 1)",
    )


CHANGES = ("UPDATE event SET payload = 'null'", "DELETE FROM event WHERE version = 1")


def _assert_the_log_stands(url: str) -> None:
    for change in CHANGES:
        with pytest.raises(IntegrityError, match="events are append-only"):
            _execute(url, change)


def test_the_database_refuses_to_change_events_and_to_delete_them(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    _append_by_hand(empty_url)
    _assert_the_log_stands(empty_url)


def test_a_log_of_before_is_kept_from_changes_behind_the_upgrade(empty_url: str) -> None:
    _at(empty_url, "0017")
    _append_by_hand(empty_url)
    assert migrate.upgrade(empty_url)
    assert migrate.check(empty_url) == []
    _assert_the_log_stands(empty_url)


def test_a_log_that_takes_changes_is_reported(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    if empty_url.startswith("sqlite"):
        _execute(empty_url, "DROP TRIGGER event_refuses_delete")
    else:
        _execute(empty_url, "ALTER TABLE event DISABLE TRIGGER event_refuses_delete")
    (line,) = migrate.check(empty_url)
    assert "event_refuses_delete" in line


def test_a_table_that_differs_is_reported(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    _execute(empty_url, "ALTER TABLE worker ADD COLUMN surprise TEXT")
    _execute(empty_url, "DROP INDEX ix_event_run")
    found = migrate.check(empty_url)
    assert len(found) == 2
    assert any("surprise" in line for line in found)
    assert any("ix_event_run" in line for line in found)


def test_tables_of_others_beside_it_are_none_of_its_business(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    _execute(empty_url, "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT)")
    _execute(empty_url, "CREATE INDEX ix_orders_customer ON orders (customer)")
    assert migrate.check(empty_url) == []


def test_a_revision_from_the_future_is_reported(empty_url: str) -> None:
    migrate.upgrade(empty_url)
    table = table_of("sqlite" if empty_url.startswith("sqlite") else "postgresql")
    _execute(empty_url, f"UPDATE {table} SET version_num = '9999'")
    (line,) = migrate.check(empty_url)
    assert "9999" in line
    with pytest.raises(ConfigError, match="9999"):
        migrate.upgrade(empty_url)


def test_head_names_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(migrate._config()).get_heads() == [migrate.HEAD]


def test_every_constraint_and_index_has_a_name() -> None:
    for table in metadata.tables.values():
        for constraint in table.constraints:
            assert constraint.name, (table.name, constraint)
        for index in table.indexes:
            assert index.name, (table.name, index)


def test_a_revision_does_not_go_back() -> None:
    script = ScriptDirectory.from_config(migrate._config())
    for revision in script.walk_revisions():
        with pytest.raises(NotImplementedError, match="backup"):
            revision.module.downgrade()


def test_of_many_upgrades_at_once_one_does_the_work(empty_url: str, tmp_path: Path) -> None:
    program = "import sys; from noetl.store import migrate; print(migrate.upgrade(sys.argv[1]))"
    (tmp_path / "upgrading.py").write_text(program)
    processes = [
        zygote.Popen(["upgrading", empty_url], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = sorted(process.communicate()[0].strip() for process in processes)
    assert said == ["False", "False", "True"]
    assert migrate.check(empty_url) == []


def test_a_store_without_tables_says_what_to_do(empty_url: str) -> None:
    store = open_store(empty_url)
    with pytest.raises(Unavailable, match="noetl db upgrade"), store.read() as tx:
        tx.executions.get("1")
    store.close()


def test_a_first_sqlite_database_takes_no_alembic(tmp_path: Path) -> None:
    program = (
        "import sys; from noetl.store import migrate; "
        f"migrate.upgrade('sqlite:///{tmp_path}/x.sqlite'); "
        f"migrate.upgrade('sqlite:///{tmp_path}/x.sqlite'); print('alembic' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"


def test_a_store_in_memory_needs_no_upgrade() -> None:
    assert not migrate.upgrade("memory://")
    assert migrate.check("memory://") == []
    assert migrate.current("memory://") == migrate.HEAD


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:", "not a url", ""])
def test_other_databases_are_a_wrong_setting(url: str) -> None:
    with pytest.raises(ConfigError):
        open_store(url)
