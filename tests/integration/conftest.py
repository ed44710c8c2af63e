"""Playbooks run for real: threads, a real SQLite file, real tools."""

from __future__ import annotations

import ipaddress
import textwrap
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import make_url

from noetl import bootstrap
from noetl.config import Settings
from noetl.usecases import catalog, credentials, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

#: Runs a playbook and returns what `noetl run --json` prints.
Run: TypeAlias = Callable[..., dict[str, Any]]

_numbers = count(1)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Those of a home of this module's own."""
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def rt(settings: Settings) -> Iterator[Runtime]:
    """The engine of `noetl run`."""
    with bootstrap.local(settings) as opened:
        yield opened


@pytest.fixture
def run(rt: Runtime, run_in: Callable[[Runtime], Run]) -> Run:
    """`run(body, **payload)`: the root keys of a playbook behind its head, as YAML."""
    return run_in(rt)


@pytest.fixture(scope="session")
def run_in() -> Callable[[Runtime], Run]:
    """`run` for an engine of one's own."""
    return _runner


def _runner(rt: Runtime) -> Run:
    def ran(body: str, *, overrides: Any = None, **payload: Any) -> dict[str, Any]:
        body = textwrap.dedent(body)
        path = f"tests/{next(_numbers)}"
        head = f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: test, path: {path}}}\n"
        row = catalog.register(rt, head + body, "test.yaml")
        execution_id = start(rt, StartRequest(row.path, row.version, payload, overrides or {})).execution_id
        until(
            lambda: inspect.execution(rt, execution_id).status in ENDED,
            lambda: f"the execution to end: {inspect.state_view(rt, execution_id)}",
        )
        return inspect.report(rt, execution_id).as_json()

    return ran


@pytest.fixture
def result(run: Run) -> Callable[..., Any]:
    """The result of a playbook that must complete."""

    def of(body: str, **options: Any) -> Any:
        report = run(body, **options)
        assert report["status"] == "completed", report["error"]
        return report["result"]

    return of


@pytest.fixture
def error(run: Run) -> Callable[..., dict[str, Any]]:
    """The error of a playbook that must fail."""

    def of(body: str, **options: Any) -> dict[str, Any]:
        report = run(body, **options)
        assert report["status"] == "failed", report
        found: dict[str, Any] = report["error"]
        return found

    return of


@pytest.fixture
def warehouse(rt: Runtime, settings: Settings, empty_postgres_url: str) -> str:
    """The name of a credential for a real database."""
    url = make_url(empty_postgres_url)
    data = {
        "host": url.host or dict(url.query)["host"],
        "port": url.port,
        "user": url.username,
        "password": url.password,
        "database": url.database,
    }
    data = {key: value for key, value in data.items() if value is not None}
    credentials.save(rt, "warehouse", "postgres", data)
    return "warehouse"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and the certificate that it signed for 127.0.0.1, in one file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = tmp_path_factory.mktemp("tls") / "server.pem"
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(pem)
    )
    return file
