"""The provider `vault`: the KV engine, version 2, of HashiCorp Vault
(https://developer.hashicorp.com/vault/api-docs/secret/kv/kv-v2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.kit.call_secrets import hide, open_data
from noetl.tools.secrets.sources import SourceSettings
from noetl.usecases.credential_types import TOKEN, first
from noetl.usecases.secrets import Secret

if TYPE_CHECKING:
    import requests

#: Seconds for connecting and for the answer.
_TIMEOUT: Final = (5.0, 10.0)
#: Bytes of an answer.
_LARGEST: Final = 1_048_576


class HashicorpVault:
    """Secrets as `mount/path`; a secret is the mapping of its fields. Certificates are always
    checked."""

    keep_s = 60.0

    def __init__(self, settings: SourceSettings) -> None:
        self._addr = settings.vault_addr.rstrip("/")
        self._token = settings.vault_token
        self._token_file = settings.vault_token_file
        self._ca = settings.vault_ca

    def asking_with(self, credential: Mapping[str, Json]) -> HashicorpVault:
        """This provider with another token. Raises ToolError where the credential holds none."""
        token = first(open_data(credential), TOKEN)
        if token is None:
            raise ToolError(
                "auth", "The `auth` of a secret of vault needs a `token`.", type="UnusableCredential"
            )
        hide([str(token)])
        asking = copy(self)
        asking._token = str(token)
        return asking

    def read(self, name: str, version: str | None) -> Secret:
        """See `noetl.usecases.secrets.Provider`. Raises ToolError where the server gives no such
        secret."""
        if not self._addr:
            raise ToolError(
                "auth",
                "The provider vault gives nothing: NOETL_VAULT_ADDR is not set on this worker.",
                type="ProviderOff",
            )
        if urlsplit(self._addr).scheme not in ("http", "https"):
            raise ToolError("client_error", "NOETL_VAULT_ADDR is no address; write https://host:8200.")
        mount, _, path = name.strip("/").partition("/")
        if not path or any(part in ("", ".", "..") for part in path.split("/")):
            raise ToolError("client_error", f"{name[:120]!r} names no secret of vault; write mount/path.")
        if version is not None and not version.isdecimal():
            raise ToolError(
                "client_error", f"Version {version[:20]!r} of {name!r} is no number; vault counts from 1."
            )
        url = f"{self._addr}/v1/{quote(mount, safe='')}/data/{quote(path)}"
        return _secret(name, self._answer(url, version, name))

    def _answer(self, url: str, version: str | None, name: str) -> Mapping[str, Json]:
        import requests  # it takes 90 ms, and most workers read no secret from here

        with requests.Session() as session:
            session.trust_env = False
            try:
                answer = session.get(
                    url,
                    params={"version": version} if version else None,
                    headers={"X-Vault-Token": self._bearer(), "X-Vault-Request": "true"},
                    verify=str(self._ca) if self._ca else True,
                    timeout=_TIMEOUT,
                    allow_redirects=False,
                    stream=True,
                )
                with answer:
                    return _body(answer, name)
            except requests.Timeout:
                raise ToolError(
                    "timeout",
                    "Vault gave no answer in time; try again later.",
                    retryable=True,
                    type="Timeout",
                ) from None
            except (requests.RequestException, OSError) as error:
                # Without its words: they quote the request.
                raise ToolError(
                    "connection",
                    f"Vault cannot be reached at {self._addr} ({type(error).__name__}).",
                    retryable=not isinstance(error, requests.exceptions.SSLError),
                    type=type(error).__name__,
                ) from None

    def _bearer(self) -> str:
        if self._token:
            return self._token
        if self._token_file is None:
            raise ToolError(
                "auth",
                "Vault wants a token; set NOETL_VAULT_TOKEN_FILE or NOETL_VAULT_TOKEN.",
                type="NoToken",
            )
        try:
            return self._token_file.read_text("ascii").strip()
        except (OSError, UnicodeError):
            raise ToolError(
                "auth", f"The file {self._token_file} gives no token for vault.", type="NoToken"
            ) from None


def _body(answer: requests.Response, name: str) -> Mapping[str, Json]:
    status = answer.status_code
    if status == 200:
        try:
            found = json.loads(answer.raw.read(_LARGEST, decode_content=True))
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, Mapping) else {}
    if status == 404:
        raise ToolError(
            "auth", f"Vault has no secret {name!r}, or not that version of it.", type="UnknownSecret"
        )
    if status in (400, 401, 403):
        raise ToolError(
            "auth", f"Vault does not give {name!r} to the token of this worker ({status}).", type="Refused"
        )
    if status == 429 or status >= 500:
        kind = "rate_limit" if status == 429 else "server_error"
        raise ToolError(
            kind, f"Vault answered {status}; try again later.", retryable=True, type="Unavailable"
        )
    raise ToolError("client_error", f"NOETL_VAULT_ADDR answered {status}, and no secret.", type="NotVault")


def _secret(name: str, body: Mapping[str, Json]) -> Secret:
    outer = body.get("data")
    data = outer.get("data") if isinstance(outer, Mapping) else None
    about = outer.get("metadata") if isinstance(outer, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(about, Mapping) or "version" not in about:
        raise ToolError(
            "auth", f"What vault keeps as {name!r} is no secret of KV version 2.", type="UnknownSecret"
        )
    return Secret(dict(data), str(about["version"]))
