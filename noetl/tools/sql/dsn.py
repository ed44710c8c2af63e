"""How the fields of a credential name a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.errors import ToolError
from noetl.facts.json import Json

#: What a credential calls it → what the driver calls it.
POSTGRES_FIELDS = {
    "host": "host",
    "db_host": "host",
    "hostname": "host",
    "port": "port",
    "db_port": "port",
    "user": "user",
    "username": "user",
    "db_user": "user",
    "password": "password",
    "db_password": "password",
    "database": "dbname",
    "db": "dbname",
    "dbname": "dbname",
    "db_name": "dbname",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "options": "options",
    "application_name": "application_name",
    "connect_timeout": "connect_timeout",
    "target_session_attrs": "target_session_attrs",
    "channel_binding": "channel_binding",
    "gssencmode": "gssencmode",
}


def postgres_dsn(data: Mapping[str, Json]) -> dict[str, str]:
    """Keyword arguments of `psycopg2.connect` from a credential of type postgres.

    `data` holds host, port, user, password, database, or `dsn` (`url`) as a URL or `key=value`
    pairs; single fields win over those of the dsn. Raises ToolError(auth) that never quotes a
    value."""
    dsn = data.get("dsn") or data.get("url")
    settings = _parse(str(dsn)) if dsn else {}
    for name, value in data.items():
        target = POSTGRES_FIELDS.get(name)
        if target is not None and value not in (None, ""):
            settings[target] = value
    if not settings.get("host"):
        raise ToolError(
            "auth",
            "The postgres connection has no host; give `host`, `user`, `password` and `database`, or `dsn`.",
        )
    return {name: str(value) for name, value in settings.items()}


def unknown_postgres_fields(data: Mapping[str, Json]) -> list[str]:
    """Fields of a credential that connections do not look at."""
    return [name for name in data if name not in POSTGRES_FIELDS and name not in ("dsn", "url", "type")]


def _parse(dsn: str) -> dict[str, Json]:
    # Imported here: the driver takes 50 ms, and most users of this module never need it.
    import psycopg2
    from psycopg2.extensions import parse_dsn

    scheme, separator, rest = dsn.strip().partition("://")
    plain = scheme.partition("+")[0] + separator + rest
    try:
        parts: dict[str, Json] = parse_dsn(plain)
    except psycopg2.Error:
        # The driver's message may quote a part of the dsn, and with it the password.
        raise ToolError(
            "auth", "The `dsn` cannot be read; write postgresql://user:password@host:port/database."
        ) from None
    unknown = sorted(set(parts) - set(POSTGRES_FIELDS.values()))
    if unknown:
        raise ToolError("auth", f"The `dsn` sets '{unknown[0]}', which is not supported; leave it out.")
    return parts
