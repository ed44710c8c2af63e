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
    """Where no broker is set, whoever schedules finds what was asked for in the tables. `base_dir`
    is where relative file names of tools start, which reach what this machine's user does."""
    settings = Settings.from_env()
    bootstrap.open_log(settings)
    settings.make_home()
    if not settings.database_url:
        upgrade(settings.database)
    directories = () if base_dir is None else (base_dir,)
    files = settings.file_policy(directories, started_by_user=True)
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings), files=files)
    try:
        yield rt
    finally:
        bootstrap.close(rt)
