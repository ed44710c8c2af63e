"""Credentials at rest: encrypted mappings."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from noetl.errors import BadRequest, ConfigError
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_sealed_by, sealed

# Imported where it is used: it takes 20 ms, and most runs open no credential.
if TYPE_CHECKING:
    from cryptography.fernet import Fernet


def generate_key() -> str:
    """A new key: 32 random bytes in URL-safe base64."""
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode("ascii")


class FernetVault:
    """Encrypts mappings. `keys` are separated by commas; the first encrypts, all decrypt."""

    def __init__(self, keys: str) -> None:
        texts = [key.strip() for key in keys.split(",") if key.strip()]
        if not texts:
            raise ConfigError(
                "There is no key for credentials; set one (32 random bytes in URL-safe base64)."
            )
        from cryptography.fernet import MultiFernet

        self._fernet = MultiFernet([_fernet(text, number) for number, text in enumerate(texts, 1)])
        # Keys of their own, made from those that encrypt: what a seal tells is of no use against a
        # credential.
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
                "A credential cannot be decrypted with the keys of this process; add the key "
                "that encrypted it "
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
