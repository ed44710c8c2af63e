"""Providers of secrets: the environment, files, a vault of HashiCorp's protocol, and those of
others."""

from __future__ import annotations

import importlib.metadata
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from noetl.errors import ToolError
from noetl.tools.secrets import sources as secret_sources
from noetl.tools.secrets.sources import Providers, SourceSettings
from noetl.usecases.secrets import Secret
from tests.httpd import Handler, Server, stopped


def refused(provider: Any, name: str, version: str | None = None) -> ToolError:
    with pytest.raises(ToolError) as caught:
        provider.read(name, version)
    return caught.value


# --- the environment, files ----------------------------------------------------------------------


def test_of_the_environment_only_what_has_the_prefix_is_given() -> None:
    env = Providers(SourceSettings(variables={"TOKEN": "t"}, prefix="MY_"))("env")

    assert env.read("TOKEN", None) == env.read("MY_TOKEN", None) == Secret("t")
    error = refused(env, "TOKENN")
    assert (error.kind, error.retryable) == ("auth", False)
    assert "'MY_TOKENN' is not set on this worker. Did you mean 'TOKEN'?" in error.message
    assert "NOETL_SECRETS_ENV_PREFIX" in refused(Providers(SourceSettings())("env"), "PATH").message
    assert "no versions" in refused(env, "TOKEN", "2").message


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    (folder / "db").mkdir(parents=True)
    (folder / "db" / "password").write_text("s3cret\n")
    (folder / "db" / "password").chmod(0o600)
    (tmp_path / "outside").write_text("s3cret")
    (tmp_path / "outside").chmod(0o600)
    (folder / "link").symlink_to(tmp_path / "outside")
    return folder


def test_a_file_below_the_directory_is_given_without_its_line_end(root: Path) -> None:
    files = Providers(SourceSettings(directory=root))("file")

    assert files.read("db/password", None) == Secret("s3cret")


@pytest.mark.parametrize(
    "name", ["../outside", "link", "/etc/passwd", "db", "nothing", "db/../../outside", "a\0b", "", "x" * 5000]
)
def test_nothing_outside_of_the_directory_is_given(root: Path, name: str) -> None:
    error = refused(Providers(SourceSettings(directory=root))("file"), name)

    assert (error.kind, error.retryable) == ("auth", False)
    assert "s3cret" not in error.message


@pytest.mark.parametrize("mode", [0o644, 0o606, 0o660])
def test_a_file_that_others_may_read_or_change_is_refused(root: Path, mode: int) -> None:
    (root / "db" / "password").chmod(mode)

    error = refused(Providers(SourceSettings(directory=root))("file"), "db/password")

    assert f"mode {mode:o}" in error.message


# --- vault ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and the certificate that it signed for 127.0.0.1, in one file."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    key = file.with_suffix(".key")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(file)], check=True, capture_output=True)
    file.write_text(file.read_text() + key.read_text())
    return file


@pytest.fixture
def vault(certificate: Path) -> Iterator[Server]:
    """KV version 2 at `kv/`: versions are counted, deleted ones have no data."""
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    versions: dict[str, list[dict[str, str] | None]] = {
        "/v1/kv/data/app/db": [{"password": "first"}, {"password": "second"}, None]
    }

    def read(handler: Handler) -> None:
        url = urlsplit(handler.path)
        if handler.headers.get("x-vault-token") != "root-token":
            handler.json({"errors": ["permission denied"]}, 403)
            return
        kept = versions[url.path]
        wanted = int(parse_qs(url.query).get("version", ["2"])[0])
        data = kept[wanted - 1] if wanted <= len(kept) else None
        about = {"version": wanted, "destroyed": data is None}
        handler.json({"data": {"data": data, "metadata": about}}, 200 if data is not None else 404)

    server.routes["/v1/kv/data/app/db"] = read
    server.routes["/v1/kv/data/app/none"] = lambda handler: handler.json({"errors": []}, 404)
    server.routes["/v1/kv/data/app/sealed"] = lambda handler: handler.json({"errors": ["sealed"]}, 503)
    server.routes["/v1/kv/data/app/odd"] = lambda handler: handler.answer(b"<html>")
    server.routes["/v1/kv/data/app/moved"] = lambda handler: handler.answer(b"", 307, location="http://x/")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    stopped(server)


