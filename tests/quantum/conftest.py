"""Fixtures of the quantum tool's tests that need a vendor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noetl.quantum.backends.ionq import IonQ
from noetl.quantum.config.task import Backend
from noetl.tools.kit.base import Services
from noetl.tools.kit.http.transport import HttpClient

from .ionq import KEY, IonQServer, serving
from .vendor import Clock


@pytest.fixture
def clock() -> Clock:
    """The time of the vendor and of the tool."""
    return Clock()


@pytest.fixture
def ionq(clock: Clock) -> Iterator[IonQServer]:
    with serving() as server:
        server.clock = clock
        yield server


@pytest.fixture
def client() -> Iterator[HttpClient]:
    opened = HttpClient(allow_private=True)
    yield opened
    opened.close()


@pytest.fixture
def services(tmp_path: Path) -> Services:
    """Those of a worker that knows one credential."""

    def credential(name: str) -> dict[str, str]:
        return {"type": "bearer", "token": KEY}

    return Services(credential=credential, scratch=tmp_path, allow_private_networks=True)


@pytest.fixture
def backend(ionq: IonQServer, client: HttpClient, services: Services) -> IonQ:
    options = {"settle_s": 0.2, "requests_per_minute": 100_000}
    return IonQ(Backend(provider="ionq", auth="main", host=ionq.url, options=options), services, client)
