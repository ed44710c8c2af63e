"""The port of compiled nets."""

from __future__ import annotations

from typing import Protocol

from noetl.facts.json import JsonMap


class Nets(Protocol):
    """Compiled nets by their digests."""

    def put(self, digest: str, body: JsonMap) -> None:
        """Keeps a compiled net; the same digest twice is fine."""

    def get(self, digest: str) -> JsonMap | None: ...
