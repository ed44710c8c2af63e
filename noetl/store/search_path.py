"""Connects to PostgreSQL with the schema of the installation as the whole `search_path`.

It is an option that the session begins with, so that a statement costs nothing more, and what
resets a session leaves it alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from noetl.errors import ConfigError
from noetl.store.installation import CANDIDATES, Candidate, Installation, SearchPath, choose

#: In the options of a connection, where `-c name=` and `--name=` take `-` for `_`.
_PATH: Final = re.compile(r"search[_-]path", re.IGNORECASE)
_SESSION: Final = """\
SELECT current_setting('search_path'), current_schema(), current_user, current_database(),
  (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %s)"""


class _Session(NamedTuple):
    path: str
    schema: str | None
    role: str
    database: str
    #: None: there is no such schema.
    may_use: bool | None


class Connector:
    """What an engine connects by. `setting` is the schema that the settings name; empty: the
    database is asked, until there are tables in it."""

    def __init__(self, setting: str = "") -> None:
        self.setting = setting
        self._installation: Installation | None = None

    @property
    def installation(self) -> Installation:
        """That of the connections, of which there must have been one."""
        assert self._installation is not None
        return self._installation

    def connect(self, dialect: Any, _record: Any, arguments: Any, parameters: Mapping[str, Any]) -> Any:
        """A listener of the engine's event `do_connect`."""
        open_session = partial(dialect.connect, *arguments)
        known = self._installation
        if known is not None and known.has_tables:
            return open_session(**_pin(parameters, known.schema))
        return self._find_out(open_session, parameters)

    def _find_out(self, open_session: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        """Where the settings name no schema, a session shows the `search_path` that it has by
        itself, and another one stays."""
        raw = open_session(**(_pin(parameters, self.setting) if self.setting else parameters))
        try:
            chosen = _ask(raw, self.setting, is_of_url=_PATH.search(parameters["options"]) is not None)
            if not self.setting:
                raw.close()
                raw = open_session(**_pin(parameters, chosen.schema))
            _check(raw, chosen.schema)
        except BaseException:
            raw.close()
            raise
        self._installation = chosen
        return raw


def _pin(parameters: Mapping[str, Any], schema: str) -> dict[str, Any]:
    value = re.sub(r"([\\\s])", r"\\\1", quote(schema))
    return {**parameters, "options": f"{parameters['options']} -c search_path={value}"}


def read_pinned(options: str) -> str:
    """The schema, as SQL names it, that `_pin` put into the options of a connection."""
    return re.sub(r"\\(.)", r"\1", options.rpartition("search_path=")[2])


def quote(schema: str) -> str:
    """As SQL names it."""
    return '"{}"'.format(schema.replace('"', '""'))


def _ask(raw: Any, setting: str, *, is_of_url: bool) -> Installation:
    with raw.cursor() as cursor:
        cursor.execute(CANDIDATES)
        rows = cursor.fetchall()
    candidates = [Candidate(*row[1:]) for row in rows if row[1] is not None]
    return choose(setting, SearchPath(rows[0][0], is_of_url), candidates)


def _check(raw: Any, schema: str) -> None:
    """Raises ConfigError where the tables would be sought elsewhere, or not be seen."""
    with raw.cursor() as cursor:
        cursor.execute(_SESSION, [schema])
        session = _Session(*cursor.fetchone())
    raw.rollback()
    database, role, name = map(quote, (session.database, session.role, schema))
    if session.may_use is False:
        raise ConfigError(
            f"The role {role} may not use the schema {name} of the database {database}; have its owner run "
            f"`GRANT USAGE ON SCHEMA {name} TO {role}`."
        )
    # Where the schema is not made yet, its name tells; roles have it without quotes.
    if session.schema != schema and session.path.replace('"', "") != schema.replace('"', ""):
        raise ConfigError(
            f"The search_path of a connection to the database {database} is {session.path}, and not {name}, "
            "as a pooler drops the options of a client; run "
            f"`ALTER ROLE {role} IN DATABASE {database} SET search_path = {name}`, and connect anew."
        )
