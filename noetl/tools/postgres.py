"""The tool `postgres`: statements on a PostgreSQL server, each in its own transaction unless told otherwise."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.large import shelf_of
from noetl.tools.postgres_errors import Faults
from noetl.tools.postgres_work import Order, Work
from noetl.tools.sql_calls import Running
from noetl.tools.sql_config import NAMES, WORK, SqlConfig
from noetl.tools.sql_rows import write_of
from noetl.tools.sql_values import Bounds
from noetl.tools.vault import postgres_dsn

if TYPE_CHECKING:
    from psycopg2 import extensions

    from noetl.tools.postgres_pool import Pool

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
_NOTICES = 20
_CONNECTION = ("host", "port", "user", "password", "database", "db", "dsn", "url")


class PostgresConfig(SqlConfig):
    """What to do, and where: a credential (`auth`) or explicit fields, which win over it."""

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
    exactly_once: bool = Field(
        default=False,
        description="Commit the effect together with an entry in the table `noetl_ledger`, so that a call that is made again returns what the first one did.",
    )


class Postgres(Tool):
    """Runs SQL on PostgreSQL. Connections are pooled for each worker process and credential."""

    kind = "postgres"
    queue = "postgres"
    effects = "external"
    description = "Runs SQL on PostgreSQL and yields {rows, row_count, columns, command_0, ...}."
    config_model: ClassVar[type[ToolConfig]] = PostgresConfig
    required = (WORK,)
    verbatim_with_params = NAMES
    by_reference = ("rows",)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._lock = threading.Lock()
        self._pool: Pool | None = None
        self._running = Running()

    def run(self, call: Call, config: PostgresConfig) -> Outcome:
        order = Order(
            call,
            config.bound(),
            write_of(config, self.services.results),
            config.transaction,
            config.exactly_once,
            Bounds(self.services.result_limit, set(), shelf_of(call, self.services)),
            call.deadline_s or DEADLINE_S,
        )
        order.check()
        settings = settings_of(config, self.services.credential)
        faults = Faults(order.bound, config.is_one_text, settings.get("password", ""), order.deadline_s)
        # Imported here: the driver takes 50 ms, and the compiler reads this module without calling it.
        import psycopg2

        with self._running.enter(call) as stop, contextlib.ExitStack() as stack:
            work = Work(order, faults, stop)
            try:
                connection = stack.enter_context(self._connected().lend(settings, order.deadline_s))
            except psycopg2.Error as error:
                raise faults.unreachable(error) from error
            failure, result = work.attempt(connection)
            notices = [str(notice).strip() for notice in connection.notices[-_NOTICES:]]
        if failure is not None:
            raise failure
        return _outcome(order, work, result, notices)

    @contextlib.contextmanager
    def lend(
        self, auth: str | dict[str, Json], seconds: float
    ) -> Iterator[tuple[extensions.connection, Faults]]:
        """A pooled connection whose statements end after so many seconds, and what explains its errors. Raises ToolError."""
        import psycopg2  # see `run`

        settings = settings_of(PostgresConfig(auth=auth), self.services.credential)
        faults = Faults((), False, settings.get("password", ""), seconds)
        with contextlib.ExitStack() as stack:
            try:
                connection = stack.enter_context(self._connected().lend(settings, seconds))
            except psycopg2.Error as error:
                raise faults.unreachable(error) from error
            yield connection, faults

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)

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


def _outcome(order: Order, work: Work, result: dict[str, Json], notices: list[str]) -> Outcome:
    warnings = sorted(order.bounds.notes) + (order.write.warnings() if order.write else [])
    meta: dict[str, Json] = {"notices": notices} if notices else {}
    if warnings:
        meta["warnings"] = warnings
    about: dict[str, Json] = {"statements": len(order.bound)}
    if order.once:
        about["repeated"] = work.repeated
    return succeeded(result, meta, pg=about)


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
