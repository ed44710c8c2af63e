"""A runtime over the settings' database, for commands that read and steer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from noetl import bootstrap
from noetl.config import Settings
from noetl.store.migrate import upgrade
from noetl.usecases.runtime import Runtime


@contextmanager
def opened() -> Iterator[Runtime]:
    """Where no broker is set, whoever schedules finds what was asked for in the tables."""
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    settings.make_home()
    if not settings.database_url:
        upgrade(settings.database)
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
    try:
        yield rt
    finally:
        bootstrap.close(rt)
