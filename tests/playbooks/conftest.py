"""What the corpus runs on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir

import pytest

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases.runtime import Runtime

from .web import serving

#: Bytes of JSON that the log takes: of everything, and of nothing but numbers and the like.
INLINE = {"inline": 1 << 30, "by_reference": 1}


@pytest.fixture(
    scope="module",
    params=["inline", pytest.param("by_reference", marks=pytest.mark.full("the corpus a second time"))],
)
def rt(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """A run says the same whatever is kept by reference."""
    home = tmp_path_factory.mktemp("home")
    settings = Settings(
        home=home,
        allow_private_networks=True,
        inline_bytes=INLINE[request.param],
    )
    # Files that playbooks name lie below the working directory, as data of tests do.
    files = tmp_path_factory.mktemp("files")
    with chdir(files), bootstrap.local(settings, base_dir=files) as opened:
        yield opened


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with serving() as address:
        yield address
