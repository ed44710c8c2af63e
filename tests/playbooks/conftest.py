"""What the corpus runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir, contextmanager

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

from .web import serving


@contextmanager
def _opened(folders: pytest.TempPathFactory, inline_bytes: int) -> Iterator[Runtime]:
    settings = Settings(home=folders.mktemp("home"), allow_private_networks=True, inline_bytes=inline_bytes)
    # Files that playbooks name lie below the working directory, as data of tests do.
    files = folders.mktemp("files")
    with chdir(files), bootstrap.local(settings, base_dir=files) as opened:
        yield opened


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Its log takes values of any size."""
    with _opened(tmp_path_factory, 1 << 30) as opened:
        yield opened


@pytest.fixture(scope="module")
def rt_by_reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Its log takes nothing but numbers and the like; all else is kept by reference."""
    with _opened(tmp_path_factory, 1) as opened:
        yield opened


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with serving() as address:
        yield address
