"""Credentials at rest: encrypted mappings, and what the fields of a credential mean."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.errors import BadRequest, ConfigError, ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_sealed_by, sealed

# Imported where it is used: it takes 20 ms, and most runs open no credential.
if TYPE_CHECKING:
    from cryptography.fernet import Fernet

#: What a credential calls it → what the driver calls it.
POSTGRES_FIELDS = {
    "host": "host",
    "db_host": "host",
    "hostname": "host",
    "port": "port",
    "db_port": "port",
    "user": "user",
    "username": "user",
    "db_user": "user",
    "password": "password",
    "db_password": "password",
    "database": "dbname",
    "db": "dbname",
    "dbname": "dbname",
    "db_name": "dbname",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "options": "options",
    "application_name": "application_name",
    "connect_timeout": "connect_timeout",
    "target_session_attrs": "target_session_attrs",
    "channel_binding": "channel_binding",
    "gssencmode": "gssencmode",
}


def generate_key() -> str:
    """A new key: 32 random bytes in URL-safe base64."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode("ascii")


class Vault:
    """Encrypts mappings. `keys` are separated by commas; the first encrypts, all decrypt."""

    def __init__(self, keys: str) -> None:
        texts = [key.strip() for key in keys.split(",") if key.strip()]
        if not texts:
            raise ConfigError(
                "There is no key for credentials; set one (32 random bytes in URL-safe base64)."
            )
        from cryptography.fernet import MultiFernet

        self._fernet = MultiFernet([_fernet(text, number) for number, text in enumerate(texts, 1)])
        # Keys of their own, made from those that encrypt: what a seal tells is of no use against a credential.
        self._seals = [
            hmac.digest(text.encode(), b"noetl: references to secrets", "sha256") for text in texts
        ]

    def __repr__(self) -> str:
        return f"Vault({len(self._seals)} keys)"

    def encrypt(self, data: Mapping[str, Json]) -> bytes:
        """The ciphertext of `data`. Raises BadRequest where it is not JSON."""
        try:
            text = json.dumps(dict(data), allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            # The cause is left out: it may quote the secret.
            raise BadRequest("The data of a credential must be a JSON mapping of plain values.") from None
        return self._fernet.encrypt(text.encode())

    def decrypt(self, token: bytes) -> dict[str, Json]:
        """The mapping that `encrypt` was given. Raises ConfigError where no key fits."""
        from cryptography.fernet import InvalidToken

        try:
            text = self._fernet.decrypt(bytes(token))
        except InvalidToken:
            raise ConfigError(
                "A credential cannot be decrypted with the keys of this process; add the key that encrypted it "
                "behind the current one, or set the credential again."
            ) from None
        data: dict[str, Json] = json.loads(text)
        return data

    def seal(self, reference: JsonMap) -> dict[str, Json]:
        """`reference` to a secret, sealed with the first key."""
        return sealed(reference, self._seals[0])

    def has_sealed(self, reference: JsonMap) -> bool:
        """Whether one of the keys made the seal of `reference`."""
        return any(is_sealed_by(reference, key) for key in self._seals)


def _fernet(text: str, number: int) -> Fernet:
    from cryptography.fernet import Fernet

    try:
        return Fernet(text.encode("ascii"))
    except ValueError:
        raise ConfigError(
            f"Key {number} for credentials is not 32 bytes in URL-safe base64; make one with "
            "`python -c 'from noetl.tools.secrets.vault import generate_key; print(generate_key())'`."
        ) from None


def postgres_dsn(data: Mapping[str, Json]) -> dict[str, Json]:
    """Keyword arguments of `psycopg2.connect` from a credential of type postgres.

    `data` holds host, port, user, password, database, or `dsn` (`url`) as a URL or `key=value` pairs;
    single fields win over those of the dsn. Raises ToolError(auth) that never quotes a value.
    """
    dsn = data.get("dsn") or data.get("url")
    settings = _parsed(str(dsn)) if dsn else {}
    for name, value in data.items():
        target = POSTGRES_FIELDS.get(name)
        if target is not None and value not in (None, ""):
            settings[target] = value
    if not settings.get("host"):
        raise ToolError(
            "auth",
            "The postgres connection has no host; give `host`, `user`, `password` and `database`, or `dsn`.",
        )
    return {name: str(value) for name, value in settings.items()}


def unknown_postgres_fields(data: Mapping[str, Json]) -> list[str]:
    """Fields of a credential that connections do not look at."""
    return [name for name in data if name not in POSTGRES_FIELDS and name not in ("dsn", "url", "type")]


def _parsed(dsn: str) -> dict[str, Json]:
    # Imported here: the driver takes 50 ms, and most users of this module never need it.
    import psycopg2
    from psycopg2.extensions import parse_dsn

    scheme, separator, rest = dsn.strip().partition("://")
    plain = scheme.partition("+")[0] + separator + rest
    try:
        parts: dict[str, Json] = parse_dsn(plain)
    except psycopg2.Error:
        # The driver's message may quote a part of the dsn, and with it the password.
        raise ToolError(
            "auth", "The `dsn` cannot be read; write postgresql://user:password@host:port/database."
        ) from None
    unknown = sorted(set(parts) - set(POSTGRES_FIELDS.values()))
    if unknown:
        raise ToolError("auth", f"The `dsn` sets '{unknown[0]}', which is not supported; leave it out.")
    return parts
