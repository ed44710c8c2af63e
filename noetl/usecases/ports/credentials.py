"""The port of credentials at rest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

#: Who may use a credential: everybody, playbooks whose path is its place or below, one execution
#: until it has ended, or what was given to one execution as long as its results are kept.
CredentialScope: TypeAlias = Literal["global", "path", "execution", "lineage"]


def credential_key(name: str, scope: CredentialScope = "global", place: str = "") -> str:
    """See `CredentialRow.key`."""
    return name if scope == "global" else f"{name}@{scope}:{place}"


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential, encrypted. `data` is the ciphertext. `place` is the path, or the execution,
    that it is kept for."""

    name: str
    type: str
    data: bytes
    created_at: datetime
    updated_at: datetime
    scope: CredentialScope = "global"
    place: str = ""

    @property
    def key(self) -> str:
        """What no other credential is stored under; `@` is in no name."""
        return credential_key(self.name, self.scope, self.place)


class Credentials(Protocol):
    """Credentials, encrypted."""

    def save(self, row: CredentialRow) -> None: ...

    def get(self, key: str) -> CredentialRow | None:
        """By `CredentialRow.key`."""

    def find(self, name: str | None = None) -> list[CredentialRow]:
        """All that somebody set, or all of one name, ordered by key."""

    def find_of_lineages(self) -> list[CredentialRow]:
        """What was given to executions: secret inputs, ordered by key."""

    def reencrypt(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""

    def delete(self, key: str) -> bool: ...

    def execution_ids(self) -> list[str]:
        """The ids of those that credentials are kept for until they have ended."""

    def lineage_ids(self, after: str | None, limit: int) -> list[str]:
        """The ids of those to which secrets were given, ascending, behind `after`."""

    def delete_of(self, execution_id: str, scope: CredentialScope = "execution") -> None: ...
