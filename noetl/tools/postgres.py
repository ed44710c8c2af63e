"""The tool `postgres`: statements on a PostgreSQL server, each in its own transaction unless told otherwise."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.deadline import Watchdog
from noetl.tools.sql import Bound, Placeholder
from noetl.tools.sql_config import NAMES, SqlConfig
from noetl.tools.sql_programs import refuse_programs
from noetl.tools.sql_values import MAX_ROWS, Answer, as_dicts, result_of, unique_names
from noetl.tools.vault import postgres_dsn

if TYPE_CHECKING:
    from psycopg2 import extensions

    from noetl.tools.postgres_pool import Pool

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
_SHOWN = 200
_NOTICES = 20
_CONNECTION = ("host", "port", "user", "password", "database", "db", "dsn", "url")
#: States that a second try may get past.
_PASSING = frozenset({"40001", "40P01", "55P03"})
_GONE = frozenset({"57P01", "57P02", "57P03", "53300"})
_REFUSED = re.compile(
    r"authentication failed|no pg_hba\.conf entry|role \".*\" does not exist|no password supplied"
)


class PostgresConfig(SqlConfig):
    """SQL, and where to send it: a credential (`auth`) or explicit fields, which win over it."""

    auth: str | dict[str, Json] | None = Field(
        default=None, description="Name of a credential, {credential: name}, or its fields."
    )
    host: str | None = Field(default=None, description="Server, or directory of its socket.")
    port: int | None = Field(default=None, description="Port of the server.")
    user: str | None = Field(default=None, description="Role to connect as.")
    password: str | None = Field(default=None, description="Password of the role.", repr=False)
    database: str | None = Field(default=None, description="Database to connect to.")
    db: str | None = Field(default=None, description="The same as `database`.")
    dsn: str | None = Field(
        default=None, description="postgresql://user:password@host:port/database", repr=False
    )
    url: str | None = Field(default=None, description="The same as `dsn`.", repr=False)
    transaction: bool = Field(default=False, description="Run all statements in one transaction.")


class Postgres(Tool):
    """Runs SQL on PostgreSQL. Connections are pooled for each worker process and credential."""

    kind = "postgres"
    queue = "postgres"
    effects = "external"
    description = "Runs SQL on PostgreSQL and yields {rows, row_count, columns, command_0, ...}."
    config_model: ClassVar[type[ToolConfig]] = PostgresConfig
    required = (NAMES,)
    verbatim_with_params = NAMES

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._lock = threading.Lock()
        self._pool: Pool | None = None

    def run(self, call: Call, config: PostgresConfig) -> Outcome:
        bound = config.bound()
        refuse_programs(bound)
        settings = settings_of(config, self.services.credential)
        work = _Work(bound, config, settings.get("password", ""), call.deadline_s or DEADLINE_S)
        # Imported here: the driver takes 50 ms, and the compiler reads this module without calling it.
        import psycopg2

        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(self._connected().lend(settings, work.deadline_s))
            except psycopg2.Error as error:
                raise work.unreachable(error) from error
            failure, answers = work.attempt(connection)
            notices = [str(notice).strip() for notice in connection.notices[-_NOTICES:]]
        if failure is not None:
            raise failure
        meta: dict[str, Json] = {"notices": notices} if notices else {}
        if work.notes:
            meta["warnings"] = sorted(work.notes)
        return succeeded(result_of(answers), meta, pg={"statements": len(answers)})

    def close(self) -> None:
        with self._lock:
            if self._pool is not None:
                self._pool.close()
                self._pool = None

    def _connected(self) -> Pool:
        from noetl.tools.postgres_pool import Pool  # imports the driver, see `run`

        with self._lock:
            if self._pool is None:
                self._pool = Pool()
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
            "The postgres task says nowhere to connect to; name a credential in `auth`, or give `dsn` or `host`.",
        )
    return {name: str(value) for name, value in postgres_dsn({**data, **explicit}).items()}


class _Work:
    """The statements of one call, and what came of them."""

    def __init__(
        self, bound: Sequence[Bound], config: PostgresConfig, password: str, deadline_s: float
    ) -> None:
        self.bound = bound
        self.deadline_s = deadline_s
        self.notes: set[str] = set()
        self._transaction = config.transaction
        self._has_lines = config.is_one_text
        self._password = password
        self._ends = time.monotonic() + deadline_s

    def attempt(self, connection: extensions.connection) -> tuple[ToolError | None, list[Answer]]:
        """The answers, or the error: returned, so that the connection is given back clean."""
        with Watchdog(self.deadline_s, _cancel(connection)) as dog:
            try:
                answers = self._run_all(connection)
                failure = None
            except ToolError as error:
                answers, failure = [], error
        if dog.fired:
            # A cancel request may still be on its way: it must not meet the next call.
            connection.close()
            return self._late(), []
        return failure, answers

    def _run_all(self, connection: extensions.connection) -> list[Answer]:
        connection.autocommit = not self._transaction
        with connection.cursor() as cursor:
            answers = [self._run(cursor, index, bound) for index, bound in enumerate(self.bound)]
        if self._transaction:
            with self._explained(None, len(self.bound) - 1):
                connection.commit()
        return answers

    def _run(self, cursor: extensions.cursor, index: int, bound: Bound) -> Answer:
        if time.monotonic() > self._ends:
            raise self._late()
        with self._explained(cursor, index):
            if bound.has_values:
                cursor.execute(bound.pyformat(), adapted(bound))
            else:
                cursor.execute(bound.statement.text)
        if cursor.description is None:
            return Answer([], [], max(cursor.rowcount, 0), cursor.statusmessage or "")
        if cursor.rowcount > MAX_ROWS:
            raise ToolError(
                "limit",
                f"{self._place(index)} returned {cursor.rowcount} rows, more than {MAX_ROWS}; add a LIMIT.",
                type="TooManyRows",
            )
        names = unique_names(column.name for column in cursor.description)
        rows = as_dicts(names, cursor.fetchall(), self.notes)
        return Answer(names, rows, len(rows), cursor.statusmessage or "")

    @contextlib.contextmanager
    def _explained(self, cursor: extensions.cursor | None, index: int) -> Iterator[None]:
        import psycopg2  # see `Postgres.run`

        try:
            yield
        except psycopg2.Error as error:
            raise self._error(error, cursor, index) from error
        except ValueError as error:
            # The driver refuses NUL in texts before it sends anything.
            raise ToolError(
                "sql", f"{self._place(index)} cannot be sent: {error}.", type="ValueError"
            ) from error

    def _error(self, error: Any, cursor: extensions.cursor | None, index: int) -> ToolError:
        state = error.pgcode or ""
        bound = self.bound[index]
        offset = _origin(bound, int(error.diag.statement_position or 0), cursor)
        line = bound.statement.line if offset is None else bound.statement.line_at(offset)
        kind, retryable = meaning(state, lost=not state and _is_lost(error))
        primary = self._scrubbed(error.diag.message_primary or str(error))
        extras = {
            "sqlstate": state,
            "severity": error.diag.severity or "",
            "position": None if offset is None else offset + 1,
            "detail": self._scrubbed(error.diag.message_detail or ""),
            "hint": error.diag.message_hint or "",
            "statement_index": index,
            "statement": self._scrubbed(bound.statement.text[:_SHOWN], lines=True),
        }
        return ToolError(
            kind,
            f"{self._place(index)} failed at line {line}: {primary}",
            retryable=retryable,
            type=type(error).__name__,
            line=line if self._has_lines else None,
            extras={"pg": extras},
        )

    def unreachable(self, error: Exception) -> ToolError:
        """Why there is no connection."""
        text = self._scrubbed(str(error))
        name = type(error).__name__
        if _REFUSED.search(str(error)):
            return ToolError("auth", f"PostgreSQL refused the login: {text}", type=name)
        known = getattr(error, "pgcode", None) or ("3D000" if "does not exist" in text else "")
        if known and not known.startswith(("08", "57", "53")):
            return ToolError("sql", f"PostgreSQL refused the connection: {text}", type=name)
        return ToolError("connection", f"PostgreSQL cannot be reached: {text}", retryable=True, type=name)

    def _late(self) -> ToolError:
        return ToolError(
            "timeout",
            f"The command did not end within {self.deadline_s:g} s and was cancelled; raise `spec.timeout`.",
            retryable=True,
            type="QueryCanceled",
            extras={"pg": {"sqlstate": "57014"}},
        )

    def _place(self, index: int) -> str:
        return f"Statement {index + 1} of {len(self.bound)}" if len(self.bound) > 1 else "The statement"

    def _scrubbed(self, text: str, lines: bool = False) -> str:
        """The first line of what the server said, never with the password in it."""
        first = text if lines else (text.strip().splitlines() or [""])[0]
        return first.replace(self._password, "***") if len(self._password) > 3 else first


def _is_lost(error: Exception) -> bool:
    """Whether an error without a SQLSTATE came from the connection, not from what the driver was given."""
    import psycopg2  # see `Postgres.run`

    mine = (psycopg2.ProgrammingError, psycopg2.DataError, psycopg2.NotSupportedError)
    return not isinstance(error, mine)


def _cancel(connection: extensions.connection) -> Callable[[], None]:
    import psycopg2  # see `Postgres.run`

    def cancel() -> None:
        # A connection that is gone needs no cancelling.
        with contextlib.suppress(psycopg2.Error):
            connection.cancel()

    return cancel


def adapted(bound: Bound) -> dict[str, Any]:
    """Values as the driver takes them: mappings as JSON, lists of scalars as arrays, unless cast to JSON."""
    from psycopg2.extras import Json as AsJson  # see `Postgres.run`

    as_json = {piece.key for piece in bound.pieces if isinstance(piece, Placeholder) and piece.is_json}

    def adapt(key: str, value: Json) -> Any:
        cast = key in as_json and value is not None and not isinstance(value, str)
        nested = isinstance(value, list) and any(isinstance(item, list | Mapping) for item in value)
        if cast or nested or isinstance(value, Mapping):
            return AsJson(value, dumps=_dumps)
        return value

    return {key: adapt(key, value) for key, value in bound.values.items()}


def _dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def meaning(state: str, *, lost: bool = False) -> tuple[str, bool]:
    """What a SQLSTATE means: (error kind, worth another try). `lost`: the connection broke."""
    if lost or state.startswith("08") or state in _GONE:
        return "connection", True
    if state == "57014":
        return "timeout", True
    if state.startswith("28"):
        return "auth", False
    return "sql", state in _PASSING


def _origin(bound: Bound, position: int, cursor: extensions.cursor | None) -> int | None:
    """Where in the statement as written the server's `position` (from 1, in the text sent) lies."""
    if position <= 0 or cursor is None:
        return None
    if not bound.has_values:
        return position - 1
    values, sent, written = adapted(bound), 0, 0
    for piece in bound.pieces:
        if isinstance(piece, str):
            length = source = len(piece)
        else:
            length = len(cursor.mogrify("%s", (values[piece.key],)).decode("utf-8", "replace"))
            source = len(piece.source)
        if position - 1 < sent + length:
            return written + (position - 1 - sent if isinstance(piece, str) else 0)
        sent, written = sent + length, written + source
    return written
