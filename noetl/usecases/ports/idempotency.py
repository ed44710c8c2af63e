"""The port of idempotency keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The request that an idempotency key belongs to, by the digest of what it asked for, and its
    execution."""

    request_sha256: str
    execution_id: str


class IdempotencyKeys(Protocol):
    """Which request an idempotency key belongs to."""

    def claim(self, claims: Mapping[str, KeyOwner], now: datetime) -> Mapping[str, KeyOwner]:
        """Claims idempotency keys, in their order, each for the owner that is given. Returns whose
        each of them is now: where it was taken, the earlier owner. Waits for transactions that
        claim the same."""

    def give(self, key: str, execution_id: str) -> None:
        """Makes another execution the answer to the request that has claimed the key."""

    def release(self, key: str) -> None:
        """Gives a key back that was claimed: its request has no execution."""
