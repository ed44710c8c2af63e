"""What the database itself refuses, whoever asks it: a row of the log is neither changed nor
deleted.

They are triggers of rows, so that what is written behind the head costs nothing more. A TRUNCATE is
not refused, nor what SQLite does by `INSERT OR REPLACE`.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import DDL, Connection, Table, event, text

_REFUSAL: Final = "events are append-only: a row of the log is neither changed nor deleted"
#: By the word of what each refuses.
_TRIGGERS: Final = {"UPDATE": "event_refuses_update", "DELETE": "event_refuses_delete"}
_FUNCTION: Final = f"""\
CREATE OR REPLACE FUNCTION refuse_change_of_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '{_REFUSAL}' USING ERRCODE = 'integrity_constraint_violation';
END $$"""
#: Those of the log that refuse something now.
_AT_WORK: Final = {
    "sqlite": text("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'event'"),
    "postgresql": text(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass('event') AND tgenabled IN ('O', 'A')"
    ),
}


def refuse_changes(log: Table) -> None:
    """Gives the table its triggers wherever it is created."""
    _create(log, "postgresql", _FUNCTION)
    for word, name in _TRIGGERS.items():
        head = f"CREATE TRIGGER {name} BEFORE {word} ON event"
        _create(log, "sqlite", f"{head} BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END")
        _create(log, "postgresql", f"{head} FOR EACH ROW EXECUTE FUNCTION refuse_change_of_event()")


def _create(log: Table, dialect: str, statement: str) -> None:
    ddl = DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
    event.listen(log, "after_create", ddl)


def find_missing(connection: Connection) -> list[str]:
    """The triggers that are not there, or are turned off."""
    at_work = set(connection.scalars(_AT_WORK[connection.dialect.name]))
    return [name for name in _TRIGGERS.values() if name not in at_work]
