"""The port of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token: whose it is, what it grants, and the SHA-256 of its secret, in hex. `grants` are as
    `noetl.usecases.access.Grant` writes them; `rate` is like `100/minute`, None where it is not
    limited; `used_at` is exact to a minute."""

    token_id: str
    principal: str
    groups: tuple[str, ...]
    grants: tuple[str, ...]
    secret_sha256: str
    created_at: datetime
    created_by: str | None = None
    rate: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_at: datetime | None = None


class Tokens(Protocol):
    """Tokens. None is ever removed: what was done with one names its principal."""

    def add(self, row: TokenRow) -> bool:
        """False where one has the id already: it stays as it is."""

    def get(self, token_id: str) -> TokenRow | None: ...

    def find(self) -> list[TokenRow]:
        """All, in the order in which they were created."""

    def revoke(self, token_id: str, at: datetime) -> bool:
        """False where there is none that was not revoked yet."""

    def see(self, token_id: str, at: datetime) -> None:
        """It was used."""
