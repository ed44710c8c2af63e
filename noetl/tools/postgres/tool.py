"""The tool `postgres`: statements on a PostgreSQL server, each in its own transaction unless told
otherwise."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.net.model import Spelling
from noetl.pipeline.model import Call
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services
from noetl.tools.kit.declaration import ToolDeclaration
from noetl.tools.postgres.attempt import PostgresAttempt, refuse_programs
from noetl.tools.postgres.errors import PostgresErrors
from noetl.tools.postgres.write import refuse_endings
from noetl.tools.sql.calls import SqlTool
from noetl.tools.sql.config import NAMES, WORK, SqlConfig, WrittenSql, describe_sql
from noetl.tools.sql.dsn import postgres_dsn
from noetl.tools.sql.reading import postgres_reads
from noetl.tools.sql.syntax import postgres_fault
from noetl.tools.sql.text import BoundStatement

if TYPE_CHECKING:
    from psycopg2 import extensions

    from noetl.tools.postgres.pool import ConnectionPool

_NOTICES = 20
_CONNECTION = ("host", "port", "user", "password", "database", "db", "dsn", "url")


class PostgresConfig(SqlConfig):
    """What to do, and where: a credential (`auth`) or explicit fields, which win over it."""

    auth: str | dict[str, Json] | None = Field(
        default=None, description="Name of a credential, `{credential: name}`, or its fields."
    )
    host: str | None = Field(default=None, description="Server, or directory of its socket.")
    port: int | None = Field(default=None, description="Port of the server.")
    user: str | None = Field(default=None, description="Role to connect as.")
    password: str | None = Field(default=None, description="Password of the role.", repr=False)
    database: str | None = Field(default=None, description="Database to connect to.")
    db: str | None = Field(default=None, description="The same as `database`.")
    dsn: str | None = Field(
        default=None, description="`postgresql://user:password@host:port/database`.", repr=False
    )
    url: str | None = Field(default=None, description="The same as `dsn`.", repr=False)
    exactly_once: bool = Field(
        default=False,
        description="Commit the effect together with an entry in the table `noetl_ledger`, so that a call "
        "that is made again returns what the first one did: see [exactly once](#exactly-once).",
    )


class Postgres(SqlTool):
    """Runs SQL on a PostgreSQL server, or writes [rows into a
    table](../tools.md#rows-into-a-table). Connections are pooled for each worker process and
    credential; fields win over the credential.

    With `params` the SQL is handed over as written and values are bound, never pasted; `::` casts
    are left alone. Without `params` it is a template: what it inserts becomes part of the
    statement, and `validate` warns where a value is meant. With `params` and `spec.render: true` it
    is both: the name of a table may be a template, and values are bound. Mappings and nested lists
    are sent as JSON, lists of scalars as arrays. Each statement is a transaction by itself unless
    `transaction` or `exactly_once` says otherwise.

    `script` as a mapping says where the SQL stands: `{file: make.sql}`, `{ref: ...}` or `{url: ...,
    sha256: ...}`, as for [python](python.md). The file is found by [the rule for
    files](../operations.md#files), its text takes the place of `command`, is handed over as
    written, and is rendered with `spec.render: true`. A text or a list under `script` is SQL.

    Rows with more text than the inline limit (`spec.result.inline_bytes`, else
    `NOETL_INLINE_BYTES`) never are a list in the worker: they become a Parquet table of the result
    store, and `rows` is the reference to it; `row_count` and `columns` stay readable. What
    templates read from it is the same as from a small answer. Statements that only ask for rows are
    copied (`COPY ... TO STDOUT`), run once, and keep the types of PostgreSQL; arrays and the like
    become JSON, intervals text. Instants are in UTC there.

    `numeric` keeps its digits, in rows and in parameters: python code gets a `Decimal`, or an `int`
    where its column has no point. `types` are those of the columns, by the names of DuckDB
    (`DECIMAL(38,2)`), however many rows there are. NaN and infinity become null, with a warning
    that names the column; infinite dates and instants stay texts (`infinity`). Rows
    that are written into a column of floats which makes another number of an exact one get a
    warning that names row and column.

    A document that is `null` is null in `rows`, as NULL is, and written as NULL; inside of
    documents it stays what it is. Where the two differ, read `j::text`, and write with
    `coalesce(..., 'null')` in SQL.

    `COPY ... PROGRAM` is refused, also in the body of a routine. What a routine puts together while
    it runs is the server's to refuse: connect as a role that is no superuser and not in
    `pg_execute_server_program`.

    ## Exactly once

    A worker that dies may have done its work without having reported it, and the task runs again.
    With `exactly_once: true` all statements (or rows) run in one transaction of the user's
    database, together with an entry under the call's idempotency key. A call that is made again
    finds the entry and returns the result that the first one had; `outcome.pg.repeated` is then
    true. A call that is made twice at the same time waits for the other. Attempts after a failure
    are the same call; each iteration of a loop, each visit by `jump`, and each repetition after a
    success (polling) is another one.

    The table `noetl_ledger` is made on first use in the first schema of the search path: the role
    must be allowed to, or somebody makes it: `CREATE TABLE noetl_ledger (idempotency_key text
    PRIMARY KEY, result json, execution_id text NOT NULL, step text NOT NULL, task text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now())`. Entries are never deleted; those of executions
    that have ended may be. Statements that begin or end a transaction are refused, and those that
    cannot run in one fail. What a statement does outside of the database happens as often as it is
    made."""

    declaration = ToolDeclaration(
        kind="postgres",
        queue="postgres",
        sections=("pg",),
        effects="external",
        description="Runs SQL on PostgreSQL and yields {rows, row_count, columns, command_0, ...}.",
        result="""
            `{rows, row_count, columns, types, command_0, command_1, ...}`. `rows` are mappings, `types` those
            of the columns, in their order, by DuckDB's names (`DECIMAL(12,2)`, `TIMESTAMPTZ`), however many
            rows there are. Each statement's answer is `command_<n>`; the top level is the last one's. Numbers
            are numbers, `numeric` with all digits (in a column without a scale all have as many behind the
            point), times and intervals ISO 8601 texts, `jsonb` is JSON, bytes are base64.
            Where two columns differ only by case, and where there is no store, more than 1,000,000 rows or
            more text than a result may have are a `limit` error.
        """,
        errors="""
            They are of kind `sql`, `connection`, `auth` or `timeout`; `outcome.pg` holds `{sqlstate,
            severity, position, detail, hint, statement_index, statement}`, and the error names the line in
            the playbook. Lost connections, serialization failures and deadlocks are retryable.
        """,
        example="""
            - step: load
              tool:
                kind: postgres
                auth: warehouse
                params: {day: "{{ workload.day }}", rows: "{{ workload.rows }}"}
                command: |
                  DELETE FROM readings WHERE day = :day;
                  INSERT INTO readings SELECT * FROM jsonb_populate_recordset(NULL::readings, :rows::jsonb)
              next: end
            - step: end
              tool: {kind: noop, input: {loaded: "{{ load.row_count }}"}}
        """,
        config_model=PostgresConfig,
        spellings={"pool": Spelling(warning="connections are pooled for each worker and credential")},
        written_model=WrittenSql,
        required=(WORK,),
        verbatim_with_params=NAMES,
        source_files=("script",),
        by_reference=("rows",),
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._lock = threading.Lock()
        self._pool: ConnectionPool | None = None

    def run(self, call: Call, config: PostgresConfig) -> Outcome:
        order = self.sql_call(call, config)
        refuse_programs(order.bound)
        if config.exactly_once:
            refuse_endings(order.bound)
        with (
            self.running.enter(call) as stop,
            self._lend(config, order.deadline_s, order.bound, order.has_lines) as (connection, faults),
        ):
            attempt = PostgresAttempt(order, config.exactly_once, faults, stop)
            failure, result = attempt.attempt(connection)
            notices = [str(notice).strip() for notice in connection.notices[-_NOTICES:]]
        if failure is not None:
            raise failure
        about: dict[str, Json] = {"statements": len(order.bound)}
        if config.exactly_once:
            about["repeated"] = attempt.repeated
        return order.outcome(result, {"notices": notices} if notices else {}, pg=about)

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:
        return postgres_fault(text, with_params)

    @classmethod
    def only_asks(cls, text: str, with_params: bool) -> bool:
        return postgres_reads(text, with_params)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        place = effects.credential(config.get("auth"))
        if place is None:
            at = effects.first(config, "dsn", "url", "host")
            database = effects.first(config, "database", "db")
            place = effects.address("/".join(str(part) for part in (at, database) if part is not None))
        return describe_sql(config, place or "a PostgreSQL server")

    def lend(
        self, auth: str | dict[str, Json], seconds: float
    ) -> AbstractContextManager[tuple[extensions.connection, PostgresErrors]]:
        """A pooled connection whose statements end after so many seconds, and what explains its
        errors. Raises ToolError."""
        return self._lend(PostgresConfig(auth=auth), seconds)

    @contextlib.contextmanager
    def _lend(
        self,
        config: PostgresConfig,
        seconds: float,
        bound: Sequence[BoundStatement] = (),
        has_lines: bool = False,
    ) -> Iterator[tuple[extensions.connection, PostgresErrors]]:
        # Imported here: the driver takes 50 ms, and the compiler reads this module without calling
        # it.
        import psycopg2

        settings = settings_of(config, self.services.credential)
        faults = PostgresErrors(settings.get("password", ""), seconds, bound, has_lines)
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(self._open_pool().lend(settings, seconds))
            except psycopg2.Error as error:
                raise faults.unreachable(error) from error
            yield connection, faults

    def close(self) -> None:
        super().close()
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _open_pool(self) -> ConnectionPool:
        from noetl.tools.postgres.pool import ConnectionPool  # imports the driver, see `_lend`

        with self._lock:
            self._pool = self._pool or ConnectionPool()
            return self._pool


def settings_of(config: PostgresConfig, credential: Callable[[str], Mapping[str, Json]]) -> dict[str, str]:
    """Keyword arguments for the driver. Raises ToolError(auth) where the server is not named."""
    data: dict[str, Json] = {}
    match config.auth:
        case str(name):
            data = dict(credential(name))
        case {"credential": name, **rest}:
            data = {**credential(str(name)), **{str(field): value for field, value in rest.items()}}
        case None:
            pass
        case fields:
            data = dict(fields)
    explicit = {name: value for name in _CONNECTION if (value := getattr(config, name)) is not None}
    if not data and not explicit:
        raise ToolError(
            "auth",
            "The postgres task says nowhere to connect to; name a credential in `auth`, or give "
            "`dsn` or `host`.",
        )
    return postgres_dsn({**data, **explicit})
