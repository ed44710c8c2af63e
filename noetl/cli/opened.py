"""A runtime over the settings' database, for commands that read and steer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noetl import bootstrap
from noetl.config import Settings
from noetl.store.migrate import upgrade
from noetl.usecases.runtime import Runtime


@contextmanager
def opened(base_dir: Path | None = None) -> Iterator[Runtime]:
    """Where no broker is set, whoever schedules finds what was asked for in the tables. `base_dir` is where relative
    file names of tools start."""
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    settings.make_home()
    if not settings.database_url:
        upgrade(settings.database)
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings), base_dir=base_dir)
    try:
        yield rt
    finally:
        bootstrap.close(rt)
