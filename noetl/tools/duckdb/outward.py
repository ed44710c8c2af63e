"""Statements of DuckDB that reach for other databases, the network and its extensions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from noetl.errors import ToolError
from noetl.tools.sql.text import BoundStatement, tokens

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


def outward(bounds: Sequence[BoundStatement]) -> int:
    """How many statements at the beginning reach outward, or say with which secret: they run before
    the confinement."""
    begun = map(_begin, bounds)
    return sum(1 for _ in takewhile(lambda words: _is_outward(words) or _makes_secret(words), begun))


def _begin(bound: BoundStatement) -> list[str]:
    return bound.statement.words[:_LONGEST_BEGINNING]


def _is_outward(begun: list[str]) -> bool:
    return any(begun[: len(one)] == one for one in _OUTWARD)


def _makes_secret(begun: list[str]) -> bool:
    return begun[:1] == ["create"] and "secret" in begun


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