def of(vault: Server, certificate: Path | None, token: str = "root-token", **more: Any) -> Any:
    addr = f"https://127.0.0.1:{vault.server_address[1]}"
    return Providers(SourceSettings(vault_addr=addr, vault_token=token, vault_ca=certificate, **more))(
        "vault"
    )


def test_a_vault_gives_the_newest_version_or_the_one_that_is_asked_for(
    vault: Server, certificate: Path
) -> None:
    provider = of(vault, certificate)

    assert provider.read("kv/app/db", None) == Secret({"password": "second"}, "2")
    assert provider.read("kv/app/db", "1") == Secret({"password": "first"}, "1")


def test_the_token_may_lie_in_a_file(vault: Server, certificate: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("root-token\n")

    provider = of(vault, certificate, "", vault_token_file=tmp_path / "token")

    assert provider.read("kv/app/db", None).version == "2"
    assert "NOETL_VAULT_TOKEN_FILE" in refused(of(vault, certificate, ""), "kv/app/db").message


def test_a_vault_is_asked_with_the_token_of_a_credential(vault: Server, certificate: Path) -> None:
    provider = of(vault, certificate, "wrong-token")

    asking = provider.asking_with({"type": "bearer", "token": "root-token"})

    assert asking.read("kv/app/db", "1") == Secret({"password": "first"}, "1")
    assert refused(provider, "kv/app/db").type == "Refused"
    with pytest.raises(ToolError, match="needs a `token`"):
        provider.asking_with({"username": "me"})


@pytest.mark.parametrize(
    ("name", "version", "kind", "retryable"),
    [
        ("kv/app/db", "3", "auth", False),
        ("kv/app/none", None, "auth", False),
        ("kv/app/sealed", None, "server_error", True),
        ("kv/app/odd", None, "auth", False),
        ("kv/app/moved", None, "client_error", False),
        ("kv/../../sys", None, "client_error", False),
        ("kv", None, "client_error", False),
        ("kv/app/db", "new", "client_error", False),
    ],
)
def test_what_a_vault_does_not_give_is_one_clear_error(
    vault: Server, certificate: Path, name: str, version: str | None, kind: str, retryable: bool
) -> None:
    error = refused(of(vault, certificate), name, version)

    assert (error.kind, error.retryable) == (kind, retryable)


def test_a_wrong_token_a_stranger_and_a_vault_that_is_away(vault: Server, certificate: Path) -> None:
    assert refused(of(vault, certificate, "wrong-token"), "kv/app/db").kind == "auth"
    stranger = refused(of(vault, None), "kv/app/db")
    assert (stranger.kind, stranger.retryable) == ("connection", False)
    settings = SourceSettings(vault_addr="https://127.0.0.1:9", vault_token="s3cret-token")
    away = refused(Providers(settings)("vault"), "kv/app/db")
    assert (away.kind, away.retryable) == ("connection", True)
    assert "s3cret" not in away.message


# --- those of others -----------------------------------------------------------------------------


class Cloud:
    """What a package of somebody else's would register."""

    keep_s = 0.0

    def __init__(self, settings: SourceSettings) -> None:
        self.settings = settings

    def read(self, name: str, version: str | None) -> Secret:
        return Secret({"name": name}, version or "7")


def test_a_provider_is_found_through_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "cloud": importlib.metadata.EntryPoint("cloud", f"{__name__}:Cloud", secret_sources.GROUP),
        "broken": importlib.metadata.EntryPoint("broken", "no_such_module:X", secret_sources.GROUP),
    }
    monkeypatch.setattr(secret_sources, "entry_points", lambda: points)
    providers = Providers(SourceSettings())

    assert providers("cloud").read("a", None) == Secret({"name": "a"}, "7")
    assert providers("cloud") is providers("cloud")
    with pytest.raises(ToolError, match=r"no provider of secrets 'cluod'. Did you mean 'cloud'\?"):
        providers("cluod")
    with pytest.raises(ToolError, match="cannot be loaded"):
        providers("broken")


def test_the_providers_of_noetl_are_registered_like_those_of_others() -> None:
    assert set(secret_sources.entry_points()) >= {"env", "file", "vault"}
