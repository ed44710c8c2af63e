"""An installation of NoETL in a database: which schema of PostgreSQL is its own, and what else
carries the name of that.

Others may have tables in the same database, so NoETL's stand in a schema of their own. It is the
whole `search_path` of every connection (`noetl.store.search_path`): no statement, table or revision
names it. What is of the whole database instead, such as channels and advisory locks, has the schema
in its name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from noetl.errors import ConfigError

#: Where a new installation has its tables, unless it is told otherwise.
DEFAULT: Final = "noetl"
#: What every schema of this server may be called without quotes, and is short enough for a channel.
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Installation:
    """`schema` is empty where the database has none (SQLite)."""

    schema: str
    #: Whether a version made its tables that put no schema into names. Its processes may run beside
    #: ours, and have to meet them at the same channels and locks.
    predates_schemas: bool
    has_tables: bool

    def qualify(self, name: str) -> str:
        """A name that other installations in the same database do not use."""
        if self.predates_schemas:
            return name
        plain = _PLAIN.fullmatch(self.schema) is not None
        return f"{name}_{self.schema if plain else hashlib.sha256(self.schema.encode()).hexdigest()[:40]}"


#: A SQLite file is of one installation.
FILE: Final = Installation("", predates_schemas=True, has_tables=True)


def lock_number(name: str) -> int:
    """What PostgreSQL knows an advisory lock by: a signed number of 64 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)


class Candidate(NamedTuple):
    """A schema with NoETL's tables, as `CANDIDATES` finds it."""

    schema: str
    is_visible: bool
    predates_schemas: bool


class SearchPath(NamedTuple):
    """The schema in which PostgreSQL makes tables, if there is one, and whether the URL of the
    database says so."""

    schema: str | None
    is_of_url: bool


#: At least one row, with the schema in which PostgreSQL makes tables, and a candidate or NULLs.
#: `noetl_version` keeps where its revision was first read: `alembic_version` alone says nothing, as
#: others who use Alembic have one, too.
CANDIDATES: Final = """\
SELECT current_schema(), n.nspname, pg_table_is_visible(c.oid),
  CASE WHEN v.oid IS NULL THEN EXISTS (
    SELECT FROM pg_class WHERE relnamespace = n.oid AND relname = 'alembic_version')
  ELSE EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = v.oid AND attname = 'adopted_from' AND NOT attisdropped)
  END AS predates_schemas
FROM (SELECT) always
LEFT JOIN (pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace)
  ON c.relname = 'execution' AND c.relkind IN ('r', 'p')
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'decided_version')
LEFT JOIN pg_class v ON v.relnamespace = n.oid AND v.relname = 'noetl_version'"""


def show_database(url: str, schema: str = "") -> str:
    """The database for people: without who connects, and without what may hold a password; with the
    schema that the settings name."""
    place = url.rpartition("@")[2].partition("?")[0]
    return f"{place} (schema {schema})" if schema else place


def choose(setting: str, path: SearchPath, candidates: Sequence[Candidate]) -> Installation:
    """The schema of this installation. All processes come to the same answer, before the tables are
    made and behind it: only those of a version that did not choose are looked for elsewhere."""
    schema = _choose_schema(setting, path, candidates)
    chosen = next((candidate for candidate in candidates if candidate.schema == schema), None)
    return Installation(schema, chosen is not None and chosen.predates_schemas, chosen is not None)


def _choose_schema(setting: str, path: SearchPath, candidates: Sequence[Candidate]) -> str:
    if setting:
        return setting
    if (visible := next((candidate for candidate in candidates if candidate.is_visible), None)) is not None:
        return visible.schema
    if not path.is_of_url:
        return DEFAULT
    # Older versions did not heed the search_path of a URL, and made their tables without it.
    if any(candidate.schema == "public" and candidate.predates_schemas for candidate in candidates):
        return "public"
    if path.schema is None:
        raise ConfigError(
            "The search_path in NOETL_DATABASE_URL names no schema that exists; make it with CREATE SCHEMA, "
            "or name it in NOETL_DATABASE_SCHEMA instead."
        )
    return path.schema
