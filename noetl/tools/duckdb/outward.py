"""What DuckDB reaches outside of its database: statements that need permission for it, and attached
databases of PostgreSQL and SQLite."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.sql.dsn import postgres_dsn
from noetl.tools.sql.files import refuse_engine_file
from noetl.tools.sql.rows import quote, quote_text
from noetl.tools.sql.text import BoundStatement, tokens

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Type of a database → DuckDB's extension for it.
_EXTENSIONS = {"postgres": "postgres_scanner", "sqlite": "sqlite_scanner"}
_KEYS = ("type", "auth", "database", "read_only")
#: Fields of a credential for a server.
_SERVER_KEYS = {"host", "db_host", "hostname", "dsn", "url"}
#: Beginnings of statements that reach for other databases, the network and DuckDB's extensions.
_OUTWARD: Final = (["attach"], ["load"], ["install"], ["force", "install"], ["update", "extensions"])
#: Words of a statement that say what it is: `CREATE OR REPLACE TEMPORARY SECRET`.
_LONGEST_BEGINNING: Final = 5
#: Functions that write logs of DuckDB's own. Of a file that it may not write it learns when it
#: closes, and ends the process.
_LOGS: Final = frozenset({"enable_logging"})
#: Settings that name files, which not every DuckDB holds to its confinement.
_SETTINGS: Final = frozenset(
    {
        *("logging_storage", "log_query_path", "http_logging_output", "profiling_output", "profile_output"),
        *("secret_directory", "extension_directory", "temp_directory"),
    }
)
_SETS: Final = frozenset({"set", "pragma", "reset", "call", "explain", "prepare"})


@dataclass(frozen=True, slots=True)
class AttachedDatabase:
    """One database: `source` is a connection string or a path, and may hold a password."""

    alias: str
    type: str
    source: str
    read_only: bool

    @property
    def statement(self) -> str:
        mode = ", READ_ONLY" if self.read_only else ""
        return f"ATTACH {quote_text(self.source)} AS {quote(self.alias)} (TYPE {self.type}{mode})"


def attach(
    connection: DuckDBPyConnection,
    wanted: Mapping[str, str | Mapping[str, Json]],
    services: Services,
    policy: FilePolicy,
) -> None:
    """Attaches every database of `wanted`. Raises ToolError, also where an extension is not
    installed."""
    import duckdb  # see `DatabaseSetup`

    for alias, given in wanted.items():
        one = describe(alias, given, services, policy)
        _load(connection, one)
        try:
            connection.execute(one.statement)
        except duckdb.Error as error:
            # The message is left out: it may quote the connection string, and with it the password.
            raise ToolError(
                "connection",
                f"`attach.{alias}`: the {one.type} database cannot be attached; check its "
                "credential or path.",
                retryable=one.type == "postgres",
                type=type(error).__name__,
            ) from None


def _load(connection: DuckDBPyConnection, one: AttachedDatabase) -> None:
    import duckdb  # see `DatabaseSetup`

    extension = _EXTENSIONS[one.type]
    packaged = _find_packaged(extension)
    try:
        connection.execute(f"LOAD {extension}" if packaged is None else f"LOAD {quote_text(packaged)}")
    except duckdb.Error as error:
        package = f"duckdb-extension-{extension.replace('_', '-')}"
        raise ToolError(
            "client_error",
            f"`attach.{one.alias}` needs DuckDB's extension {extension} for version "
            f"{duckdb.__version__}, which is not "
            f"installed on this worker: install it there (pip install {package}, or INSTALL "
            f"{extension}), or read the rows "
            f"with a {one.type} or transfer task and hand them over in `tables`.",
            type="ExtensionMissing",
        ) from error


def _find_packaged(extension: str) -> Path | None:
    """The extension as a package of Python brings it, where there is one for this DuckDB."""
    import duckdb  # see `DatabaseSetup`

    found = importlib.util.find_spec(f"duckdb_extension_{extension}")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent / "extensions" / f"v{duckdb.__version__}"
    path = folder / f"{extension}.duckdb_extension"
    return path if path.is_file() else None


def describe(
    alias: str, given: str | Mapping[str, Json], services: Services, policy: FilePolicy
) -> AttachedDatabase:
    """What to attach. Raises ToolError(client_error) for what cannot be understood, ToolError(auth)
    for a credential that is unknown or incomplete."""
    config: Mapping[str, Json] = {"auth": given} if isinstance(given, str) else given
    unknown = next((key for key in config if key not in _KEYS), None)
    if unknown is not None:
        raise _unusable(alias, f"'{unknown}' means nothing; there are {', '.join(_KEYS)}")
    auth = config.get("auth")
    data = dict(services.credential(auth)) if isinstance(auth, str) else dict(auth or {})
    is_server = "database" not in config and bool(_SERVER_KEYS & data.keys())
    kind = config.get("type") or ("postgres" if is_server else "sqlite")
    if kind not in _EXTENSIONS:
        raise _unusable(alias, "`type` is postgres or sqlite")
    read_only = config.get("read_only", True)
    if not isinstance(read_only, bool):
        raise _unusable(alias, "`read_only` is true or false")
    if kind == "postgres":
        from psycopg2.extensions import make_dsn  # the driver takes 50 ms

        source = make_dsn(**postgres_dsn(data))
    else:
        source = _find_sqlite(alias, config, data, policy)
    return AttachedDatabase(alias, str(kind), source, read_only)


def _unusable(alias: str, why: str) -> ToolError:
    return ToolError("client_error", f"`attach.{alias}` cannot be used: {why}.", type="BadAttach")


def _find_sqlite(alias: str, config: Mapping[str, Json], data: Mapping[str, Json], policy: FilePolicy) -> str:
    name = config.get("database") or data.get("database") or data.get("path")
    if not isinstance(name, str):
        raise _unusable(alias, "name the file in `database`")
    path = policy.path(name, f"`attach.{alias}.database`")
    if not path.is_file():
        raise _unusable(alias, f"there is no file {path}")
    refuse_engine_file(path)
    return str(path)


def outward(bounds: Sequence[BoundStatement]) -> int:
    """How many statements at the beginning reach outward, or say with which secret: they run before
    the confinement."""
    begun = map(_begin, bounds)
    return sum(1 for _ in takewhile(_is_outward_or_secret, begun))


def _begin(bound: BoundStatement) -> list[str]:
    return bound.statement.words[:_LONGEST_BEGINNING]


def _is_outward(begun: list[str]) -> bool:
    return any(begun[: len(one)] == one for one in _OUTWARD)


def _is_outward_or_secret(begun: list[str]) -> bool:
    return _is_outward(begun) or (begun[:1] == ["create"] and "secret" in begun)


def refuse_outward(bounds: Sequence[BoundStatement]) -> None:
    """Raises ToolError(client_error) for a statement that needs `allow_external`."""
    for bound in bounds:
        begun = _begin(bound)
        if _is_outward(begun):
            raise ToolError(
                "client_error",
                f"{begun[0].upper()} reaches out of this database: set `allow_external: true`, "
                "or open another database "
                "with `attach`.",
                line=bound.statement.line,
                type="NotAllowed",
            )


def refuse_files_of_its_own(bounds: Sequence[BoundStatement]) -> None:
    """Raises ToolError(client_error) for logs and settings by which DuckDB itself would write
    files."""
    for bound in bounds:
        refused = _LOGS | _SETTINGS if _SETS.intersection(_begin(bound)[:1]) else _LOGS
        names = (one.text.strip("\"'").lower() for one in tokens(bound.dollar()))
        found = next((name for name in names if name in refused), None)
        if found is not None:
            raise ToolError(
                "client_error",
                f"`{found}` writes files of DuckDB's own, which no task may; leave it out.",
                line=bound.statement.line,
                type="NotAllowed",
            )
