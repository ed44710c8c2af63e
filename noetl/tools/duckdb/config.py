"""The configuration of the tool `duckdb`."""

from __future__ import annotations

from pydantic import Field

from noetl.facts.json import Json
from noetl.tools.sql.config import SqlConfig
from noetl.tools.sql.files import MEMORY


class DuckDbConfig(SqlConfig):
    """SQL, the database that it runs in, and the files that it may touch."""

    database: str = Field(default=MEMORY, description="Database file; in memory for this task by default.")
    read_only: bool = Field(default=False, description="Open the database file for reading only.")
    files: str | list[str] = Field(
        default_factory=list,
        description="Files and directories that SQL may reach by names that it computes, and with `allow_external` hosts; names in its text need none.",
    )
    allow_external: bool = Field(
        default=False,
        description="Let SQL reach the network, extensions and other databases, and change settings.",
    )
    tables: dict[str, Json] = Field(
        default_factory=dict,
        description="Temporary tables from rows: {name: [{column: value}]}, a SQL task's result, or a reference to a result; Parquet, CSV and NDJSON are read where they lie.",
    )
    attach: dict[str, str | dict[str, Json]] = Field(
        default_factory=dict,
        description="Other databases: {alias: credential} or {alias: {type: postgres|sqlite, auth, database, read_only}}.",
    )
    memory_limit: str = Field(
        default="1GB", description="Memory of the database.", pattern=r"^\d+(\.\d+)? ?[KMGkmg]i?[Bb]$"
    )
    threads: int = Field(default=2, ge=1, le=256, description="Threads of the database.")
