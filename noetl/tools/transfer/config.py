"""The configuration of the tool `transfer`: where rows come from, and where they go."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from noetl.facts.json import Json
from noetl.tools.duckdb.csv_files import Encoding
from noetl.tools.kit.declaration import ToolConfig

Format: TypeAlias = Literal["parquet", "csv", "ndjson", "json"]


class _Query(ToolConfig):
    """A query, or a table as a whole."""

    query: str | None = Field(default=None, description="SQL whose rows are taken.")
    table: str | None = Field(default=None, description="Table that is taken as a whole, instead of `query`.")

    @model_validator(mode="after")
    def _one(self) -> _Query:
        if (self.query is None) == (self.table is None):
            raise ValueError("give either `query` or `table`")
        return self


class PostgresSource(_Query):
    """Rows of PostgreSQL."""

    kind: Literal["postgres"]
    auth: str | dict[str, Json] = Field(description="Name of a credential, or its fields.", repr=False)


class DuckDbSource(_Query):
    """Rows of a DuckDB file."""

    kind: Literal["duckdb"]
    database: str = Field(description="Database file.")


class SqliteSource(_Query):
    """Rows of an SQLite file."""

    kind: Literal["sqlite"]
    database: str = Field(description="Database file.")


class HttpSource(ToolConfig):
    """Rows in the JSON that a URL answers with."""

    kind: Literal["http"]
    url: str = Field(description="What is asked for, with GET.")
    method: Literal["GET", "get"] = Field(default="GET", description="May be said; there is no other.")
    path: str = Field(
        default="",
        description="Where in the answer the rows are: `data.items`; the answer itself by default.",
    )
    headers: dict[str, Json] = Field(default_factory=dict, description="Headers of the request.", repr=False)
    auth: Json = Field(default=None, description="As of the http tool.", repr=False)


class FileSource(ToolConfig):
    """Rows of a file."""

    kind: Literal["file"]
    file: str = Field(description="A file, from the playbook's directory on.")
    format: Format | None = Field(default=None, description="What the file is, where its name does not tell.")
    encoding: Encoding = Field(default="utf-8", description="How the text of a CSV file is written.")
    on_bad_line: Literal["fail", "skip"] = Field(
        default="fail",
        description="What becomes of a line of a CSV file that cannot be read: the task fails and names it, "
        "or it is left out with a warning.",
    )


class ResultSource(ToolConfig):
    """Rows of a result."""

    kind: Literal["result"]
    ref: Json = Field(
        description="A reference to rows, a list of mappings, or a SQL task's result.", repr=False
    )


class _Table(ToolConfig):
    """A table, and how rows get into it."""

    table: str = Field(description="Table that the rows go to.")
    mode: Literal["append", "replace", "upsert"] = Field(
        default="append",
        description="Whether rows are added, come in the place of all others, or change those with the same "
        "`key`.",
    )
    key: str | list[str] | None = Field(
        default=None, description="Columns of a unique constraint, for `mode: upsert`."
    )
    create: bool = Field(default=False, description="Make the table where it is missing.")

    @model_validator(mode="after")
    def _key(self) -> _Table:
        if self.mode == "upsert" and not self.key:
            raise ValueError("`mode: upsert` needs `key`, the columns of a unique constraint")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """`key` as column names."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key or ())


class PostgresTarget(_Table):
    """A table of PostgreSQL."""

    kind: Literal["postgres"]
    auth: str | dict[str, Json] = Field(description="Name of a credential, or its fields.", repr=False)


class DuckDbTarget(_Table):
    """A table of a DuckDB file."""

    kind: Literal["duckdb"]
    database: str = Field(description="Database file.")


class SqliteTarget(_Table):
    """A table of an SQLite file."""

    kind: Literal["sqlite"]
    database: str = Field(description="Database file.")


class FileTarget(ToolConfig):
    """A file, which takes the place of an older one when all of it is there."""

    kind: Literal["file"]
    file: str = Field(description="A file, from the playbook's directory on.")
    format: Literal["parquet", "csv", "ndjson"] | None = Field(
        default=None, description="What the file becomes, where its name does not tell."
    )


class ResultTarget(ToolConfig):
    """A table in the result store."""

    kind: Literal["result"]


Source: TypeAlias = PostgresSource | DuckDbSource | SqliteSource | HttpSource | FileSource | ResultSource
TableTarget: TypeAlias = PostgresTarget | DuckDbTarget | SqliteTarget
Target: TypeAlias = TableTarget | FileTarget | ResultTarget


class TransferConfig(ToolConfig):
    """Where rows come from, where they go, and how many of them go at once."""

    source: Annotated[Source, Field(discriminator="kind")] = Field(
        description="Where rows come from: `kind` is postgres, duckdb, sqlite, http, file or result."
    )
    target: Annotated[Target, Field(discriminator="kind")] = Field(
        description="Where they go: `kind` is postgres, duckdb, sqlite, file or result."
    )
    columns: list[str] | dict[str, str] | None = Field(
        default=None, description="The columns that go, or {column of the target: column of the source}."
    )
    chunk_rows: int = Field(
        default=50_000, ge=1, le=10_000_000, description="Rows that are committed together."
    )
