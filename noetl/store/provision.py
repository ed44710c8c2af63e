"""Makes the schema of a new installation in PostgreSQL, which may have tables of others."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from noetl.errors import ConfigError
from noetl.store.search_path import quote

log = logging.getLogger(__name__)

#: Tables of extensions are nobody's.
_SURVEY: Final = text("""\
WITH others AS (
  SELECT relnamespace, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
  WHERE relkind IN ('r', 'p', 'f') AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%'
    AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid
      AND deptype = 'e'))
SELECT current_user, current_database(), has_database_privilege(current_database(), 'CREATE'),
  (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = :schema),
  ARRAY(SELECT relname::text FROM others JOIN pg_namespace n ON n.oid = relnamespace
    WHERE nspname = :schema ORDER BY relname LIMIT 4),
  EXISTS (SELECT FROM others)""")


class _Surroundings(NamedTuple):
    role: str
    database: str
    may_make_schema: bool
    #: None: there is no such schema.
    may_make_tables: bool | None
    tables_of_others: list[str]
    has_others: bool


def make_schema(connection: Connection, schema: str, *, is_asked_for: bool) -> None:
    """Makes the schema where there is none. Raises ConfigError where the role may not make tables,
    or where others have some in the schema and nobody asked for more."""
    surroundings = _Surroundings(*connection.execute(_SURVEY, {"schema": schema}).one())
    _check_rights(surroundings, schema)
    if not is_asked_for:
        _check_others(surroundings, schema)
    if surroundings.may_make_tables is None:
        connection.execute(CreateSchema(schema))


def _check_rights(surroundings: _Surroundings, schema: str) -> None:
    role, database, name = quote(surroundings.role), quote(surroundings.database), quote(schema)
    if surroundings.may_make_tables is False:
        raise ConfigError(
            f"The role {role} may not make tables in the schema {name} of the database {database}; have its "
            f"owner run `GRANT USAGE, CREATE ON SCHEMA {name} TO {role}`."
        )
    if surroundings.may_make_tables is None and not surroundings.may_make_schema:
        raise ConfigError(
            f"The role {role} may not make the schema {name} in the database {database}; have its owner "
            f"run `GRANT CREATE ON DATABASE {database} TO {role}` (or `CREATE SCHEMA {name} AUTHORIZATION "
            f"{role}`)."
        )


def _check_others(surroundings: _Surroundings, schema: str) -> None:
    if names := surroundings.tables_of_others:
        shown = ", ".join([*names[:3], *(["…"] if len(names) > 3 else [])])
        raise ConfigError(
            f"The schema {quote(schema)} of the database {quote(surroundings.database)} has tables of others "
            f"({shown}) and none of NoETL's; run `noetl db upgrade` to make "
            "them beside those, or name a schema of their own in NOETL_DATABASE_SCHEMA."
        )
    if surroundings.has_others:
        log.warning(
            "The database %s has tables of others; those of NoETL are made in the schema %s.",
            quote(surroundings.database),
            quote(schema),
        )
