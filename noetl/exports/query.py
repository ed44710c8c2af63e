"""A person's question in SQL: the tables that it names are filled, and DuckDB answers.

The database is a file that goes with the answer. It is opened for reads, without access to anything
outside of it.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb

from noetl.errors import BadRequest
from noetl.exports.parts import PLAIN_TYPES, Drafts, PartDraft, create, read
from noetl.facts import json
from noetl.projection.rows import ProjectionRow
from noetl.projection.tables import TABLES
from noetl.usecases.export import ExportedBefore, rows
from noetl.usecases.runtime import Runtime

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FETCH: Final = 10_000
_WORD: Final = re.compile(r"\w+")
#: Nothing outside of the database: no file, no network, no extension.
_ALONE: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """`rows` come as they are read: instants as `datetime` in UTC, without a zone, JSON as what it
    stands for."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def answer_query(rt: Runtime, query: str, last: int | None = None) -> Iterator[QueryAnswer]:
    """The answer, good while the block runs. `last` looks at the newest executions only. Raises
    BadRequest where the query is no single statement, or DuckDB refuses it."""
    named = tables_of(query)
    with tempfile.TemporaryDirectory(prefix="noetl-sql-") as folder:
        file = Path(folder, "log.duckdb")
        _fill(rt, file, named, last)
        with closing(_connect(str(file), read_only=True)) as connection, _translate_errors():
            cursor = connection.execute(query)
            described = cursor.description or []
            parsed = [str(column[1]) == "JSON" for column in described]
            yield QueryAnswer([column[0] for column in described], _fetch(cursor, parsed))


def tables_of(query: str) -> set[str]:
    """The tables of ours that `query` names, wherever a word of it is one. Raises BadRequest where
    DuckDB does not understand the query, before anything is read."""
    with closing(_connect()) as connection, _translate_errors():
        for table in TABLES.values():
            connection.execute(create(table))
        statements = connection.extract_statements(query)
        if len(statements) != 1:
            raise BadRequest("The query must be one statement; ask them one after the other.")
        if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            raise BadRequest(f"The log is read-only: it answers SELECT, and no {statements[0].type.name}.")
        connection.sql(query)  # understood, and not run before somebody fetches
    return {word.lower() for word in _WORD.findall(query)} & set(TABLES)


def _connect(file: str = ":memory:", *, read_only: bool = False) -> DuckDBPyConnection:
    return duckdb.connect(file, read_only=read_only, config=dict(_ALONE))


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        # Its first line says what, the others where, and what may have been meant.
        raise BadRequest(f"The query failed: {str(error).strip()}") from error


def _fill(rt: Runtime, file: Path, named: set[str], last: int | None) -> None:
    with closing(duckdb.connect(str(file), config={"threads": 1})) as connection:
        for table in TABLES.values():
            connection.execute(create(table))

        def insert(draft: PartDraft) -> None:
            source = read(draft.table, draft.path, draft.longest, PLAIN_TYPES)
            connection.execute(f'INSERT INTO "{draft.table.name}" FROM {source}')

        drafts = Drafts(file.parent, named, insert)
        with closing(drafts):
            for item in rows(rt, named, ExportedBefore(), last):
                if isinstance(item, ProjectionRow):
                    drafts.add(item)
            drafts.finish()


def _fetch(cursor: DuckDBPyConnection, parsed: Sequence[bool]) -> Iterator[tuple[Any, ...]]:
    while found := cursor.fetchmany(_FETCH):
        for row in found:
            yield tuple(
                json.loads_exactly(value) if is_json and isinstance(value, str) else value
                for value, is_json in zip(row, parsed, strict=True)
            )
